"""Documents from rows of named fields, one row a document, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.datasets.columns import Columns
from rag_assets.datasets.dataset import Read
from rag_assets.datasets.fields import (
    Place,
    Row,
    joined_id,
    metadata_json,
    optional_string,
    string,
)
from rag_assets.datasets.ids import UniqueIds
from rag_assets.datasets.problems import meet, tolerated
from rag_assets.datasets.rows import DocumentRows

Records = Iterable[tuple[int, Row]]


class _Names(NamedTuple):
    document_id: tuple[str, ...]
    title: str
    text: str


def read_documents(
    file: Path,
    records: Callable[[], Records],
    columns: Columns,
    notes: Callable[[], Sequence[str]] = tuple,
) -> Read:
    """Return the documents of a file.

    Args:
        file: where they come from, for errors.
        records: gives all rows, each with its line; called again only when an id occurs twice.
        columns: which fields hold id, title and text; all others become metadata.
        notes: what was odd about the rows, asked for after the last one.

    Raises:
        DataError: a row breaks the contract, an id occurs twice, or there is no document.
    """
    rows = DocumentRows()
    names: _Names | None = None
    used: frozenset[str] = frozenset()
    for line, row in records():
        place = Place(file, line)
        if names is None:
            names = _names(columns, row, place)
            # What an id is made of stays metadata: the source of a document is a field of its own.
            one_id = names.document_id if len(names.document_id) == 1 else ()
            used = frozenset((*one_id, names.title, names.text))
        with tolerated():
            document_id = joined_id(row, names.document_id, place)
            meet("document", document_id)
            title = optional_string(row, names.title, place) or ""
            text = string(row, names.text, place)
            rows.add(document_id, title, text, metadata_json(row, used))
    read = rows.read(Place(file), list(notes()))
    ids = read.table.column("document_id")
    if names is None or pc.count_distinct(ids).as_py() == len(ids):
        return read
    _refuse_repeated(file, records(), names.document_id)
    return Read(_first_of_each(read.table), read.notes)


def _names(columns: Columns, row: Row, place: Place) -> _Names:
    found = list(row)
    document_id = columns.document_id(found, place)
    return _Names(document_id, *(columns.name(name, found, place) for name in ("title", "text")))


def _refuse_repeated(file: Path, records: Records, keys: tuple[str, ...]) -> None:
    """Name the lines of an id that occurs twice, by reading again.

    That there is one is found by Arrow, which needs a fraction of the memory of a dictionary of
    lines.
    """
    key = ", ".join(keys)
    unique, n_rows = UniqueIds("document", key), 0
    for line, row in records:
        place = Place(file, line)
        with tolerated():
            document_id = joined_id(row, keys, place)
            n_rows += 1
            unique.add(document_id, place)
    if len(unique) == n_rows:
        raise Place(file).error("an id occurs twice; the file changed while it was read", key)


def _first_of_each(documents: pa.Table) -> pa.Table:
    """Return the documents without the later ones of an id, for callers that collect problems."""
    seen: set[str] = set()
    keep = []
    for document_id in documents.column("document_id").to_pylist():
        keep.append(document_id not in seen)
        seen.add(document_id)
    return documents.filter(pa.array(keep))
