"""A made run and its judgments as Parquet files: the input of ``metrics.py``."""

from __future__ import annotations

from pathlib import Path

DOCUMENTS = 1_000_003  # a prime: steps of any length visit different documents


def make_data(folder: Path, queries: int, depth: int) -> None:
    """Write ``run.parquet`` and ``judgments.parquet`` into ``folder``."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = np.random.default_rng(0)
    names = pa.array([f"document-{number}" for number in range(DOCUMENTS)])
    starts, steps = made.integers(1, DOCUMENTS, (2, queries))
    ranks = np.arange(depth)
    documents = (starts[:, None] + steps[:, None] * ranks) % DOCUMENTS
    ids = names.take(pa.array(documents.ravel()))
    query_ids = pa.array([f"query-{number}" for number in range(queries)])
    columns = {
        "query_id": query_ids.take(pa.array(np.repeat(np.arange(queries), depth))),
        "rank": pa.array(np.tile(ranks + 1, queries).astype(np.int32)),
        "score": pa.array(np.tile(depth - ranks, queries).astype(np.float64)),
        "unit_id": ids,
        "chunk_id": ids,
        "document_id": ids,
    }
    pq.write_table(pa.table(columns), folder / "run.parquet", compression="zstd")
    # Ranks below the run's depth stand for documents that it does not hold.
    judged = np.sort(made.random((queries, depth)).argsort(axis=1)[:, :20], axis=1)
    judged = np.hstack([judged, np.tile(np.arange(depth, depth + 10), (queries, 1))])
    found = (starts[:, None] + steps[:, None] * judged) % DOCUMENTS
    ids = names.take(pa.array(found.ravel()))
    columns = {
        "query_id": query_ids.take(pa.array(np.repeat(np.arange(queries), judged.shape[1]))),
        "evidence_id": ids,
        "unit_id": ids,
        "grade": pa.array(made.integers(0, 4, found.size).astype(np.int32)),
    }
    pq.write_table(pa.table(columns), folder / "judgments.parquet", compression="zstd")
