"""How vectors are compared and searched: the options `similarity`, `index` and `hnsw`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.chunking.stage import chunks_key, texts_to_index
from rag_assets.errors import ConfigError
from rag_assets.experiment import load_experiment
from rag_assets.models.model_names import load_tokenizer, resolve_model
from rag_assets.models.token_counts import truncation_facts
from rag_assets.retrieval.base_runs_stage import index_key
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
    bm25_only.configure("own", index="hnsw")
    computed = bm25_only.run()
    assert {"embedding_index/own", "embedding_runs/own/1"} <= computed
    bm25_only.configure("own", hnsw={"ef_search": 2})
    computed = bm25_only.run()
    assert "embedding_runs/own/1" in computed
    assert not matching(bm25_only.pipeline(), "embedding_index/*") & computed
    assert len(best(bm25_only, "own")) == 2 * len(QUERIES)
    bm25_only.configure("own", hnsw={"ef_search": 2, "m": 4})
    assert "embedding_index/own" in bm25_only.run()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "hnsw of a flat index": (
        {"hnsw": {"m": 4}},
        "retrievers.own.hnsw`: hnsw is only for index: hn",
    ),
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


MINILM = "sentence-transformers/all-MiniLM-L6-v2"


def test_a_static_model_works(bm25_only: Tiny, static_model: Path) -> None:
    bm25_only.configure("static", type="embedding", model=str(static_model), chunking="parts")
    bm25_only.run()
    pipeline = bm25_only.pipeline()
    facts = pipeline.artifact(index_key("embedding", "static")).manifest.facts
    assert (facts["dimension"], facts["n_truncated"]) == (64, 0)
    run = pipeline.artifact(run_key(pipeline.experiment, "static", 1)).table()
    best = dict(zip(*(run.column(n).to_pylist() for n in ("query_id", "document_id")), strict=True))
    # The words of these questions stand in one document, and vectors of other words are far.
    assert (best["q2"], best["q4"]) == ("harbours.md", "safety/fire.md")
    assert bm25_only.run() == set()


def test_chunks_that_the_model_does_not_read_to_the_end(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "long")
    tiny.config |= {"top_k": [1], "primary": "mrr@1", "metrics": ["mrr"]}
    tiny.config["retrievers"] = {"minilm": {"type": "embedding", "chunking": "whole"}}
    tiny.config["baseline"] = "minilm"
    tiny.write()
    tiny.write_document("long.md", "word " * 300)
    pipeline = tiny.pipeline()
    for asset in ("documents", "chunks", "embedding_index"):
        keys = [
            key
            for stage in pipeline.stages()
            if stage.name == asset
            for key in stage.keys(pipeline.experiment)
        ]
        pipeline.materialize(asset, keys)
    assert pipeline.artifact(chunks_key("whole")).manifest.rows == 9
    facts = pipeline.artifact(index_key("embedding", "minilm")).manifest.facts
    assert facts["n_truncated"] == 1
    (note,) = facts["notes"]
    assert note.startswith("1 of 9 chunks are longer than the model's limit")


def test_the_limit_is_exact_and_counts_special_tokens_and_the_prompt() -> None:
    files = resolve_model(MINILM)
    fits, cut = "word " * 254, "word " * 255
    assert len(load_tokenizer(MINILM).encode(fits).ids) == 256
    assert truncation_facts([fits, "", cut, cut], files)["n_truncated"] == 2
    assert truncation_facts([fits, "x"], files, prompt="query: ")["n_truncated"] == 1
    assert truncation_facts([], files)["n_truncated"] == 0
