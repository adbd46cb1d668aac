"""Models such as ColBERT are recognised by their files, and read as they were trained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from rag_assets.errors import ModelUnavailable
from rag_assets.models.cache_fill import SparseVector
from rag_assets.models.encoder import SparseTextEncoder, TokenEncoder, is_multi_vector
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.local import MaxSim
from rag_assets.retrieval.workspace import NO_WORKSPACE
from tests.retrieval.reranking.tiny_models import colbert, masked_language_model
from tests.static_model import save_static_model

QUERY = "wind in the harbour"
DOCUMENTS = ["a dog", "the wind", "wind in the northern harbour", ""]
QUERY_TOKENS = 16  # short queries are filled up to it, and what fills them is scored


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return colbert(tmp_path_factory.mktemp("colbert"))


@pytest.fixture
def pylate(model: Path, tmp_path: Path) -> Path:
    """The same weights in a folder as PyLate writes it."""
    folder = tmp_path / "pylate"
    shutil.copytree(model, folder)
    modules = json.loads((folder / "modules.json").read_text())[:2]
    modules[1]["type"] = "pylate.models.Dense.Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    config = {
        "model_type": "ColBERT",
        "query_prefix": "[Q] ",
        "document_prefix": "[D] ",
        "query_length": QUERY_TOKENS,
        "document_length": 48,
        "skiplist_words": ["##x"],
    }
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
    reader = json.loads((folder / "sentence_bert_config.json").read_text())
    del reader["query_expansion"]
    (folder / "sentence_bert_config.json").write_text(json.dumps(reader))
    return folder


def test_which_folders_are_one(model: Path, pylate: Path, tmp_path: Path) -> None:
    stanford = tmp_path / "stanford"
    stanford.mkdir()
    (stanford / "config.json").write_text(json.dumps({"architectures": ["HF_ColBERT"]}))
    assert all(map(is_multi_vector, (model, pylate, stanford)))
    assert not is_multi_vector(resolve_model(DEFAULT_MODEL).path)


def test_queries_are_filled_up_and_words_left_out_as_in_training(model: Path) -> None:
    encoder = TokenEncoder(str(model))
    assert encoder.encode(["wind"], kind="query")[0].shape == (QUERY_TOKENS, 8)
    both = encoder.encode(["ab", "axb"], kind="document")
    assert [*map(len, both)] == [4, 4], "[CLS], two letters, [SEP]"


def test_scores_are_those_of_the_library(model: Path) -> None:
    """Theirs is the sum over the tokens of the query, ours the mean."""
    from sentence_transformers import MultiVectorEncoder

    theirs = MultiVectorEncoder(str(model), device="cpu")
    query = theirs.encode_query([QUERY])
    expected = theirs.similarity(query, theirs.encode_document(DOCUMENTS))[0] / len(query[0])
    one = Candidates("q", QUERY, list("0123"), DOCUMENTS, np.zeros(4))
    late = MaxSim(type="maxsim", input="bm25", model=str(model))
    (found,) = late.rerank([one], NO_WORKSPACE).scores
    np.testing.assert_allclose(found, expected.numpy(), atol=2e-3)


def test_a_folder_of_pylate_is_read_with_its_markers(model: Path, pylate: Path) -> None:
    own, other = TokenEncoder(str(model)), TokenEncoder(str(pylate))
    query = other.encode(["ab"], kind="query")[0]
    assert query.shape == (QUERY_TOKENS, 8)
    np.testing.assert_allclose(np.linalg.norm(query.astype(np.float64), axis=1), 1, atol=2e-3)
    np.testing.assert_allclose(query, own.encode(["[Q] ab"], kind="query")[0], atol=5e-3)
    assert len(other.encode(["axb"], kind="document")[0]) == len(
        own.encode(["[D] axb"], kind="document")[0]
    )


def test_queries_and_documents_are_never_taken_for_each_other(model: Path, tmp_path: Path) -> None:
    encoder = TokenEncoder(str(model), cache=tmp_path)
    as_query = encoder.encode(["ab"], kind="query")[0]
    assert as_query.shape != encoder.encode(["ab"], kind="document")[0].shape
    again = TokenEncoder(str(model), cache=tmp_path)
    np.testing.assert_array_equal(again.encode(["ab"], kind="query")[0], as_query)
    assert again.describe("query") != again.describe("document")


TEXTS = ["a b c", "", "the harbour closes", "a b c", "x " * 500]


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return masked_language_model(tmp_path_factory.mktemp("models") / "splade")


def dense(vector: SparseVector, size: int) -> np.ndarray:
    row = np.zeros(size, dtype=np.float32)
    row[vector.components] = vector.weights
    return row


def by_transformers(masked: Path, text: str) -> np.ndarray:
    """SPLADE v2 by its formula: the maximum over tokens of log(1 + relu(logit))."""
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(masked)(text, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        logits = AutoModelForMaskedLM.from_pretrained(masked)(**tokens).logits[0]
        weights: np.ndarray = torch.log1p(torch.relu(logits)).max(dim=0).values.numpy()
    return weights


def test_a_masked_language_model_gives_the_vectors_of_splade(masked: Path) -> None:
    found = SparseTextEncoder(str(masked)).encode(TEXTS, kind="document")
    for text, vector in zip(TEXTS, found, strict=True):
        expected = by_transformers(masked, text)
        assert np.allclose(dense(vector, len(expected)), expected, atol=1e-5)
        assert (np.diff(vector.components) > 0).all()
        assert 0 < len(vector.components) < len(expected)


def test_the_model_as_sentence_transformers_saves_it(masked: Path, tmp_path: Path) -> None:
    from sentence_transformers import SparseEncoder

    folder = tmp_path / "saved"
    SparseEncoder(str(masked), device="cpu", max_active_dims=7).save_pretrained(str(folder))
    encoder = SparseTextEncoder(str(folder))
    assert encoder.describe("document") != SparseTextEncoder(str(masked)).describe("document")
    found = encoder.encode(["the harbour"], kind="document")[0]
    weights = by_transformers(masked, "the harbour")
    assert set(found.components.tolist()) == set(np.argsort(-weights)[:7].tolist())


def test_a_dense_model_is_refused(minilm_folder: Path, masked: Path, tmp_path: Path) -> None:
    """sentence-transformers would add a part of random weights, and say nothing."""
    for folder in (minilm_folder, tmp_path / "plain"):
        if folder.name == "plain":
            shutil.copytree(masked, folder)
            config = json.loads((folder / "config.json").read_text())
            config["architectures"] = ["BertModel"]
            (folder / "config.json").write_text(json.dumps(config))
        with pytest.raises(ModelUnavailable, match="makes no sparse vectors: it has neither a "):
            SparseTextEncoder(str(folder))


def test_a_model_without_vectors_of_tokens_is_named(tmp_path: Path) -> None:
    folder = save_static_model(tmp_path / "static", ["wind in the harbour"])
    with pytest.raises(ModelUnavailable, match=r"static' makes no vectors of tokens"):
        TokenEncoder(str(folder)).encode_now([QUERY], kind="query")
