"""User feedback as graded judgments.

Lines of ``feedback.jsonl``: ``query_id``; ``doc_id`` or ``chunk_id`` (``document#start-end``, as in
runs); ``vote``: ``up`` or ``down``; and if wanted ``count``, how many said so (1 by default). With
u votes up and d votes down for a unit, its grade is:

- 2 when u >= 3 and u >= 3 d: several people, and a clear majority;
- 1 when u > d otherwise;
- 0 when u < d;
- none when u = d: undecided.

Votes are not judgments by somebody who read all candidates: people vote on what they were shown,
mostly the first ranks. So each keeps its votes as its source, and labels that exist stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_assets.datasets.fields import Place, Row, identifier, shown, string
from rag_assets.datasets.ids import KnownIds
from rag_assets.datasets.jsonl import read_objects
from rag_assets.errors import DataError
from rag_assets.pooling.add import Judgment
from rag_assets.pooling.pool import PooledUnit
from rag_assets.pooling.sheet import refuse

STRONG_VOTES = 3
"""From so many votes up on, and so many times as many as down, the grade is 2."""

_KEYS = ("query_id", "doc_id", "chunk_id", "vote", "count")
_CHUNK = re.compile(r"(?P<document>.+)#(?P<start>\d{1,15})-(?P<end>\d{1,15})", re.DOTALL)


class Votes(NamedTuple):
    """Judgments from votes, and for how many units up and down are equal."""

    judgments: list[Judgment]
    n_undecided: int


@dataclass
class _Count:
    line: int
    up: int = 0
    down: int = 0


def read_feedback(file: Path, documents: pa.Table, queries: pa.Table) -> Votes:
    """Return the votes of a file as judgments, one for each query and unit.

    Args:
        file: JSON lines as described above.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        queries: table of :data:`rag_assets.schemas.QUERIES`.

    Raises:
        DataError: a line breaks the format, or names a query, document or span that does not
            exist; the first problem is told, the others are counted.
    """
    known = _Known(documents, queries)
    counts: dict[PooledUnit, _Count] = {}
    problems: list[DataError] = []
    for line, row in read_objects(file):
        try:
            unit, vote, count = _vote(row, Place(file, line), known)
        except DataError as error:
            problems.append(error)
            continue
        counted = counts.setdefault(unit, _Count(line))
        if vote == "up":
            counted.up += count
        else:
            counted.down += count
    refuse(problems)
    judgments = [
        Judgment(unit, grade, f"feedback: {counted.up} up, {counted.down} down", counted.line)
        for unit, counted in counts.items()
        if (grade := grade_of(counted.up, counted.down)) is not None
    ]
    return Votes(judgments, len(counts) - len(judgments))


def grade_of(up: int, down: int) -> int | None:
    """Return the grade that votes stand for; None where they are undecided."""
    if up == down:
        return None
    if up < down:
        return 0
    return 2 if up >= STRONG_VOTES and up >= STRONG_VOTES * down else 1


class _Known:
    """The ids that feedback may name."""

    def __init__(self, documents: pa.Table, queries: pa.Table) -> None:
        self.queries = KnownIds("query", queries.column("query_id"))
        self.documents = KnownIds("document", documents.column("document_id"))
        self._texts = documents.column("text")

    def length(self, document_id: str, place: Place, key: str) -> int:
        """Return how many characters a document has."""
        return len(self._texts[self.documents.row(document_id, place, key)].as_py())


def _vote(row: Row, place: Place, known: _Known) -> tuple[PooledUnit, str, int]:
    unknown = [key for key in row if key not in _KEYS]
    if unknown:
        raise place.error(f"unknown key; allowed: {', '.join(_KEYS)}", unknown[0])
    query_id = identifier(row, "query_id", place)
    known.queries.row(query_id, place, "query_id")
    if ("doc_id" in row) == ("chunk_id" in row):
        raise place.error("needs either doc_id or chunk_id", "doc_id")
    unit = _unit(query_id, row, place, known)
    vote = string(row, "vote", place)
    if vote not in {"up", "down"}:
        raise place.error(f"is {shown(vote)}; must be up or down", "vote")
    return unit, vote, _count(row, place)


def _unit(query_id: str, row: Mapping[str, object], place: Place, known: _Known) -> PooledUnit:
    key = "doc_id" if "doc_id" in row else "chunk_id"
    found = identifier(row, key, place)
    chunk = _CHUNK.fullmatch(found) if key == "chunk_id" and found not in known.documents else None
    if chunk is None:
        return PooledUnit(query_id, found, 0, known.length(found, place, key))
    start, end = int(chunk["start"]), int(chunk["end"])
    length = known.length(chunk["document"], place, key)
    if not start < end <= length:
        document = f"{shown(chunk['document'])}, of {length} characters"
        raise place.error(f"the span {start}-{end} is not in {document}", key)
    return PooledUnit(query_id, chunk["document"], start, end)


def _count(row: Mapping[str, object], place: Place) -> int:
    count = row.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise place.error("must be an integer from 1 on", "count")
    return count
