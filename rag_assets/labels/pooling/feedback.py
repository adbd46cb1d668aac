"""User feedback as graded judgments.

Lines of ``feedback.jsonl``: ``query_id``; ``doc_id`` or ``chunk_id`` (``document#start-end``, as in
runs); ``vote``: ``up`` or ``down``; and if wanted ``user`` (of the votes of one user on one unit
only the last line counts), or ``count``: how many said so (1 by default). With
u votes up and d votes down for a unit, its grade is:

- 2 when u >= 3 and u >= 3 d: several people, and a clear majority;
- 1 when u > d otherwise;
- 0 when u < d;
- none when u = d: undecided.

A file says all that is known of the units that it names: read again, with votes changed or added,
it gives them new grades, and takes back those of units that are undecided now.

Votes are not judgments by somebody who read all candidates: people vote on what they were shown,
mostly the first ranks. So each keeps its votes as its source, and labels that exist stay.

Votes change, so labels that came from feedback may be replaced: each line of ``judgments.jsonl``
names its source.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from rag_assets.labels.pooling.pool import Judgment, Key, PooledUnit
from rag_assets.labels.pooling.sheet import refuse
from rag_assets.sources.fields import Id, Place, checked_id, shown
from rag_assets.sources.judgments import Quotes, Unlocated
from rag_assets.sources.problems import Problems
from rag_assets.sources.row_files import read_declared, read_objects
from rag_assets.sources.tables import KnownIds

STRONG_VOTES = 3
"""From so many votes up on, and so many times as many as down, the grade is 2."""

_CHUNK = re.compile(r"(?P<document>.+)#(?P<start>\d{1,15})-(?P<end>\d{1,15})", re.DOTALL)

SOURCE = "feedback"
"""How the source of a judgment from feedback begins."""


class Votes(NamedTuple):
    """Judgments from votes, for how many units up and down are equal, and all units voted on."""

    judgments: list[Judgment]
    n_undecided: int
    units: frozenset[PooledUnit]


@dataclass
class _Count:
    """The votes on one unit: sums of those without a user, and the last one of each user."""

    line: int
    summed: Counter[str] = field(default_factory=Counter)
    of_users: dict[str, str] = field(default_factory=dict)

    @property
    def up(self) -> int:
        return self._sum("up")

    @property
    def down(self) -> int:
        return self._sum("down")

    def _sum(self, vote: str) -> int:
        return self.summed[vote] + list(self.of_users.values()).count(vote)


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
    ids = _KnownIds(documents, queries)
    counts: dict[PooledUnit, _Count] = {}
    problems = Problems(collect=True)
    for place, line in read_declared(file, _Line, problems):
        with problems:
            unit, user = _unit(line, place, ids), _user(line, place)
            counted = counts.setdefault(unit, _Count(place.line or 0))
            if user is not None:
                counted.of_users[user] = line.vote
            else:
                counted.summed[line.vote] += 1 if line.count is UNSET else line.count
    refuse(problems.collected or [])
    judgments = [
        Judgment(unit, grade, f"{SOURCE}: {counted.up} up, {counted.down} down", counted.line)
        for unit, counted in counts.items()
        if (grade := grade_of(counted.up, counted.down)) is not None
    ]
    return Votes(judgments, len(counts) - len(judgments), frozenset(counts))


def grade_of(up: int, down: int) -> int | None:
    """Return the grade that votes stand for; None where they are undecided."""
    if up == down:
        return None
    if up < down:
        return 0
    return 2 if up >= STRONG_VOTES and up >= STRONG_VOTES * down else 1


class _KnownIds:
    """The ids that feedback may name."""

    def __init__(self, documents: pa.Table, queries: pa.Table) -> None:
        self.queries = KnownIds("query", queries.column("query_id"))
        self.documents = KnownIds("document", documents.column("document_id"))
        self._texts = documents.column("text")

    def length(self, document_id: str, place: Place, key: str) -> int:
        """Return how many characters a document has."""
        return len(self._texts[self.documents.row(document_id, place, key)].as_py())


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    query_id: Id
    vote: Literal["up", "down"]
    doc_id: Id | UnsetType = UNSET
    chunk_id: Id | UnsetType = UNSET
    user: Id | UnsetType = UNSET
    count: Annotated[int, Meta(ge=1, description="an integer from 1 on")] | UnsetType = UNSET


def _unit(line: _Line, place: Place, ids: _KnownIds) -> PooledUnit:
    query_id = checked_id(line.query_id, place, "query_id")
    ids.queries.row(query_id, place, "query_id")
    if (line.doc_id is UNSET) == (line.chunk_id is UNSET):
        raise place.error("needs either doc_id or chunk_id", "doc_id")
    key, given = ("chunk_id", line.chunk_id) if line.doc_id is UNSET else ("doc_id", line.doc_id)
    unit_id = checked_id(given, place, key)
    is_chunk = key == "chunk_id" and unit_id not in ids.documents
    chunk = _CHUNK.fullmatch(unit_id) if is_chunk else None
    if chunk is None:
        return PooledUnit(query_id, unit_id, 0, ids.length(unit_id, place, key))
    start, end = int(chunk["start"]), int(chunk["end"])
    length = ids.length(chunk["document"], place, key)
    if not start < end <= length:
        document = f"{shown(chunk['document'])}, of {length} characters"
        raise place.error(f"the span {start}-{end} is not in {document}", key)
    return PooledUnit(query_id, chunk["document"], start, end)


def _user(line: _Line, place: Place) -> str | None:
    if line.user is UNSET:
        return None
    if line.count is not UNSET:
        raise place.error("comes with a `user`, and a user votes once; give one of them", "count")
    return checked_id(line.user, place, "user")


class Earlier(NamedTuple):
    """A label from feedback: its line in the label file, its grade, and the votes behind it."""

    line: int
    grade: int
    source: str

    def says(self, judgment: Judgment | None) -> bool:
        """Return whether a judgment is this label, votes and all."""
        return judgment is not None and judgment[1:3] == self[1:3]


def earlier_feedback(file: Path, documents: pa.Table, keys: Collection[Key]) -> dict[Key, Earlier]:
    """Return the labels from feedback that are about some of ``keys``.

    Args:
        file: ``judgments.jsonl``, which is there and valid.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        keys: the units of interest.
    """
    rows = {name: row for row, name in enumerate(documents.column("document_id").to_pylist())}
    quotes = Quotes(documents)
    labels: dict[Key, Earlier] = {}
    for place, row in read_objects(file):
        if not str(row.get("source", "")).startswith(f"{SOURCE}: "):
            continue
        query_id, document_id = str(row["query_id"]), str(row["doc_id"])
        key: Key = (query_id, document_id, None, None)
        if row.get("quote") is not None:
            if document_id not in rows:
                continue  # kept, though it is not in the corpus
            span = quotes.find(row["quote"], rows[document_id], row.get("start"))
            if isinstance(span, Unlocated):
                continue
            key = (query_id, document_id, *span)
        if key in keys:
            labels[key] = Earlier(place.line or 0, row.get("relevance", 1), row["source"])
    return labels
