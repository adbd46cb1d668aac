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
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.labels.pooling.pool import Judgment, Key, PooledUnit
from rag_assets.labels.pooling.sheet import refuse
from rag_assets.sources.fields import Place, Row, identifier, shown, string
from rag_assets.sources.ids import KnownIds
from rag_assets.sources.judgments import Quotes, Unlocated
from rag_assets.sources.strict_json import read_objects

STRONG_VOTES = 3
"""From so many votes up on, and so many times as many as down, the grade is 2."""

_KEYS = ("query_id", "doc_id", "chunk_id", "vote", "user", "count")
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
    problems: list[DataError] = []
    for line, row in read_objects(file):
        try:
            unit, vote, count, user = _vote(row, Place(file, line), ids)
        except DataError as error:
            problems.append(error)
            continue
        counted = counts.setdefault(unit, _Count(line))
        if user is not None:
            counted.of_users[user] = vote
        else:
            counted.summed[vote] += count
    refuse(problems)
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


def _vote(row: Row, place: Place, ids: _KnownIds) -> tuple[PooledUnit, str, int, str | None]:
    unknown = [key for key in row if key not in _KEYS]
    if unknown:
        raise place.error(f"unknown key; allowed: {', '.join(_KEYS)}", unknown[0])
    query_id = identifier(row, "query_id", place)
    ids.queries.row(query_id, place, "query_id")
    if ("doc_id" in row) == ("chunk_id" in row):
        raise place.error("needs either doc_id or chunk_id", "doc_id")
    unit = _unit(query_id, row, place, ids)
    vote = string(row, "vote", place)
    if vote not in {"up", "down"}:
        raise place.error(f"is {shown(vote)}; must be up or down", "vote")
    if "user" not in row:
        return unit, vote, _count(row, place), None
    if "count" in row:
        raise place.error("comes with a `user`, and a user votes once; give one of them", "count")
    return unit, vote, 1, identifier(row, "user", place)


def _unit(query_id: str, row: Mapping[str, object], place: Place, ids: _KnownIds) -> PooledUnit:
    key = "doc_id" if "doc_id" in row else "chunk_id"
    unit_id = identifier(row, key, place)
    chunk = (
        _CHUNK.fullmatch(unit_id) if key == "chunk_id" and unit_id not in ids.documents else None
    )
    if chunk is None:
        return PooledUnit(query_id, unit_id, 0, ids.length(unit_id, place, key))
    start, end = int(chunk["start"]), int(chunk["end"])
    length = ids.length(chunk["document"], place, key)
    if not start < end <= length:
        document = f"{shown(chunk['document'])}, of {length} characters"
        raise place.error(f"the span {start}-{end} is not in {document}", key)
    return PooledUnit(query_id, chunk["document"], start, end)


def _count(row: Mapping[str, object], place: Place) -> int:
    count = row.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise place.error("must be an integer from 1 on", "count")
    return count


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
    place = {name: row for row, name in enumerate(documents.column("document_id").to_pylist())}
    quotes = Quotes(documents)
    labels: dict[Key, Earlier] = {}
    for line, row in read_objects(file):
        if not str(row.get("source", "")).startswith(f"{SOURCE}: "):
            continue
        query_id, document_id = str(row["query_id"]), str(row["doc_id"])
        key: Key = (query_id, document_id, None, None)
        if row.get("quote") is not None:
            if document_id not in place:
                continue  # kept, though it is not in the corpus
            span = quotes.find(row["quote"], place[document_id], row.get("start"))
            if isinstance(span, Unlocated):
                continue
            key = (query_id, document_id, *span)
        if key in keys:
            labels[key] = Earlier(line, row.get("relevance", 1), row["source"])
    return labels
