from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.chunking.stage import chunks_key
from rag_assets.errors import ConfigError, DataError
from rag_assets.experiment import load_experiment
from rag_assets.retrieval.base_runs_stage import index_key
from rag_assets.retrieval.dense.vectors import read_vectors
from rag_assets.retrieval.runs_stage import run_key
from tests.tiny_experiment import QUERIES, Tiny

NPY = {
    "chunk_vectors": "chunks.npy",
    "chunk_ids": "chunks.txt",
    "query_vectors": "queries.npy",
    "query_ids": "queries.json",
}
PARQUET = {"chunk_vectors": "chunks.parquet", "query_vectors": "queries.parquet"}
SIMILARITIES = ("cosine", "dot", "euclidean")


def made(count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    lengths = random.uniform(0.5, 9, size=(count, 1))
    return (random.normal(size=(count, 6)) * lengths).astype(np.float32)


@pytest.fixture
def filed(bm25_only: Tiny) -> Tiny:
    """The experiment, with vectors of all its chunks and queries beside it, in two formats."""
    bm25_only.run()
    ids = bm25_only.pipeline().artifact(chunks_key("parts")).table().column("chunk_id").to_pylist()
    ids = [*reversed(ids), "elsewhere"]
    chunks, queries = made(len(ids), 1), made(len(QUERIES), 2)
    names = [row["query_id"] for row in QUERIES]
    folder = bm25_only.root / "vectors"
    folder.mkdir()
    np.save(folder / "chunks.npy", chunks.astype(np.float64))
    (folder / "chunks.txt").write_text("\n".join(ids), encoding="utf-8")
    np.save(folder / "queries.npy", queries)
    (folder / "queries.json").write_text(json.dumps(names), encoding="utf-8")
    for name, keys, vectors in (("chunks", ids, chunks), ("queries", names, queries)):
        table = pa.table({"id": keys, "embedding": list(vectors)})
        pq.write_table(table, folder / f"{name}.parquet")
    return bm25_only


def configured(tiny: Tiny, name: str, files: dict[str, str], **values: Any) -> None:
    paths = {option: str(tiny.root / "vectors" / file) for option, file in files.items()}
    tiny.configure(name, type="vectors", chunking="parts", **paths, **values)


def expected(tiny: Tiny, similarity: str) -> list[tuple[str, str]]:
    """(query, best chunk) by the definition."""
    read = read_vectors(tiny.root / "vectors" / "chunks.parquet", None)
    rows = np.asarray(read.vectors[:-1], dtype=np.float64)
    found = []
    for row, query in zip(QUERIES, made(len(QUERIES), 2).astype(np.float64), strict=True):
        scores = {
            "cosine": rows @ query / np.linalg.norm(rows, axis=1),
            "dot": rows @ query,
            "euclidean": -np.linalg.norm(rows - query, axis=1),
        }[similarity]
        found.append((row["query_id"], read.ids[int(np.argmax(scores))]))
    return found


def test_every_similarity_in_an_experiment(filed: Tiny) -> None:
    for similarity in SIMILARITIES:
        configured(filed, similarity, NPY, similarity=similarity)
        configured(filed, f"{similarity}-parquet", PARQUET, similarity=similarity)
    filed.configure("both", type="rrf", inputs=["bm25", "euclidean"])
    filed.run()
    pipeline = filed.pipeline()
    found: dict[str, list[tuple[str, str]]] = {}
    for similarity in SIMILARITIES:
        cells = [similarity, f"{similarity}-parquet"]
        one, other = (
            pipeline.artifact(run_key(pipeline.experiment, name, 50)).table() for name in cells
        )
        assert one.equals(other)
        best = [row for row in one.to_pylist() if row["rank"] == 1]
        found[similarity] = [(row["query_id"], row["chunk_id"]) for row in best]
        assert found[similarity] == expected(filed, similarity)
        facts = pipeline.artifact(index_key("embedding", similarity)).manifest.facts
        assert (facts["n_other_ids"], facts["dimension"]) == (1, 6)
    assert len({str(rows) for rows in found.values()}) == 3


Edit = Callable[[Path], object]

BROKEN: dict[str, tuple[Edit, str]] = {
    "a chunk without vector": (
        lambda folder: (folder / "chunks.txt").write_text(
            (folder / "chunks.txt").read_text().replace("crew.md", "cruw.md"), encoding="utf-8"
        ),
        "chunks.npy: has no vector for chunk 'crew.md",
    ),
    "too few ids": (
        lambda folder: (folder / "queries.json").write_text('["q1"]', encoding="utf-8"),
        "queries.json: has 1 ids for the 6 vectors of ",
    ),
    "an id twice": (
        lambda folder: (folder / "queries.json").write_text(
            '["q1", "q2", "q3", "q4", "q5", "q2"]', encoding="utf-8"
        ),
        "queries.json:6: 'q2' is already in row 2",
    ),
    "no list": (
        lambda folder: (folder / "queries.json").write_text('{"q1": 1}', encoding="utf-8"),
        "queries.json: must be a list of texts",
    ),
    "a vector of zeros": (
        lambda folder: np.save(folder / "queries.npy", np.zeros((6, 6), np.float32)),
        "queries.npy: vector of query 'q1' has length 0; it has no direction to compare",
    ),
    "integers": (
        lambda folder: np.save(folder / "queries.npy", np.zeros((6, 6), np.int64)),
        "queries.npy: holds int64 of shape (6, 6); it must be floats of shape (rows, dimension)",
    ),
    "no .npy": (
        lambda folder: (folder / "queries.npy").write_text("text", encoding="utf-8"),
        "queries.npy: cannot be read as .npy: ",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_refused(filed: Tiny, case: str) -> None:
    edit, problem = BROKEN[case]
    configured(filed, "own", NPY)
    edit(filed.root / "vectors")
    with pytest.raises(DataError) as caught:
        filed.run()
    assert str(caught.value).startswith(f"{filed.root}/vectors/{problem}")


TABLES: dict[str, tuple[dict[str, Any], str]] = {
    "no vectors": ({"id": ["a"]}, "has the columns id; needs one of vector, embedding"),
    "uneven": ({"id": ["a", "b"], "vector": [[1.0], [1.0, 2.0]]}, "`vector`: has 2 numbers; the"),
    "null": ({"id": ["a", "b"], "vector": [[1.0], None]}, "`vector`: has 0 numbers; the first"),
    "null in a vector": ({"id": ["a"], "vector": [[1.0, None]]}, "`vector`: holds a null"),
    "texts": ({"id": ["a"], "vector": ["x"]}, "`vector`: is a column of string; vectors must"),
    "ids of numbers": ({"id": [1], "vector": [[1.0]]}, "`id`: is a column of int64; ids must"),
    "empty id": ({"id": [""], "vector": [[1.0]]}, "an id must be a text that is not empty"),
}


@pytest.mark.parametrize("case", TABLES)
def test_what_is_refused_in_parquet(tmp_path: Path, case: str) -> None:
    columns, problem = TABLES[case]
    pq.write_table(pa.table(columns), tmp_path / "v.parquet")
    with pytest.raises(DataError) as caught:
        read_vectors(tmp_path / "v.parquet", None)
    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/v.parquet:")


def test_options_that_do_not_fit(filed: Tiny) -> None:
    configured(filed, "own", {**PARQUET, "query_vectors": "queries.npy"})
    with pytest.raises(ConfigError, match=r"query_ids belong to query_vectors in \.npy, which nee"):
        load_experiment(filed.folder)
    configured(filed, "own", {**NPY, "chunk_vectors": "chunks.parquet"})
    with pytest.raises(ConfigError, match=r"chunk_ids belong to chunk_vectors in \.npy"):
        load_experiment(filed.folder)
    configured(filed, "own", {**NPY, "chunk_ids": "none.txt"})
    with pytest.raises(ConfigError, match=r"`retrievers.own.chunk_ids`: no such file: "):
        load_experiment(filed.folder)
