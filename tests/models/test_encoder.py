from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, TypeVar

import numpy as np
import pytest

from rag_assets.compute.compute import LocalCompute
from rag_assets.errors import DataError, ModelUnavailable
from rag_assets.models.encoder import Encoder
from rag_assets.models.loading import forget_models

Result = TypeVar("Result")
Run = Callable[..., CompletedProcess[str]]

TEXTS = [
    "The ferry leaves at nine.",
    "",
    "Dogs travel free of charge on all our boats.",
    "  ",
    "The ferry leaves at nine.",
    "Quantum chromodynamics describes the strong interaction.",
    "naïve café, Fähre, 渡船",
    "long " * 600,
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(device="cpu")


@pytest.fixture(scope="module")
def fresh(encoder: Encoder) -> np.ndarray:
    return encoder.encode(TEXTS, kind="document")


def test_rows_are_float32_of_length_1_in_the_order_of_the_texts(fresh: np.ndarray) -> None:
    assert fresh.shape == (len(TEXTS), 384)
    assert fresh.dtype == np.float32
    assert np.allclose(np.linalg.norm(fresh.astype(np.float64), axis=1), 1.0, atol=1e-6)
    assert np.array_equal(fresh[0], fresh[4])


def test_same_vectors_as_sentence_transformers(fresh: np.ndarray, minilm_folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(minilm_folder), device="cpu", local_files_only=True)
    expected = model.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    assert (np.sum(fresh * expected, axis=1) >= 1 - 1e-6).all()
    assert model.max_seq_length == 256


class Groups(LocalCompute):
    """Computes, and notes what was embedded together."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def map(
        self, work: Callable[..., Result], blocks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Result]]:
        for number, block in enumerate(blocks):
            self.seen.append(block[0])
            yield number, work(*block)


def test_texts_with_most_tokens_come_first_however_many_letters_they_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rag_assets.models.encoder.BATCHES_PER_GROUP", 1)
    few, many, beyond, most = "internationally " * 9, "a " * 40, "long " * 300, "a " * 254
    texts = [few, many, beyond, most]
    groups = Groups()
    sorted_by_tokens = Encoder(device="cpu", batch_size=1, compute=groups)
    vectors = sorted_by_tokens.encode(texts, kind="document")
    # `beyond` and `most` fill what the model reads: then the first stays the first.
    assert groups.seen == [[beyond], [most], [many], [few]]
    together = Groups()
    assert np.allclose(
        Encoder(device="cpu", compute=together).encode(texts, kind="document"), vectors, atol=1e-6
    )
    assert together.seen == [[beyond, most, few, many]]  # one batch: nothing is counted


def test_past_the_cache_nothing_is_looked_up_or_kept(encoder: Encoder, tmp_path: Path) -> None:
    forget_models()
    cached = Encoder(cache=tmp_path, device="cpu")
    assert not cached.is_loaded
    vector = cached.encode_now(TEXTS[:1], kind="query")
    assert cached.is_loaded
    assert np.allclose(vector, encoder.encode(TEXTS[:1], kind="query"), atol=1e-6)
    assert list(tmp_path.iterdir()) == []


def test_what_is_looked_up_loads_no_model(tmp_path: Path) -> None:
    Encoder(cache=tmp_path, device="cpu").encode(TEXTS[:1], kind="query")
    forget_models()
    again = Encoder(cache=tmp_path, device="cpu")
    again.encode(TEXTS[:1], kind="query")
    assert not again.is_loaded


def test_vectors_are_written_where_they_stay(fresh: np.ndarray, tmp_path: Path) -> None:
    made: list[np.ndarray] = []

    def make(shape: tuple[int, int], *, dtype: type[np.float32]) -> np.ndarray:
        made.append(np.zeros(shape, dtype))
        return made[-1]

    cached = Encoder(cache=tmp_path, device="cpu")
    cached.encode(TEXTS[4:6], kind="document")
    for calls in (1, 2):  # some are known, and then all
        vectors = cached.encode(TEXTS, kind="document", make=make)
        assert vectors is made[-1]
        assert len(made) == calls
        assert np.allclose(vectors, fresh, atol=1e-6)
        assert np.array_equal(vectors[0], vectors[4])


def test_cached_vectors_equal_new_ones(encoder: Encoder, fresh: np.ndarray, tmp_path: Path) -> None:
    cached = Encoder(cache=tmp_path, device="cpu")
    first = cached.encode(TEXTS, kind="document")
    assert (np.sum(first * fresh, axis=1) >= 1 - 1e-6).all()
    calls: list[tuple[int, int]] = []
    again = Encoder(cache=tmp_path).encode(
        TEXTS[::-1], kind="query", progress=lambda done, total: calls.append((done, total))
    )
    assert np.array_equal(again[::-1], first)
    assert calls == []


@pytest.mark.slow
def test_killed_run_continues_where_it_was_flushed(run_python: Run, tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from rag_assets.models import cache_fill
from rag_assets.models import encoder
cache_fill.FLUSH_ROWS = 8
encoder.BATCHES_PER_GROUP = 1
def die(done, total):
    if done == 12:
        os.kill(os.getpid(), signal.SIGKILL)
texts = ["text number " + str(i) for i in range(20)]
encoder.Encoder(cache=Path({str(tmp_path)!r}), batch_size=4).encode(
    texts, kind="document", progress=die)
"""
    assert run_python(code).returncode == -signal.SIGKILL
    calls: list[tuple[int, int]] = []
    encoder = Encoder(cache=tmp_path, device="cpu")
    texts = [f"text number {i}" for i in range(20)]
    vectors = encoder.encode(
        texts, kind="document", progress=lambda done, total: calls.append((done, total))
    )
    assert calls == [(12, 12)]
    expected = Encoder(device="cpu").encode(texts, kind="document")
    assert (np.sum(vectors * expected, axis=1) >= 1 - 1e-6).all()


def test_prompts_are_put_before_texts_and_have_their_own_space(encoder: Encoder) -> None:
    prompted = Encoder(query_prompt="query: ", device="cpu")
    assert prompted.prompt("document") == ""
    assert np.allclose(
        prompted.encode(["ferry"], kind="query"),
        encoder.encode(["query: ferry"], kind="query"),
        atol=1e-6,
    )
    assert prompted.describe("query") != encoder.describe("query")
    assert prompted.describe("document") == encoder.describe("document")
    assert encoder.describe("query") == encoder.describe("document")


@pytest.fixture
def copied_model(minilm_folder: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "copied"
    shutil.copytree(minilm_folder, folder)
    return folder


def test_model_declared_in_half_precision_is_computed_in_fp32(
    copied_model: Path, fresh: np.ndarray
) -> None:
    config = json.loads((copied_model / "config.json").read_text())
    (copied_model / "config.json").write_text(json.dumps({**config, "torch_dtype": "bfloat16"}))
    vectors = Encoder(str(copied_model), device="cpu").encode(TEXTS, kind="document")
    assert (np.sum(fresh * vectors, axis=1) >= 1 - 1e-6).all()


def test_module_with_code_of_its_own_is_refused(copied_model: Path) -> None:
    modules = json.loads((copied_model / "modules.json").read_text())
    modules[2]["type"] = "own_code.Normalize"
    (copied_model / "modules.json").write_text(json.dumps(modules))
    (copied_model / "own_code.py").write_text("raise SystemExit('code of the model was run')")
    with pytest.raises(ModelUnavailable, match=r"cannot be loaded: .*third-party code"):
        Encoder(str(copied_model), device="cpu").encode(["a"], kind="query")


def test_damaged_weights_are_one_line(copied_model: Path) -> None:
    (copied_model / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelUnavailable, match="cannot be loaded") as caught:
        Encoder(str(copied_model), device="cpu").encode(["a"], kind="query")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN or infinity"), (0.0, "length 0")])
def test_model_without_a_direction_names_the_text(
    copied_model: Path, tmp_path: Path, value: float, what: str
) -> None:
    from safetensors.numpy import load_file, save_file

    weights = load_file(copied_model / "model.safetensors")
    for part in ("weight", "bias"):
        name = f"encoder.layer.5.output.LayerNorm.{part}"
        weights[name] = np.full_like(weights[name], value)
    save_file(weights, copied_model / "model.safetensors", metadata={"format": "pt"})
    encoder = Encoder(str(copied_model), cache=tmp_path / "cache", device="cpu")
    with pytest.raises(DataError, match=rf"the query 'the ferry' by .*{what}"):
        encoder.encode(["the ferry"], kind="query")
    assert not (tmp_path / "cache").exists()
