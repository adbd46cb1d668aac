"""Texts to vectors: batches, prompts, precision."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, TypeVar

import numpy as np
import pytest

from rag_assets.errors import DataError, ModelUnavailable
from rag_assets.models.encoder import Encoder, SparseTextEncoder, TokenEncoder
from rag_assets.models.known_prompts import known_model, prompts_of, served_prompts
from rag_assets.models.model_files import forget_models, load_model
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model
from rag_assets.models.token_counts import batch_lengths
from rag_assets.retrieval.dense.embedding import BiEncoder
from rag_assets.retrieval.workspace import NO_WORKSPACE
from tests.retrieval.reranking.tiny_models import LONGEST, colbert, masked_language_model
from tests.static_model import save_static_model

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


def test_past_the_cache_nothing_is_looked_up_or_kept(encoder: Encoder, tmp_path: Path) -> None:
    forget_models()
    cached = Encoder(cache=tmp_path, device="cpu")
    assert not cached.is_loaded
    vector = cached.encode_now(TEXTS[:1], kind="query")
    assert cached.is_loaded
    assert np.allclose(vector, encoder.encode(TEXTS[:1], kind="query"), atol=1e-6)
    assert list(tmp_path.iterdir()) == []


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
    first = Encoder(cache=tmp_path, device="cpu").encode(TEXTS, kind="document")
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
def copied_model(small_files: Path, minilm_folder: Path) -> Path:
    """A copy whose weights are a link."""
    (small_files / "model.safetensors").unlink()
    (small_files / "model.safetensors").symlink_to(minilm_folder / "model.safetensors")
    return small_files


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


def test_damaged_weights_are_one_line(small_files: Path) -> None:
    with pytest.raises(ModelUnavailable, match="cannot be loaded") as caught:
        Encoder(str(small_files), device="cpu").encode(["a"], kind="query")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN or infinity"), (0.0, "length 0")])
def test_model_without_a_direction_names_the_text(
    small_files: Path, minilm_folder: Path, tmp_path: Path, value: float, what: str
) -> None:
    from safetensors.numpy import load_file, save_file

    weights = load_file(minilm_folder / "model.safetensors")
    for part in ("weight", "bias"):
        name = f"encoder.layer.5.output.LayerNorm.{part}"
        weights[name] = np.full_like(weights[name], value)
    save_file(weights, small_files / "model.safetensors", metadata={"format": "pt"})
    encoder = Encoder(str(small_files), cache=tmp_path / "cache", device="cpu")
    with pytest.raises(DataError, match=rf"the query 'the ferry' by .*{what}"):
        encoder.encode(["the ferry"], kind="query")
    assert not (tmp_path / "cache").exists()


FEW, SOME, MANY, MOST = "☃" * 90, "☃" * 30 + " a", "a " * 20, "a " * 22
"""A run of snowmen is one unknown word to a model; most letters come with fewest tokens."""

Encode = Callable[[Sequence[str]], list[np.ndarray]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    masked_language_model(folder / "splade")
    colbert(folder / "colbert")
    save_static_model(folder / "static", ["a b"])
    return folder


@pytest.fixture
def by_two(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoder in (SparseTextEncoder, TokenEncoder):
        monkeypatch.setattr(encoder, "batch_size", 2)


def dense(models: Path) -> tuple[Any, Encode]:
    encoder = Encoder(device="cpu", batch_size=2)
    model = load_model(encoder.files, "cpu")
    return model, lambda texts: list(encoder.encode(texts, kind="document"))


def sparse(models: Path) -> tuple[Any, Encode]:
    encoder = SparseTextEncoder(str(models / "splade"))

    def encode(texts: Sequence[str]) -> list[np.ndarray]:
        rows = np.zeros((len(texts), 100), dtype=np.float32)
        vectors = encoder.encode(texts, kind="document")
        for row, vector in zip(rows, vectors, strict=True):
            row[vector.components] = vector.weights
        return list(rows)

    return load_model(encoder.files, library="SparseEncoder"), encode


def tokens(models: Path) -> tuple[Any, Encode]:
    return load_model(resolve_model(DEFAULT_MODEL)), by_token(DEFAULT_MODEL)


def trained_tokens(models: Path) -> tuple[Any, Encode]:
    name = str(models / "colbert" / "model")
    return load_model(resolve_model(name), library="MultiVectorEncoder"), by_token(name)


def by_token(model: str) -> Encode:
    encoder = TokenEncoder(model)
    return lambda texts: list(encoder.encode(texts, kind="document"))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[set[str]]]:
    """Note what a model is given to read at once."""

    def noted(model: Any) -> list[set[str]]:
        batches: list[set[str]] = []
        read = model.preprocess

        def preprocess(batch: list[str], *args: Any, **options: Any) -> Any:
            batches.append(set(batch))
            return read(batch, *args, **options)

        monkeypatch.setattr(model, "preprocess", preprocess)
        return batches

    return noted


@pytest.mark.usefixtures("by_two")
@pytest.mark.parametrize("kind", [dense, sparse, tokens, trained_tokens])
def test_texts_of_as_many_tokens_are_one_batch(
    models: Path, kind: Callable[[Path], tuple[Any, Encode]], seen: Callable[[Any], list[set[str]]]
) -> None:
    model, encode = kind(models)
    texts = [MANY, FEW, MOST, SOME]
    alone = [encode([text])[0] for text in texts]
    batches = seen(model)
    found = encode(texts)
    assert batches == [{MOST, MANY}, {FEW, SOME}]
    for one, same in zip(found, alone, strict=True):
        # Those of tokens are kept in half precision.
        np.testing.assert_allclose(one, same, atol=1e-5 if one.dtype == np.float32 else 2e-3)


def test_lengths_are_tokens_that_are_read_or_else_letters(models: Path) -> None:
    files = resolve_model(str(models / "splade"))
    texts = ["☃☃☃☃☃", "a b c", "a " * 99]
    assert batch_lengths(texts, files, 2).tolist() == [3, 5, LONGEST]  # [CLS] and [SEP] too
    assert batch_lengths(texts, files, 2, prompt="b c ").tolist() == [5, 7, LONGEST]
    assert batch_lengths(texts, files, 3).tolist() == [5, 5, 198], "one batch: nothing is counted"
    assert batch_lengths([], files, 3).tolist() == []
    fills_up_nothing = resolve_model(str(models / "static"))
    assert batch_lengths(texts, fills_up_nothing, 2).tolist() == [5, 5, 198]


BGE = "Represent this sentence for searching relevant passages: "


@pytest.mark.parametrize(
    ("name", "query", "document"),
    [
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("/models/Multilingual-E5-Large/", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5", BGE, ""),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        (
            "BAAI/bge-large-zh-v1.5",
            "\u4e3a\u8fd9\u4e2a\u53e5\u5b50\u751f\u6210\u8868\u793a"
            "\u4ee5\u7528\u4e8e\u68c0\u7d22\u76f8\u5173\u6587\u7ae0\uff1a",
            "",
        ),
        ("thenlper/gte-base", "", ""),
        *((name, None, None) for name in (DEFAULT_MODEL, "my-e5-base", "e5", "intfloat", "", "/")),
    ],
)
def test_the_table(name: str, query: str | None, document: str | None) -> None:
    known = known_model(name)
    assert (known and known.query, known and known.document) == (query, document)


def test_an_instruction_as_the_card_has_it() -> None:
    instructed = known_model("intfloat/multilingual-e5-large-instruct")
    assert instructed is not None
    assert instructed.query.endswith("that answer the query\nQuery: ")


@pytest.fixture
def e5(tmp_path: Path) -> Path:
    return save_static_model(tmp_path / "e5-small", ["query passage ferry storm other"])


def test_the_table_comes_after_the_models_own_files_and_the_experiment(e5: Path) -> None:
    found = prompts_of(str(e5), None, None)
    assert found.texts == {"query": "query: ", "document": "passage: "}
    assert found.sources == {"query": "table", "document": "table"}
    assert found.warning("e5") is None
    half = prompts_of(str(e5), "", None)
    assert half.texts == {"query": "", "document": "passage: "}
    assert half.sources["query"] == "experiment"
    config = e5 / "config_sentence_transformers.json"
    declared = json.loads(config.read_text()) if config.exists() else {}
    config.write_text(json.dumps({**declared, "prompts": {"query": "ask: "}}))
    own = prompts_of(str(e5), None, None)
    assert own.texts == {"query": "ask: ", "document": ""}
    assert set(own.sources.values()) == {"model"}
    assert own.for_encoder("query") is None
    assert own.note == "prompts: 'ask: ' before every query (the model's own configuration)"


def test_a_copy_is_known_by_the_name_that_its_files_keep(tmp_path: Path) -> None:
    folder = save_static_model(tmp_path / "copy", ["ferry"])
    assert prompts_of(str(folder), None, None).known is None
    (folder / "config.json").write_text('{"_name_or_path": "intfloat/e5-base"}')
    assert prompts_of(str(folder), None, None).texts["document"] == "passage: "


def test_a_retriever_reads_texts_with_the_prompts_of_the_table(e5: Path) -> None:
    config = BiEncoder(type="embedding", model=str(e5))
    assert config.describe("query")["prompt"] == "query: "
    assert config.describe("document")["prompt"] == "passage: "
    encoder = Encoder(**NO_WORKSPACE.encoder_options(config, "embeddings"))
    plain = Encoder(str(e5), query_prompt="", document_prompt="")
    for kind, text in (("query", "query: storm"), ("document", "passage: storm")):
        same = encoder.encode(["storm"], kind=kind)  # type: ignore[arg-type]
        assert same.tolist() == plain.encode([text], kind="query").tolist()
        assert same.tolist() != plain.encode(["storm"], kind="query").tolist()


def test_what_runs_without_is_warned_about(e5: Path) -> None:
    assert prompts_of(str(e5), "", "").warning("e5") == (
        "model 'e5' (E5) was trained with 'query: ' before every query and 'passage: ' before "
        "every document; give it as query_prompt and document_prompt"
    )
    served = served_prompts("BAAI/bge-base-en", "", "")
    assert served.warning("BAAI/bge-base-en") == (
        f"model 'BAAI/bge-base-en' (BGE) was trained with '{BGE}' before every query; give it as "
        "query_prompt"
    )
    assert served.note is None
    assert served_prompts("BAAI/bge-base-en", "find: ", "").warning("BAAI/bge-base-en") is None
    assert served_prompts("thenlper/gte-base", "", "").warning("thenlper/gte-base") is None
