"""Models such as ColBERT are recognised by their files, and read as they were trained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from rag_assets.models.encoder import TokenEncoder, is_multi_vector
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.local import MaxSim
from rag_assets.retrieval.workspace import NO_WORKSPACE
from tests.retrieval.reranking.tiny_models import colbert

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


def test_a_bi_encoder_is_none_of_them(model: Path, pylate: Path) -> None:
    assert not is_multi_vector(resolve_model(DEFAULT_MODEL).path)
    assert is_multi_vector(model)
    assert is_multi_vector(pylate)


def test_a_checkpoint_of_stanford_is_one(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["HF_ColBERT"]}))
    assert is_multi_vector(tmp_path)


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
    marked = own.encode(["[Q] ab"], kind="query")[0]
    np.testing.assert_allclose(query, marked, atol=5e-3)
    assert len(other.encode(["axb"], kind="document")[0]) == len(
        own.encode(["[D] axb"], kind="document")[0]
    )


def test_queries_and_documents_are_never_taken_for_each_other(model: Path, tmp_path: Path) -> None:
    encoder = TokenEncoder(str(model), cache=tmp_path)
    as_query = encoder.encode(["ab"], kind="query")[0]
    as_document = encoder.encode(["ab"], kind="document")[0]
    assert as_query.shape != as_document.shape
    again = TokenEncoder(str(model), cache=tmp_path)
    np.testing.assert_array_equal(again.encode(["ab"], kind="query")[0], as_query)
    assert again.describe("query") != again.describe("document")
