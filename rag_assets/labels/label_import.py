"""Labels of a dataset from sheets and from user feedback: all of them are added, or none.

A pool of several chunkings holds overlapping spans of one passage. If each relevant one became an
evidence of its own, R would count the passage as often as there are chunkings; and a long relevant
span would make every chunk inside it relevant. A unit satisfies an evidence when it holds half of
it, so the shortest relevant span of a passage is enough: longer ones satisfy it.

Lines of ``feedback.jsonl``: ``query_id``; ``doc_id`` or ``chunk_id`` (``document#start-end``, as in
runs); ``vote``: ``up`` or ``down``; and if wanted ``user`` (of the votes of one user on one unit
only the last line counts), or ``count``: how many said so (1 by default). With
u votes up and d votes down for a unit, its grade is:

- 2 when u >= 3 and u >= 3 d: several people, and a clear majority;
- 1 when u > d otherwise;
- 0 when u < d;
- none when u = d: undecided.

A line may have a time, ``at``, and may be of an ``answer``, which names the answerer, in place of a
passage. Votes on answers make no labels; ``online.feedback`` shows both over time.

Votes are not judgments by somebody who read all candidates: people vote on what they were shown,
mostly the first ranks. So each keeps its votes as its source, and labels that exist stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from rag_assets.errors import DataError, UsageError
from rag_assets.labels.pool import PLACE, Judgment, Key, PooledUnit, texts_of
from rag_assets.labels.sheets import refuse
from rag_assets.sources.dataset import Dataset, Problems
from rag_assets.sources.fields import Id, Place, Time, checked_id, read_time, shown
from rag_assets.sources.judgments import read_judgments
from rag_assets.sources.labelled_folder import LabelledFolder
from rag_assets.sources.row_files import read_declared
from rag_assets.sources.tables import KnownIds
from rag_assets.store.atomic import atomic_file

STRONG_VOTES = 3
"""From so many votes up on, and so many times as many as down, the grade is 2."""

_CHUNK = re.compile(r"(?P<document>.+)#(?P<start>\d{1,15})-(?P<end>\d{1,15})", re.DOTALL)


class Votes(NamedTuple):
    """Judgments from votes, and for how many units up and down are equal."""

    judgments: list[Judgment]
    n_undecided: int


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    query_id: Id
    vote: Literal["up", "down"]
    doc_id: Id | UnsetType = UNSET
    chunk_id: Id | UnsetType = UNSET
    user: Id | UnsetType = UNSET
    count: Annotated[int, Meta(ge=1, description="an integer from 1 on")] | UnsetType = UNSET
    answer: Id | UnsetType = UNSET
    at: Time | UnsetType = UNSET


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
        key = _voted_on(line, place)
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
            if _voted_on(line, place) == "answer":
                continue
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
            judgments.append(Judgment(unit, grade, f"feedback: {up} up, {down} down", lines[unit]))
    return Votes(judgments, len(votes) - len(judgments))


def read_votes(file: Path) -> list[dict[str, Any]]:
    """Return a row of :data:`rag_assets.schemas.ONLINE_LOG` a vote, the last of a user on a thing.

    Raises:
        DataError: a line breaks the format.
    """
    rows: dict[object, dict[str, Any]] = {}
    for place, line in read_declared(file, _Line):
        key, line_name = _voted_on(line, place), f"line {place.line}"
        names, user = [checked_id(getattr(line, key), place, key)], _user(line, place) or line_name
        rows[str(line.query_id), key, *names, user] = {
            "kind": "answer" if key == "answer" else "passage",
            **{"id": line_name, "names": names, "user": user, "up": line.vote == "up"},
            "at": None if line.at is UNSET else read_time(line.at, place, "at"),
            "count": 1 if line.count is UNSET else line.count,
            **{"results": [], "teams": [], "clicks": []},
        }
    return list(rows.values())


def _voted_on(line: _Line, place: Place) -> str:
    keys = [key for key in ("doc_id", "chunk_id", "answer") if getattr(line, key) is not UNSET]
    if len(keys) != 1:
        raise place.error("needs one of doc_id, chunk_id and answer", "doc_id")
    return keys[0]


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
        raise place.error("cannot be given together with `user`, who votes only once", "count")
    return checked_id(line.user, place, "user")


Labels = list[tuple[Key, Judgment]]


class Added(NamedTuple):
    """What became of judgments.

    Attributes:
        file: they were added to it.
        n_added: how many of them.
        n_known: how many labels were there.
        n_covered: how many say what a shorter span says.
        n_conflicts: how many of those that were there have another grade, which stays.
    """

    file: Path
    n_added: int
    n_known: int
    n_covered: int
    n_conflicts: int = 0


def add_judgments(
    dataset: Dataset,
    judgments: Iterable[Judgment],
    documents: pa.Table,
    queries: pa.Table,
    *,
    judge: str,
    sheet: Path | None = None,
    keeps_unknown: bool = False,
) -> Added:
    """Add judgments to the dataset's label file; one that is there with the same grade is known.

    Spans are added, or whole documents where ``judge``, the unit that the experiment judges, is
    ``document``. Of relevant spans that share half of the shorter one only the shortest is added:
    the others satisfy it. Where the labels have another grade already, a judgment of a ``sheet`` is
    refused; of others that grade stays. Judgments of documents that are not in the corpus may be
    kept.

    Raises:
        UsageError: judgments cannot be added to this format.
        DataError: the result would not be valid, or the sheet says something else than the labels;
            nothing is written.
        StoreError: the file cannot be written.
    """
    folder = _label_folder(dataset)
    file = folder.root / "judgments.jsonl"
    labels = by_key(judgments, judge == "document")
    problems = Problems(keeps_unknown=keeps_unknown)
    read = dataset.read_qrels(documents, queries, problems) if dataset.has_qrels else None
    old = read.table.to_pylist() if read is not None else []
    grades = {key_of(row): row["grade"] for row in old}
    conflicts = [
        DataError(
            f"query {shown(unit.query_id)} and document {shown(unit.document_id)}, characters "
            f"{unit.start}-{unit.end}: grade {grade}, but the labels have {grades[key]}",
            file=sheet,
            line=line,
        )
        for key, (unit, grade, _, line) in labels.items()
        if grades.get(key, grade) != grade
    ]
    refuse(conflicts if sheet is not None else [])
    new = [(key, judgment) for key, judgment in labels.items() if key not in grades]
    chosen = without_covered(new, old)
    if chosen:
        texts = texts_of(documents)
        lines = [_line(key, judgment, texts) for key, judgment in chosen]
        target = file.resolve()
        with atomic_file(target) as temporary:
            before = target.read_bytes() if target.is_file() else b""
            end = b"\n" if before and not before.endswith(b"\n") else b""
            temporary.write_bytes(before + end + b"".join(lines))
            if before:
                temporary.chmod(target.stat().st_mode & 0o777)
            read_judgments(temporary, documents, queries, problems, folder.columns.id_parts)
    n_known = len(labels) - len(new)
    return Added(file, len(chosen), n_known, len(new) - len(chosen), len(conflicts))


def key_of(row: Mapping[str, Any]) -> Key:
    """Return what a row of qrels is about."""
    return (row["query_id"], row["document_id"], row["start"], row["end"])


def by_key(judgments: Iterable[Judgment], whole: bool) -> dict[Key, Judgment]:
    """Return one judgment a key: the one with the highest grade, the first of several."""
    by_key: dict[Key, Judgment] = {}
    for judgment in judgments:
        key: Key = (*judgment.unit[:2], None, None) if whole else judgment.unit
        if key not in by_key or judgment.grade > by_key[key].grade:
            by_key[key] = judgment
    return by_key


def _line(key: Key, judgment: Judgment, texts: Mapping[str, str]) -> bytes:
    """Return a line of ``judgments.jsonl``; ``start`` stands where its quote is not unique."""
    row: dict[str, Any] = {"query_id": key[0], "doc_id": key[1], "relevance": judgment.grade}
    row["source"] = judgment.source
    if key[2] is not None:
        _, _, start, end = judgment.unit
        text = texts[key[1]]
        quote = row["quote"] = text[start:end]
        if not quote.strip():
            where = f"line {judgment.line}: characters {start}-{end} of {shown(key[1])}"
            raise DataError(f"{where} are blank, cannot be quoted")
        if text.find(quote) != start or text.find(quote, start + 1) >= 0:
            row["start"] = start
    return f"{json.dumps(row, ensure_ascii=False)}\n".encode()


def without_covered(new: Labels, old: Iterable[Mapping[str, Any]] = ()) -> Labels:
    """Leave out relevant spans of which an older or a shorter relevant span shares half.

    Of equally long ones that stays which begins first; what the labels hold already stays.
    """
    spans: dict[tuple[str, str], list[PooledUnit]] = {}
    for row in old:
        if row["grade"] > 0 and row["start"] is not None:
            span = PooledUnit(*(row[name] for name in PLACE))
            spans.setdefault(span[:2], []).append(span)
    covered: set[Key] = set()
    relevant = {
        PooledUnit(query_id, document_id, start, end)
        for (query_id, document_id, start, end), label in new
        if label.grade > 0 and start is not None and end is not None
    }
    for span in sorted(relevant, key=lambda span: (span.length, span)):
        others = spans.setdefault(span[:2], [])
        if any(span.shares_half(other) for other in others):
            covered.add(span)
        else:
            others.append(span)
    return [(key, label) for key, label in new if label.grade <= 0 or key not in covered]


def takes_judgments(dataset: Dataset) -> bool:
    """Return whether judgments can be added to a dataset."""
    try:
        _label_folder(dataset)
    except UsageError:
        return False
    return True


def _label_folder(dataset: Dataset) -> LabelledFolder:
    """Return the dataset as one that judgments can be added to.

    Raises:
        UsageError: they cannot be added to this format.
    """
    if not isinstance(dataset, LabelledFolder):
        problem = f"judgments cannot be added to a dataset of format {dataset.format}"
        how = "`rag-assets convert PATH --to jsonl --out FOLDER` converts it"
        raise UsageError(f"{problem}; allowed: markdown, jsonl, csv, parquet; {how}")
    if dataset.has_qrels and dataset.qrels_files()[0].suffix != ".jsonl":
        problem = f"{dataset.qrels_files()[0]}: judgments are added to judgments.jsonl only"
        raise UsageError(f"{problem}; convert the file first")
    return dataset
