"""How vectors are compared and searched: the options `similarity`, `index` and `hnsw`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.chunking.stage import chunks_key, texts_to_index
from rag_assets.errors import ConfigError
from rag_assets.experiment import load_experiment
from rag_assets.retrieval.base_runs_stage import index_key
from rag_assets.retrieval.dense.embedding import BiEncoder
from rag_assets.retrieval.runs_stage import run_key
from tests.tiny_experiment import QUERIES, Tiny, matching

SIMILARITIES = ("cosine", "dot", "euclidean")
INDEXES = ("flat", "hnsw")


def best(tiny: Tiny, retriever: str) -> list[tuple[str, str, float]]:
    """(query, chunk, score) of all results, as they are stored."""
    pipeline = tiny.pipeline()
    run = pipeline.artifact(run_key(pipeline.experiment, retriever, 50)).table()
    columns = (run.column(name).to_pylist() for name in ("query_id", "chunk_id", "score"))
    return list(zip(*columns, strict=True))


def facts_of_run(tiny: Tiny) -> dict[str, Any]:
    pipeline = tiny.pipeline()
    return dict(pipeline.artifact(run_key(pipeline.experiment, "own", 1)).manifest.facts)


def expected(tiny: Tiny, model: Path, similarity: str) -> list[tuple[str, str, float]]:
    """The same by the definition, from the model's own vectors."""
    from sentence_transformers import SentenceTransformer

    pipeline = tiny.pipeline()
    chunks = pipeline.artifact(chunks_key("parts")).table()
    texts = texts_to_index(pipeline.experiment, "parts", chunks)
    encode = SentenceTransformer(str(model), device="cpu").encode
    rows, queries = (
        np.asarray(encode(own), dtype=np.float64) for own in (texts, [q["text"] for q in QUERIES])
    )
    found = []
    for query, vector in zip(QUERIES, queries, strict=True):
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
        scores = {
            "cosine": rows @ vector / lengths,
            "dot": rows @ vector,
            "euclidean": -np.linalg.norm(rows - vector, axis=1),
        }[similarity].tolist()
        ids = chunks.column("chunk_id").to_pylist()
        ordered = sorted(zip(ids, scores, strict=True), key=lambda p: (p[1], p[0]), reverse=True)
        found += [(query["query_id"], name, score) for name, score in ordered]
    return found


def test_every_similarity_by_every_index(bm25_only: Tiny, static_model: Path) -> None:
    fixed: dict[str, Any] = {"type": "embedding", "model": str(static_model), "chunking": "parts"}
    for similarity in SIMILARITIES:
        for index in INDEXES:
            name = f"{index}-{similarity}"
            bm25_only.configure(name, **fixed, similarity=similarity, index=index)
    bm25_only.run()
    orders = set()
    for similarity in SIMILARITIES:
        flat, graph = (best(bm25_only, f"{index}-{similarity}") for index in INDEXES)
        assert flat == graph  # 20 chunks are all candidates
        wanted = expected(bm25_only, static_model, similarity)
        # Ids decide between scores that differ by rounding only.
        for one, other in zip(flat, wanted, strict=True):
            assert one[0] == other[0]
            assert one[2] == pytest.approx(other[2], abs=1e-5)
        orders.add(tuple(name for _, name, _ in flat))
    assert len(orders) == 3
    pipeline = bm25_only.pipeline()
    facts = pipeline.artifact(index_key("embedding", "hnsw-dot")).manifest.facts
    assert facts["graph_bytes"] > 0
    assert bm25_only.run() == set()


def test_what_a_change_recomputes(bm25_only: Tiny, static_model: Path) -> None:
    fixed = {"type": "embedding", "model": str(static_model), "chunking": "parts"}
    bm25_only.configure("own", **fixed)
    bm25_only.run()
    assert "exact_recall_at_10" not in facts_of_run(bm25_only)
    bm25_only.configure("own", index="hnsw")
    computed = bm25_only.run()
    assert facts_of_run(bm25_only)["exact_recall_at_10"] == 1.0
    assert {"embedding_index/own", "embedding_runs/own/1"} <= computed
    bm25_only.configure("own", hnsw={"ef_search": 2})
    computed = bm25_only.run()
    assert "embedding_runs/own/1" in computed
    assert not matching(bm25_only.pipeline(), "embedding_index/*") & computed
    assert len(best(bm25_only, "own")) == 2 * len(QUERIES)
    facts = facts_of_run(bm25_only)
    n_chunks = bm25_only.pipeline().artifact(index_key("embedding", "own")).manifest.rows
    share = round(2 / min(10, n_chunks), 4)  # the graph gives two
    assert facts["exact_recall_at_10"] == share
    assert facts["exact_recall_queries"] == len(QUERIES)
    assert facts["notes"][0].startswith(f"the search finds {share:.2%} of the 10 chunks")
    bm25_only.configure("own", hnsw={"ef_search": 2, "m": 4})
    assert "embedding_index/own" in bm25_only.run()


def test_the_defaults_say_nothing_new() -> None:
    plain = BiEncoder(type="embedding")
    named = BiEncoder(type="embedding", similarity="cosine", index="flat")
    assert named.index_options() == plain.index_options()
    assert named.search_config() == plain.search_config()
    assert not {"model", "similarity"} & plain.index_options().keys()
    assert plain.describe("query")["normalisation"] == "l2"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "hnsw of a flat index": ({"hnsw": {"m": 4}}, "retrievers.own.hnsw`: hnsw belongs to index: hn"),
    "too few links": (
        {"index": "hnsw", "hnsw": {"m": 1}},
        "retrievers.own.hnsw.m`: should be greater than or equal to 2; found 1",
    ),
    "unknown key": (
        {"index": "hnsw", "hnsw": {"ef": 1}},
        "retrievers.own.hnsw.ef`: unknown key 'ef'; allowed: m, ef_construction, ef_search",
    ),
    "no block": (
        {"index": "hnsw", "hnsw": 4},
        "retrievers.own.hnsw`: must be a mapping of keys to values; found 4",
    ),
    "unknown similarity": (
        {"similarity": "jaccard"},
        "retrievers.own.similarity`: should be 'cosine', 'dot' or 'euclidean'; found 'jaccard'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused(bm25_only: Tiny, case: str) -> None:
    options, problem = WRONG[case]
    bm25_only.configure("own", type="embedding", chunking="parts", **options)
    with pytest.raises(ConfigError) as caught:
        load_experiment(bm25_only.folder)
    assert problem in str(caught.value)
