"""What writers are given, and the texts that all of them write alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.store.canonical import canonical_json

BATCH_ROWS = 4096


class Tables(NamedTuple):
    """The three tables of a dataset (``schemas.DOCUMENTS``, ``QUERIES``, ``QRELS``)."""

    documents: pa.Table
    queries: pa.Table
    qrels: pa.Table


Writer = Callable[[Tables, Path], list[str]]
"""Writes tables into a folder that exists; returns a note on each thing that is not kept."""


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, never all at once."""
    for batch in table.to_batches(BATCH_ROWS):
        yield from batch.to_pylist()


def metadata_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a document or query."""
    found: dict[str, Any] = json.loads(row["metadata"])
    return found


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines that end in a line feed, as UTF-8."""
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def json_line(row: dict[str, Any]) -> str:
    """Return a row as one line of JSON."""
    return canonical_json(row)


def counted(number: int, one: str, many: str) -> list[str]:
    """Return the note ``'2 titles are not kept'``, or none for 0."""
    return [f"{number} {one if number == 1 else many}"] if number else []


def corpus_lines(documents: pa.Table) -> Iterator[str]:
    """Yield documents as lines of a BEIR corpus."""
    for row in rows_of(documents):
        line = {"_id": row["document_id"], "title": row["title"], "text": row["text"]}
        metadata = metadata_of(row)
        yield json_line({**line, "metadata": metadata} if metadata else line)


def refuse_ids(tables: Tables, unfit: Callable[[str], bool], why: str) -> None:
    """Refuse ids that the format cannot hold: a judgment that points nowhere is worse than none.

    Raises:
        DataError: there is such an id; names the first.
    """
    for kind, ids in (
        ("document", tables.documents.column("document_id")),
        ("document", tables.qrels.column("document_id")),  # kept, though not in the corpus
        ("query", tables.queries.column("query_id")),
    ):
        for found in ids.to_pylist():
            if unfit(found):
                raise DataError(f"{kind} id {found!r} {why}")
