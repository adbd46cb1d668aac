"""Texts of what was retrieved, each once, as long as the page can hold them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from rag_assets.report.page.embedded_json import escaped_json

TEXT_BYTES = 1_600_000
"""Of all texts together, as they are written into the page, at most."""

ID_CHARACTERS = 160
"""Longer ids, titles and tags are cut."""

LENGTHS = (1500, 1000, 700, 500, 350, 250, 160)
"""Characters of one text: the first with which all fit, else the last."""


class Unit(NamedTuple):
    """A span of a document, in characters of its text."""

    document_id: str
    start: int
    end: int


class Excerpt(NamedTuple):
    """A part of a unit, and at which character of the document's text it starts."""

    start: int
    text: str


Documents = Mapping[str, tuple[str, str]]
"""Document -> title and text."""


def read_documents(path: Path, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return title and text of some documents; the others are not kept in memory."""
    wanted = pa.array(sorted(set(ids)), pa.string())
    columns = ["document_id", "title", "text"]
    table = ds.dataset(path).to_table(columns, filter=ds.field("document_id").isin(wanted))
    rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
    return {document_id: (title, text) for document_id, title, text in rows}


def excerpts(
    documents: Documents,
    units: Sequence[Unit],
    evidence: Mapping[str, Sequence[int]],
    room: int = TEXT_BYTES,
) -> tuple[dict[Unit, Excerpt], int]:
    """Return an excerpt of each unit that has a text, and how many characters one has at most.

    The excerpts get shorter until all fit into ``room``; if the shortest ones do not,
    the last units have none.

    Args:
        documents: title and text of the units' documents.
        units: the most important first.
        evidence: document -> the characters at which evidence starts, in any order.
        room: bytes in the page; more than :data:`TEXT_BYTES` is not used.
    """
    starts = {document_id: sorted(found) for document_id, found in evidence.items()}
    known = [unit for unit in units if unit.document_id in documents and unit.end > unit.start]
    for length in LENGTHS:
        found, whole = _fitting(documents, known, starts, length, min(room, TEXT_BYTES))
        if whole:
            break
    return found, length


def _fitting(
    documents: Documents,
    units: Sequence[Unit],
    starts: Mapping[str, Sequence[int]],
    length: int,
    left: int,
) -> tuple[dict[Unit, Excerpt], bool]:
    """Return the excerpts of that length until the page is full, and whether these are all."""
    found: dict[Unit, Excerpt] = {}
    for unit in units:
        excerpt = _excerpt(documents[unit.document_id][1], unit, starts, length)
        left -= len(escaped_json(excerpt.text).encode())
        if left < 0:
            return found, False
        found[unit] = excerpt
    return found, True


def _excerpt(text: str, unit: Unit, starts: Mapping[str, Sequence[int]], length: int) -> Excerpt:
    """Return the part of a unit that holds the start of its first evidence, else its beginning."""
    start = unit.start
    if unit.end - unit.start > length:
        of_document = starts.get(unit.document_id, ())
        place = bisect_left(of_document, unit.start)
        if place < len(of_document) and of_document[place] < unit.end:
            before = of_document[place] - length // 4
            start = max(unit.start, min(before, unit.end - length))
    return Excerpt(start, text[start : min(unit.end, start + length)])


def shortened(text: str, characters: int = ID_CHARACTERS) -> str:
    """Return the text, cut behind so many characters, with dots for the rest."""
    return text if len(text) <= characters else f"{text[:characters]}..."
