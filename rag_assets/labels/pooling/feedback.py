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
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from rag_assets.labels.pooling.pool import Judgment, Key, PooledUnit
from rag_assets.labels.pooling.sheet import refuse
from rag_assets.sources.dataset import Problems
from rag_assets.sources.fields import Id, Place, checked_id, shown
from rag_assets.sources.judgments import Quotes, Unlocated
from rag_assets.sources.row_files import read_declared, read_objects
from rag_assets.sources.tables import KnownIds

STRONG_VOTES = 3
"""From so many votes up on, and so many times as many as down, the grade is 2."""

_CHUNK = re.compile(r"(?P<document>.+)#(?P<start>\d{1,15})-(?P<end>\d{1,15})", re.DOTALL)

SOURCE = "feedback: "
"""How the source of a judgment from feedback begins."""


class Votes(NamedTuple):
    """Judgments from votes, for how many units up and down are equal, and all units voted on."""

    judgments: list[Judgment]
    n_undecided: int
    units: frozenset[PooledUnit]


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    query_id: Id
    vote: Literal["up", "down"]
    doc_id: Id | UnsetType = UNSET
    chunk_id: Id | UnsetType = UNSET
    user: Id | UnsetType = UNSET
    count: Annotated[int, Meta(ge=1, description="an integer from 1 on")] | UnsetType = UNSET


def read_feedback(file: Path, documents: pa.Table, queries: pa.Table) -> Votes:
    """Return the votes of a file, as described above, as judgments: one for each query and unit.

    Raises:
        DataError: a line breaks the format, or names a query, document or span that does not
            exist; the first problem is told, the others are counted.
    """
    known_queries = KnownIds("query", queries.column("query_id"))
    known_documents = KnownIds("document", documents.column("document_id"))
    texts = documents.column("text")

    def unit_of(line: _Line, place: Place) -> PooledUnit:
        query_id = checked_id(line.query_id, place, "query_id")
        known_queries.row(query_id, place, "query_id")
        if (line.doc_id is UNSET) == (line.chunk_id is UNSET):
            raise place.error("needs either doc_id or chunk_id", "doc_id")
        key = "chunk_id" if line.doc_id is UNSET else "doc_id"
        unit_id = checked_id(getattr(line, key), place, key)
        is_chunk = key == "chunk_id" and unit_id not in known_documents
        chunk = _CHUNK.fullmatch(unit_id) if is_chunk else None
        document_id = unit_id if chunk is None else chunk["document"]
        length = len(texts[known_documents.row(document_id, place, key)].as_py())
        if chunk is None:
            return PooledUnit(query_id, document_id, 0, length)
        start, end = int(chunk["start"]), int(chunk["end"])
        if not start < end <= length:
            document = f"{shown(document_id)}, of {length} characters"
            raise place.error(f"the span {start}-{end} is not in {document}", key)
        return PooledUnit(query_id, document_id, start, end)

    votes: dict[PooledUnit, dict[object, tuple[str, int]]] = {}
    lines: dict[PooledUnit, int] = {}
    problems = Problems(collect=True)
    for place, line in read_declared(file, _Line, problems):
        with problems:
            unit, user = unit_of(line, place), _user(line, place)
            lines.setdefault(unit, place.line or 0)
            count = 1 if line.count is UNSET else line.count
            # of one user only the last vote counts
            votes.setdefault(unit, {})[place.line if user is None else user] = (line.vote, count)
    refuse(problems.collected or [])
    judgments = []
    for unit, cast in votes.items():
        up, down = (sum(n for vote, n in cast.values() if vote == way) for way in ("up", "down"))
        grade = grade_of(up, down)
        if grade is not None:
            judgments.append(Judgment(unit, grade, f"{SOURCE}{up} up, {down} down", lines[unit]))
    return Votes(judgments, len(votes) - len(judgments), frozenset(votes))


def grade_of(up: int, down: int) -> int | None:
    """Return the grade that votes stand for; None where they are undecided."""
    if up == down:
        return None
    if up < down:
        return 0
    return 2 if up >= STRONG_VOTES and up >= STRONG_VOTES * down else 1


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


def earlier_feedback(file: Path, documents: pa.Table, keys: Collection[Key]) -> dict[Key, Earlier]:
    """Return the labels from feedback that are about some of ``keys``; a valid file is there."""
    rows = {name: row for row, name in enumerate(documents.column("document_id").to_pylist())}
    quotes = Quotes(documents)
    labels: dict[Key, Earlier] = {}
    for place, row in read_objects(file):
        if not str(row.get("source", "")).startswith(SOURCE):
            continue
        query_id, document_id = str(row["query_id"]), str(row["doc_id"])
        key: Key = (query_id, document_id, None, None)
        if row.get("quote") is not None:
            if document_id not in rows:
                continue  # it may be a label of a document that is not in the corpus
            span = quotes.find(row["quote"], rows[document_id], row.get("start"))
            if isinstance(span, Unlocated):
                continue
            key = (query_id, document_id, *span)
        if key in keys:
            labels[key] = Earlier(place.line or 0, row.get("relevance", 1), row["source"])
    return labels
