from __future__ import annotations

import json
from typing import Any

import numpy as np
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
SIMILARITIES = ("cosine", "dot", "euclidean")


def made(count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    lengths = random.uniform(0.5, 9, size=(count, 1))
    return (random.normal(size=(count, 6)) * lengths).astype(np.float32)


@pytest.fixture
def filed(bm25_only: Tiny) -> Tiny:
    """The experiment, with vectors of all its chunks and queries beside it."""
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
    return bm25_only


def configured(tiny: Tiny, name: str, files: dict[str, str], **values: Any) -> None:
    paths = {option: str(tiny.root / "vectors" / file) for option, file in files.items()}
    tiny.configure(name, type="vectors", chunking="parts", **paths, **values)


def expected(tiny: Tiny, similarity: str) -> list[tuple[str, str]]:
    """(query, best chunk) by the definition."""
    read = read_vectors(
        *(tiny.root / "vectors" / NPY[name] for name in ("chunk_vectors", "chunk_ids"))
    )
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
    filed.configure("both", type="rrf", inputs=["bm25", "euclidean"])
    filed.run()
    pipeline = filed.pipeline()
    found: dict[str, list[tuple[str, str]]] = {}
    for similarity in SIMILARITIES:
        run = pipeline.artifact(run_key(pipeline.experiment, similarity, 50)).table()
        best = [row for row in run.to_pylist() if row["rank"] == 1]
        found[similarity] = [(row["query_id"], row["chunk_id"]) for row in best]
        assert found[similarity] == expected(filed, similarity)
        facts = pipeline.artifact(index_key("embedding", similarity)).manifest.facts
        assert (facts["n_other_ids"], facts["dimension"]) == (1, 6)
    assert len({str(rows) for rows in found.values()}) == 3


BROKEN: dict[str, tuple[str, str | np.ndarray, str]] = {
    "a chunk without vector": ("chunks.txt", "", "chunks.npy: has no vector for chunk 'crew.md"),
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
"""Case -> the file, what stands in it (nothing: the id of a chunk is another), and the problem."""


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_refused(filed: Tiny, case: str) -> None:
    name, content, problem = BROKEN[case]
    configured(filed, "own", NPY)
    file = filed.root / "vectors" / name
    if isinstance(content, str):
        file.write_text(content or file.read_text().replace("crew.md", "cruw.md"), encoding="utf-8")
    else:
        np.save(file, content)
    with pytest.raises(DataError) as caught:
        filed.run()
    whole = problem if problem.startswith(("chunks", "queries")) else f"{name}: {problem}"
    assert str(caught.value).startswith(f"{filed.root}/vectors/{whole}")


def test_options_that_do_not_fit(filed: Tiny) -> None:
    configured(filed, "own", {**NPY, "chunk_ids": "none.txt"})
    with pytest.raises(ConfigError, match=r"`retrievers.own.chunk_ids`: no such file: "):
        load_experiment(filed.folder)
