from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.models.encoder import Encoder
from rag_assets.models.loading import load_model
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model
from rag_assets.models.other_encoders import SparseTextEncoder, TokenEncoder
from rag_assets.models.token_counts import batch_lengths
from tests.retrieval.reranking.tiny_models import LONGEST, colbert, masked_language_model
from tests.static_model import save_static_model

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


def dense(models: Path, counted: Path | None) -> tuple[Any, Encode]:
    encoder = Encoder(device="cpu", batch_size=2, counted=counted)
    model = load_model(encoder.files, "cpu")
    return model, lambda texts: list(encoder.encode(texts, kind="document"))


def sparse(models: Path, counted: Path | None) -> tuple[Any, Encode]:
    encoder = SparseTextEncoder(str(models / "splade"), counted=counted)

    def encode(texts: Sequence[str]) -> list[np.ndarray]:
        rows = np.zeros((len(texts), 100), dtype=np.float32)
        vectors = encoder.encode(texts, kind="document")
        for row, text in zip(rows, texts, strict=True):
            row[vectors[text].components] = vectors[text].weights
        return list(rows)

    return load_model(encoder.files, library="SparseEncoder"), encode


def tokens(models: Path, counted: Path | None) -> tuple[Any, Encode]:
    return load_model(resolve_model(DEFAULT_MODEL)), by_token(DEFAULT_MODEL, counted)


def trained_tokens(models: Path, counted: Path | None) -> tuple[Any, Encode]:
    name = str(models / "colbert" / "model")
    return load_model(resolve_model(name), library="MultiVectorEncoder"), by_token(name, counted)


def by_token(model: str, counted: Path | None) -> Encode:
    encoder = TokenEncoder(model, counted=counted)

    def encode(texts: Sequence[str]) -> list[np.ndarray]:
        found = encoder.encode(texts, kind="document")
        return [found[text] for text in texts]

    return encode


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
    models: Path,
    kind: Callable[[Path, Path | None], tuple[Any, Encode]],
    seen: Callable[[Any], list[set[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, encode = kind(models, tmp_path)
    texts = [MANY, FEW, MOST, SOME]
    alone = [encode([text])[0] for text in texts]
    batches = seen(model)
    found = encode(texts)
    assert batches == [{MOST, MANY}, {FEW, SOME}]
    for one, same in zip(found, alone, strict=True):
        # Those of tokens are kept in half precision.
        np.testing.assert_allclose(one, same, atol=1e-5 if one.dtype == np.float32 else 2e-3)
    monkeypatch.setattr("rag_assets.models.token_counts._counted", None)
    kind(models, tmp_path)[1](texts)  # every text was counted before


def test_lengths_are_tokens_that_are_read_or_else_letters(models: Path) -> None:
    files = resolve_model(str(models / "splade"))
    texts = ["☃☃☃☃☃", "a b c", "a " * 99]
    assert batch_lengths(texts, files, 2).tolist() == [3, 5, LONGEST]  # [CLS] and [SEP] too
    assert batch_lengths(texts, files, 2, prompt="b c ").tolist() == [5, 7, LONGEST]
    assert batch_lengths(texts, files, 3).tolist() == [5, 5, 198], "one batch: nothing is counted"
    assert batch_lengths([], files, 3).tolist() == []
    fills_up_nothing = resolve_model(str(models / "static"))
    assert batch_lengths(texts, fills_up_nothing, 2).tolist() == [5, 5, 198]


def test_a_model_that_fills_up_nothing_is_given_a_whole_group(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder(str(models / "static"), device="cpu", batch_size=2)
    model, asked = load_model(encoder.files, "cpu"), list[int]()
    encode = model.encode_document

    def noted(texts: list[str], **options: Any) -> Any:
        asked.append(len(texts))
        return encode(texts, **options)

    monkeypatch.setattr(model, "encode_document", noted)
    encoder.encode(["a", "b", "a b", "b a b"], kind="document")
    assert asked == [4]
