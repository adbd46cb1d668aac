"""Writes a run as a file: TREC, lists as JSON lines, or Parquet, by the file's name."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rag_assets.errors import DataError
from rag_assets.evaluation.list_files import ERROR_KEY, IDS_KEY, is_json_lines
from rag_assets.evaluation.parquet_runs import is_parquet
from rag_assets.trec_lines import COMMENT


def write_run(run: pa.Table, path: Path, *, tag: str, failures: Mapping[str, str]) -> list[str]:
    """Write a run; a ``.gz`` after the name compresses TREC and JSON lines.

    TREC and JSON lines hold the ids of the judged units, Parquet every column of the run.

    Args:
        run: table of :data:`rag_assets.schemas.RUNS`, sorted by query id and rank.
        path: the file.
        tag: the last field of TREC lines.
        failures: query id -> why the retriever failed on it; JSON lines hold them.

    Returns:
        A line for each thing that the format cannot hold.

    Raises:
        DataError: an id holds white space and the format is TREC, or the file cannot be written.
    """
    notes = []
    if failures and not is_json_lines(path):
        notes.append(f"{len(failures)} failed queries are left out; .jsonl holds them")
    try:
        if is_parquet(path):
            pq.write_table(run, path, compression="zstd")
        elif is_json_lines(path):
            _write(path, _list_lines(run, failures))
        else:
            _write(path, _trec_lines(run, tag, path))
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", file=path) from error
    return notes


def _write(path: Path, lines: Iterator[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    # Without a time of its own in it, equal runs give equal bytes.
    is_zipped = path.suffix.lower() == ".gz"
    path.write_bytes(gzip.compress(content, mtime=0) if is_zipped else content)


def _trec_lines(run: pa.Table, tag: str, path: Path) -> Iterator[str]:
    for row in run.to_pylist():
        for name in ("query_id", "item_id"):
            if row[name].split() != [row[name]]:
                problem = f"{name} {row[name]!r} holds white space, which parts the fields of TREC"
                raise DataError(f"{problem}; write .jsonl or .parquet", file=path)
        if row["query_id"].startswith(COMMENT):
            problem = f"query_id {row['query_id']!r} begins with {COMMENT}, a comment in TREC"
            raise DataError(f"{problem}; write .jsonl or .parquet", file=path)
        yield f"{row['query_id']} Q0 {row['item_id']} {row['rank']} {row['score']!r} {tag}"


def _list_lines(run: pa.Table, failures: Mapping[str, str]) -> Iterator[str]:
    for query, rows in groupby(run.to_pylist(), key=lambda row: row["query_id"]):
        hits = [(row["item_id"], row["score"]) for row in rows]
        ids, scores = [item for item, _ in hits], [score for _, score in hits]
        line = {"query_id": query, IDS_KEY: ids, "scores": scores}
        yield json.dumps(line, ensure_ascii=False)
    for query, reason in sorted(failures.items()):
        yield json.dumps({"query_id": query, ERROR_KEY: reason}, ensure_ascii=False)
