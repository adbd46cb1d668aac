"""The type ``vectors``: vectors that were computed elsewhere, with the ids of their rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rag_assets.chunking.stage import chunks_key
from rag_assets.errors import ConfigError, DataError
from rag_assets.retrieval.base_runs_stage import index_key
from rag_assets.retrieval.dense.vectors import FileVectorsRetriever, read_vectors
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.retrieval.workspace import NO_WORKSPACE
from tests.retrieval.test_embedding_search import SIMILARITIES, by_definition
from tests.tiny_experiment import QUERIES, Tiny

QUERY_IDS = [str(row["query_id"]) for row in QUERIES]


def made(count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    lengths = random.uniform(0.5, 9, size=(count, 1))
    return (random.normal(size=(count, 6)) * lengths).astype(np.float32)


def filed(folder: Path, chunk_ids: Sequence[str]) -> dict[str, str]:
    """Write vectors of chunks and of all queries; return the options that name the files."""
    folder.mkdir()
    np.save(folder / "chunks.npy", made(len(chunk_ids), 1).astype(np.float64))
    np.save(folder / "queries.npy", made(len(QUERY_IDS), 2))
    (folder / "chunks.txt").write_text("\n".join(chunk_ids), encoding="utf-8")
    (folder / "queries.json").write_text(json.dumps(QUERY_IDS), encoding="utf-8")
    return {
        "chunk_vectors": str(folder / "chunks.npy"),
        "chunk_ids": str(folder / "chunks.txt"),
        "query_vectors": str(folder / "queries.npy"),
        "query_ids": str(folder / "queries.json"),
    }


def expected(folder: Path, similarity: str) -> list[tuple[str, str]]:
    """(query, best chunk) by the definition."""
    read = read_vectors(folder / "chunks.npy", folder / "chunks.txt")
    rows = np.asarray(read.vectors[:-1], dtype=np.float64)
    found = []
    for name, query in zip(QUERY_IDS, made(len(QUERY_IDS), 2).astype(np.float64), strict=True):
        scores = by_definition(rows, query, similarity)
        found.append((name, read.ids[int(np.argmax(scores))]))
    return found


def test_every_similarity_in_an_experiment(bm25_only: Tiny) -> None:
    bm25_only.run()
    table = bm25_only.pipeline().artifact(chunks_key("parts")).table()
    folder = bm25_only.root / "vectors"
    files = filed(folder, [*reversed(table.column("chunk_id").to_pylist()), "elsewhere"])
    fixed = {"type": "vectors", "chunking": "parts", **files}
    for similarity in SIMILARITIES:
        bm25_only.configure(similarity, **fixed, similarity=similarity)
    bm25_only.configure("both", type="rrf", inputs=["bm25", "euclidean"])
    bm25_only.run()
    pipeline = bm25_only.pipeline()
    found: dict[str, list[tuple[str, str]]] = {}
    for similarity in SIMILARITIES:
        run = pipeline.artifact(run_key(pipeline.experiment, similarity, 50)).table()
        best = [row for row in run.to_pylist() if row["rank"] == 1]
        found[similarity] = [(row["query_id"], row["chunk_id"]) for row in best]
        assert found[similarity] == expected(folder, similarity)
        facts = pipeline.artifact(index_key("embedding", similarity)).manifest.facts
        assert (facts["n_other_ids"], facts["dimension"]) == (1, 6)
    assert len({str(rows) for rows in found.values()}) == 3
    bm25_only.configure("cosine", chunk_ids="none.txt")
    with pytest.raises(ConfigError, match=r"`retrievers.cosine.chunk_ids`: .*no such file"):
        bm25_only.pipeline()


BROKEN: dict[str, tuple[str, str | np.ndarray, str]] = {
    "a chunk without vector": ("chunks.txt", "a\nx", "chunks.npy: has no vector for chunk 'b'"),
    "too few ids": ("queries.json", '["q1"]', "has 1 ids for the 6 vectors of "),
    "an id twice": (
        "queries.json",
        '["q1", "q2", "q3", "q4", "q5", "q2"]',
        "queries.json:6: 'q2' is already in row 2",
    ),
    "no list": ("queries.json", '{"q1": 1}', "must be a list of texts"),
    "a vector of zeros": (
        "queries.npy",
        np.zeros((6, 6), np.float32),
        "vector of query 'q1' has length 0; it has no direction to compare",
    ),
    "integers": (
        "queries.npy",
        np.zeros((6, 6), np.int64),
        "holds int64 of shape (6, 6); it must be floats of shape (rows, dimension)",
    ),
    "an empty id": (
        "queries.json",
        '["q1", "", "q3", "q4", "q5", "q2"]',
        "queries.json:2: an id must be a text that is not empty",
    ),
    "no .npy": ("queries.npy", "text", "cannot be read as .npy: "),
}
"""Case -> the file, what stands in it, and the problem."""


def used(retriever: FileVectorsRetriever, folder: Path) -> None:
    """Index two chunks, and read the vectors of all queries."""
    retriever.build(pa.table({"chunk_id": ["a", "b"]}), ["a", "b"], folder, NO_WORKSPACE)
    numbers = pa.array([0] * len(QUERY_IDS), pa.int32())
    retriever.encode(pa.table({"query_id": QUERY_IDS, "variant": numbers}), NO_WORKSPACE)


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_refused(tmp_path: Path, case: str) -> None:
    name, content, problem = BROKEN[case]
    options = {"type": "vectors", **filed(tmp_path / "vectors", ["a", "b"])}
    file = tmp_path / "vectors" / name
    if isinstance(content, str):
        file.write_text(content, encoding="utf-8")
    else:
        np.save(file, content)
    retriever = FileVectorsRetriever.model_validate(options)
    with pytest.raises(DataError) as caught:
        used(retriever, tmp_path)
    whole = problem if problem.startswith(("chunks", "queries")) else f"{name}: {problem}"
    assert str(caught.value).startswith(f"{tmp_path}/vectors/{whole}")
