"""What holds for every retriever type, whatever it computes; a new type needs a line in OPTIONS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import pytest

from rag_assets.retrieval.registry import OWN_TYPES
from rag_assets.testing import RetrieverContract
from rag_assets.testing.retrievers import Evaluated
from tests.llm.server import ordered, serving
from tests.retrieval.contract import EvaluatedWithFiles
from tests.retrieval.external import loopback
from tests.retrieval.reranking.tiny_models import (
    cross_encoder,
    masked_language_model,
)

FUSED: Mapping[str, Any] = {"inputs": ["bm25", "embedding"]}
# Every query has candidates there, also the empty one.
RERANKED: Mapping[str, Any] = {"input": "embedding"}

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "bm25": {},
    "tfidf": {},
    "embedding": {},
    "rrf": FUSED,
    "convex": FUSED,
    "comb_sum": FUSED,
    "comb_mnz": FUSED,
    "borda": FUSED,
    "isr": FUSED,
    "maxsim": RERANKED,
    "cross_encoder": {**RERANKED, "model": "<cross-encoder>"},
    "rerank_api": {**RERANKED, "model": "tiny", "base_url": "<server>", "retries": 0},
    "listwise": {
        **RERANKED,
        "model": "tiny",
        "base_url": "<v1>",
        "api_key_env": None,
        "retries": 0,
        "window": 3,
        "step": 2,
    },
    "mmr": RERANKED,
    "keep": {**RERANKED, "min_score": 0},  # the documents have twins
    "run_file": {"path": "../given/run.trec"},
    "python": {"call": "../given/search.py:retrieve"},
    "http": {
        "url": "<search>",
        "body": {"query": "{query}", "k": "{k}"},
        "hits": "hits",
        "id": "id",
        "score": "score",
        "retries": 0,
        "revision": "1",
    },
    "sql": {
        "database": "../given/search.duckdb",
        "query": "SELECT id, score FROM hits WHERE :query IS NOT NULL "
        "ORDER BY score DESC, id DESC LIMIT :k",
        "revision": "1",
    },
    "vectors": {
        "chunk_vectors": "../given/chunks.parquet",
        "query_vectors": "../given/queries.parquet",
    },
    "openai_embedding": {"model": "tiny", "base_url": "<v1>", "api_key_env": None, "retries": 0},
    "splade": {"model": "<masked language model>"},
    "qdrant": {},
}
"""The least that each type needs; what stands in angle brackets is made for all tests, files in
``../given`` for each experiment."""


def absent(kind: str) -> bool:
    return kind == "qdrant" and find_spec("qdrant_client") is None


def best_documents(request: loopback.Request) -> loopback.Reply:
    """Answer as the search in a file does; the request of an experiment brings its documents."""
    return loopback.Reply({"hits": request.body["documents"][: request.body["k"]]})


@pytest.fixture(scope="module")
def retrievers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """One retriever of each type, named after it."""
    folder = tmp_path_factory.mktemp("models")
    made = {
        "<cross-encoder>": str(cross_encoder(folder / "cross-encoder")),
        "<masked language model>": str(masked_language_model(folder / "splade")),
    }
    with serving(ordered) as server, loopback.serving(best_documents) as search:
        made |= {"<server>": server.root, "<v1>": server.base_url, "<search>": search.root}
        yield {
            kind: {"type": kind, **{n: made.get(str(v), v) for n, v in options.items()}}
            for kind, options in OPTIONS.items()
            if not absent(kind)
        }


class TestEveryType(RetrieverContract):
    evaluated = EvaluatedWithFiles

    @pytest.fixture
    def retrievers(self, retrievers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return retrievers

    @pytest.fixture(params=OWN_TYPES)
    def kind(self, request: pytest.FixtureRequest) -> str:
        kind = str(request.param)
        if absent(kind):
            pytest.skip("needs pip install 'rag-assets[qdrant]'")
        return kind

    @pytest.mark.parametrize("query", ["empty", "blank", "none"])
    @pytest.mark.parametrize("lexical", ["bm25", "tfidf"])
    def test_a_lexical_retriever_finds_nothing_for_nothing(
        self, first: Evaluated, lexical: str, query: str
    ) -> None:
        assert first.rows(lexical)[query] == []


def test_every_type_has_an_entry() -> None:
    assert list(OPTIONS) == list(OWN_TYPES)
