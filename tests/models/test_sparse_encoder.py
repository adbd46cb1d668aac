from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from rag_assets.errors import ModelUnavailable
from rag_assets.models.cache_fill import SparseVector
from rag_assets.models.encoder import SparseTextEncoder
from tests.retrieval.reranking.tiny_models import masked_language_model

TEXTS = ["a b c", "", "the harbour closes", "a b c", "x " * 500]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return masked_language_model(tmp_path_factory.mktemp("models") / "splade")


def dense(vector: SparseVector, size: int) -> np.ndarray:
    row = np.zeros(size, dtype=np.float32)
    row[vector.components] = vector.weights
    return row


def by_transformers(model: Path, text: str) -> np.ndarray:
    """SPLADE v2 by its formula: the maximum over tokens of log(1 + relu(logit))."""
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(model)(text, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        logits = AutoModelForMaskedLM.from_pretrained(model)(**tokens).logits[0]
        weights: np.ndarray = torch.log1p(torch.relu(logits)).max(dim=0).values.numpy()
    return weights


def test_a_masked_language_model_gives_the_vectors_of_splade(model: Path) -> None:
    found = SparseTextEncoder(str(model)).encode(TEXTS, kind="document")
    for text, vector in zip(TEXTS, found, strict=True):
        expected = by_transformers(model, text)
        assert np.allclose(dense(vector, len(expected)), expected, atol=1e-5)
        assert (np.diff(vector.components) > 0).all()
        assert 0 < len(vector.components) < len(expected)


def test_the_model_as_sentence_transformers_saves_it(model: Path, tmp_path: Path) -> None:
    from sentence_transformers import SparseEncoder

    folder = tmp_path / "saved"
    SparseEncoder(str(model), device="cpu", max_active_dims=7).save_pretrained(str(folder))
    encoder = SparseTextEncoder(str(folder))
    assert encoder.describe("document") != SparseTextEncoder(str(model)).describe("document")
    found = encoder.encode(["the harbour"], kind="document")[0]
    weights = by_transformers(model, "the harbour")
    assert set(found.components.tolist()) == set(np.argsort(-weights)[:7].tolist())


def test_a_dense_model_is_refused(minilm_folder: Path, model: Path, tmp_path: Path) -> None:
    """sentence-transformers would add a part of random weights, and say nothing."""
    for folder in (minilm_folder, tmp_path / "plain"):
        if folder.name == "plain":
            shutil.copytree(model, folder)
            config = json.loads((folder / "config.json").read_text())
            config["architectures"] = ["BertModel"]
            (folder / "config.json").write_text(json.dumps(config))
        with pytest.raises(ModelUnavailable, match="makes no sparse vectors: it has neither a "):
            SparseTextEncoder(str(folder))
