"""How vectors are compared and searched: the options `similarity`, `index` and `hnsw`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from rag_assets.chunking.stage import chunks_key, texts_to_index
from rag_assets.models.model_names import load_tokenizer, resolve_model
from rag_assets.models.token_counts import truncation_facts
from rag_assets.retrieval.base_runs_stage import index_key
from rag_assets.retrieval.dense.embedding import BiEncoder
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.retrieval.workspace import NO_WORKSPACE
from tests.tiny_experiment import QUERIES, Tiny

SIMILARITIES = ("cosine", "dot", "euclidean")
INDEXES = ("flat", "hnsw")


def best(tiny: Tiny, retriever: str) -> list[tuple[str, str, float]]:
    """(query, chunk, score) of all results, as they are stored."""
    pipeline = tiny.pipeline()
    run = pipeline.artifact(run_key(pipeline.experiment, retriever, 50)).table()
    columns = (run.column(name).to_pylist() for name in ("query_id", "chunk_id", "score"))
    return list(zip(*columns, strict=True))


def by_definition(rows: np.ndarray, query: np.ndarray, similarity: str) -> np.ndarray:
    """Return the score of each row."""
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    found: np.ndarray = {
        "cosine": rows @ query / lengths,
        "dot": rows @ query,
        "euclidean": -np.linalg.norm(rows - query, axis=1),
    }[similarity]
    return found


def expected(tiny: Tiny, model: Path, similarity: str) -> list[tuple[str, str, float]]:
    """The same by the definition, from the model's own vectors."""
    from sentence_transformers import SentenceTransformer

    pipeline = tiny.pipeline()
    chunks = pipeline.artifact(chunks_key("parts")).table()
    texts = texts_to_index(pipeline.experiment, "parts", chunks).to_pylist()
    encode = SentenceTransformer(str(model), device="cpu").encode
    rows, queries = (
        np.asarray(encode(own), dtype=np.float64) for own in (texts, [q["text"] for q in QUERIES])
    )
    found = []
    for query, vector in zip(QUERIES, queries, strict=True):
        scores = by_definition(rows, vector, similarity).tolist()
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
    bm25_only.configure("shallow", **fixed, index="hnsw", hnsw={"ef_search": 2})
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
    facts = bm25_only.pipeline().artifact(index_key("embedding", "hnsw-dot")).manifest.facts
    assert facts["graph_bytes"] > 0
    assert (facts["dimension"], facts["n_truncated"]) == (64, 0)
    assert len(best(bm25_only, "shallow")) == 2 * len(QUERIES)
    assert bm25_only.run() == set()


def test_a_graph_is_described_for_a_graph_only() -> None:
    with pytest.raises(ValidationError, match="hnsw is only for index: hnsw"):
        BiEncoder.model_validate({"type": "embedding", "hnsw": {"m": 4}})


MINILM = "sentence-transformers/all-MiniLM-L6-v2"


def test_chunks_that_the_model_does_not_read_to_the_end(tmp_path: Path) -> None:
    texts, chunks = ["word " * 300, "word"], pa.table({"chunk_id": ["long", "short"]})
    facts = BiEncoder(type="embedding").build(chunks, texts, tmp_path, NO_WORKSPACE)
    assert facts["n_truncated"] == 1
    (note,) = facts["notes"]
    assert note.startswith("1 of 2 chunks are longer than the model's limit")


def test_the_limit_is_exact_and_counts_special_tokens_and_the_prompt() -> None:
    files = resolve_model(MINILM)
    fits, cut = "word " * 254, "word " * 255
    assert len(load_tokenizer(MINILM).encode(fits).ids) == 256
    assert truncation_facts([fits, "", cut, cut], files)["n_truncated"] == 2
    assert truncation_facts([fits, "x"], files, prompt="query: ")["n_truncated"] == 1
    assert truncation_facts([], files)["n_truncated"] == 0
