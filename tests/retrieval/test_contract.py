"""What holds for every retriever type, whatever it computes; a new type needs a line in OPTIONS."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rag_assets.retrieval.registry import OWN_TYPES
from tests.llm.server import ordered, serving
from tests.retrieval.contract import DOCUMENTS, ONE_DOCUMENT, TOP_K, Evaluated
from tests.retrieval.reranking.tiny_models import (
    cross_encoder,
    language_model,
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
    "query_likelihood": {**RERANKED, "model": "<language model>"},
    "rerank_api": {**RERANKED, "model": "tiny", "base_url": "<server>", "retries": 0},
    "cohere": {
        **RERANKED,
        "model": "tiny",
        "base_url": "<server>",
        "api_key_env": None,
        "retries": 0,
    },
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
    "run_file": {"path": "../given/run.trec"},
    "python": {"call": "../given/search.py:retrieve"},
    "vectors": {
        "chunk_vectors": "../given/chunks.parquet",
        "query_vectors": "../given/queries.parquet",
    },
    "openai_embedding": {"model": "tiny", "base_url": "<v1>", "api_key_env": None, "retries": 0},
    "splade": {"model": "<masked language model>"},
    "late_interaction": {},
    "qdrant": {},
}
"""The least that each type needs; what stands in angle brackets is made for all tests, files in
``../given`` for each experiment."""

every_type = pytest.mark.parametrize("kind", OWN_TYPES)


@pytest.fixture(scope="module")
def retrievers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """One retriever of each type, named after it."""
    folder = tmp_path_factory.mktemp("models")
    made = {
        "<cross-encoder>": str(cross_encoder(folder / "cross-encoder")),
        "<language model>": str(language_model(folder / "gpt2")),
        "<masked language model>": str(masked_language_model(folder / "splade")),
    }
    with serving(ordered) as server:
        made |= {"<server>": server.root, "<v1>": server.base_url}
        yield {
            kind: {"type": kind, **{n: made.get(str(v), v) for n, v in options.items()}}
            for kind, options in OPTIONS.items()
        }


@pytest.fixture(scope="module")
def first(
    retrievers: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Evaluated:
    return Evaluated(tmp_path_factory.mktemp("first"), retrievers, DOCUMENTS).run()


@pytest.fixture(scope="module")
def second(
    first: Evaluated,
    retrievers: dict[str, dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Evaluated:
    """The same with the caches of the first, and the documents in another order."""
    turned = dict(reversed(DOCUMENTS.items()))
    again = Evaluated(tmp_path_factory.mktemp("second"), retrievers, turned)
    shutil.copytree(first.settings.store / "cache", again.settings.store / "cache")
    return again.run()


@pytest.fixture(scope="module")
def single(
    retrievers: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Evaluated:
    return Evaluated(tmp_path_factory.mktemp("single"), retrievers, ONE_DOCUMENT).run()


def test_every_type_has_an_entry() -> None:
    assert list(OPTIONS) == list(OWN_TYPES)


@every_type
def test_ranks_count_from_one_and_nothing_stands_twice(first: Evaluated, kind: str) -> None:
    for rows in first.rows(kind).values():
        assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
        items = [row["item_id"] for row in rows]
        assert len(set(items)) == len(items)
        assert set(items) <= set(DOCUMENTS)


@every_type
def test_the_order_is_by_score_then_id_descending(first: Evaluated, kind: str) -> None:
    for rows in first.rows(kind).values():
        keys = [(row["score"], row["item_id"].encode()) for row in rows]
        assert all(before > after for before, after in pairwise(keys))
        assert np.isfinite([score for score, _ in keys]).all()


@every_type
def test_a_smaller_k_is_a_cut_of_a_larger_one(first: Evaluated, kind: str) -> None:
    deepest = first.rows(kind)
    for top_k in TOP_K:
        for query, rows in first.rows(kind, top_k).items():
            assert rows == deepest[query][:top_k]


@every_type
def test_an_ordinary_query_finds_what_it_asks_for(first: Evaluated, kind: str) -> None:
    found = [row["item_id"] for row in first.rows(kind)["plain"]]
    assert {"twin-1", "twin-2"} <= set(found)


@every_type
def test_no_query_fails(first: Evaluated, single: Evaluated, kind: str) -> None:
    assert first.failures(kind) == single.failures(kind) == {}


@every_type
def test_of_identical_documents_the_higher_id_comes_first(first: Evaluated, kind: str) -> None:
    for query, rows in first.rows(kind).items():
        found = [row["item_id"] for row in rows if row["item_id"].startswith("twin")]
        assert found in (["twin-2", "twin-1"], []), query


@every_type
def test_one_document_is_all_there_is(single: Evaluated, kind: str) -> None:
    for query, rows in single.rows(kind).items():
        assert [row["item_id"] for row in rows] in (["only"], []), query
    assert [row["rank"] for row in single.rows(kind)["plain"]] == [1]


@pytest.mark.parametrize("query", ["empty", "blank", "none"])
@pytest.mark.parametrize("kind", ["bm25", "tfidf"])
def test_a_lexical_retriever_finds_nothing_for_nothing(
    first: Evaluated, kind: str, query: str
) -> None:
    assert first.rows(kind)[query] == []


@every_type
def test_a_second_run_with_the_same_cache_gives_the_same_bytes(
    first: Evaluated, second: Evaluated, kind: str
) -> None:
    for top_k in TOP_K:
        assert content(first.table(kind, top_k)) == content(second.table(kind, top_k))


@every_type
@pytest.mark.parametrize("query", ["long", "hostile"])
def test_an_awkward_query_is_a_query(first: Evaluated, kind: str, query: str) -> None:
    assert first.rows(kind)[query] != []


def content(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.remove_metadata()) as writer:
        writer.write_table(table.replace_schema_metadata().combine_chunks())
    return bytes(sink.getvalue())
