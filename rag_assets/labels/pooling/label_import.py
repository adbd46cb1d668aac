"""From judged units to the labels of a dataset: all of them are added, or none.

A pool of several chunkings holds overlapping spans of one passage. If each relevant one became an
evidence of its own, R would count the passage as often as there are chunkings; and a long relevant
span would make every chunk inside it relevant. A unit satisfies an evidence when it holds half of
it, so the shortest relevant span of a passage is enough: longer ones satisfy it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.errors import DataError, UsageError
from rag_assets.labels.pooling.feedback import Earlier, earlier_feedback
from rag_assets.labels.pooling.pool import Judgment, Key, PooledUnit
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.fields import shown
from rag_assets.sources.judgments import read_judgments
from rag_assets.sources.problems import Problems
from rag_assets.store.atomic import atomic_file

FORMATS = ("markdown", "jsonl", "csv", "parquet")
"""Formats whose judgments lie in ``judgments.jsonl``; to others nothing is added."""

JsonRow = dict[str, Any]
Rows = dict[Key, JsonRow]
Span = tuple[int, int]

Replaced = Mapping[int, JsonRow | None]
"""Line number -> the row that takes its place; None: the line goes."""


class Added(NamedTuple):
    """What became of judgments: added to ``file``, there already, or covered by a shorter span.

    Of earlier feedback: how many labels got another grade or other votes, and how many are gone.
    """

    file: Path
    n_added: int
    n_known: int
    n_covered: int
    n_changed: int = 0
    n_withdrawn: int = 0


def add_judgments(
    dataset: Dataset,
    judgments: Iterable[Judgment],
    documents: pa.Table,
    queries: pa.Table,
    *,
    judge: str,
    on_conflict: Callable[[DataError], object],
    renewed: Collection[PooledUnit] = (),
    keeps_unknown: bool = False,
) -> Added:
    """Add judgments to the dataset's label file; one that is there with the same grade is known.

    Spans are added, or whole documents where ``judge`` is ``document``. Of relevant spans that
    share half of the shorter one only the shortest is added: the others satisfy it.

    Args:
        dataset: to which they are added.
        judgments: units of known queries and documents, each unit once.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        queries: table of :data:`rag_assets.schemas.QUERIES`.
        judge: the unit that the experiment judges.
        on_conflict: called where the labels have another grade already; theirs stays.
        renewed: units on which the judgments say all that feedback says; labels of theirs that came
            from earlier feedback are replaced, or taken back.
        keeps_unknown: whether judgments of documents that are not in the corpus are kept.

    Raises:
        UsageError: judgments cannot be added to this format.
        DataError: the result would not be valid; nothing is written.
        StoreError: the file cannot be written.
    """
    file = label_file(dataset)
    whole = judge == "document"
    new_labels = by_key(judgments, whole)
    named = {_key(unit, whole) for unit in renewed}
    outdated = _outdated(file, documents, named, new_labels) if dataset.has_qrels else {}
    problems = Problems(keeps_unknown=keeps_unknown)
    read = dataset.read_qrels(documents, queries, problems) if dataset.has_qrels else None
    labels = read.table.to_pylist() if read is not None else []
    old = [row for row in labels if _key_of(row) not in outdated]
    new = _unknown(new_labels, old, on_conflict)
    chosen = without_covered(new, old)
    if chosen or outdated:
        rows = _span_rows(chosen, documents)
        check = partial(read_judgments, documents=documents, queries=queries, problems=problems)
        _write(file, *_placed(rows, outdated), check)
    n_changed = sum(key in outdated for key, _ in chosen)
    return Added(
        file,
        n_added=len(chosen) - n_changed,
        n_known=len(new_labels) - len(new),
        n_covered=len(new) - len(chosen),
        n_changed=n_changed,
        n_withdrawn=len(outdated) - n_changed,
    )


def _outdated(
    file: Path,
    documents: pa.Table,
    named: Collection[Key],
    new_labels: Mapping[Key, Judgment],
) -> dict[Key, Earlier]:
    """Return the labels from feedback on the named units that say something else now."""
    earlier = earlier_feedback(file, documents, named) if named else {}
    return {key: label for key, label in earlier.items() if not label.says(new_labels.get(key))}


def _unknown(
    new_labels: Mapping[Key, Judgment],
    old: Iterable[Mapping[str, Any]],
    on_conflict: Callable[[DataError], object],
) -> list[tuple[Key, Judgment]]:
    """Return the judgments that the labels do not have; tell of those with another grade."""
    grades = {_key_of(row): row["grade"] for row in old}
    for key, judgment in new_labels.items():
        if key in grades and grades[key] != judgment.grade:
            on_conflict(_conflict(judgment, grades[key]))
    return [(key, judgment) for key, judgment in new_labels.items() if key not in grades]


def _placed(
    rows: Rows, outdated: Mapping[Key, Earlier]
) -> tuple[list[JsonRow], dict[int, JsonRow | None]]:
    """Return the rows to append, and by line number those that replace one, or None for none."""
    replaced = {label.line: rows.get(key) for key, label in outdated.items()}
    return [row for key, row in rows.items() if key not in outdated], replaced


def _key(unit: PooledUnit, whole: bool) -> Key:
    query_id, document_id, start, end = unit
    return (query_id, document_id, None if whole else start, None if whole else end)


def _key_of(row: Mapping[str, Any]) -> Key:
    return (row["query_id"], row["document_id"], row["start"], row["end"])


def by_key(judgments: Iterable[Judgment], whole: bool) -> dict[Key, Judgment]:
    """Return one judgment a key: the one with the highest grade, the first of several."""
    by_key: dict[Key, Judgment] = {}
    for judgment in judgments:
        key = _key(judgment.unit, whole)
        if key not in by_key or judgment.grade > by_key[key].grade:
            by_key[key] = judgment
    return by_key


def _conflict(judgment: Judgment, grade: int) -> DataError:
    unit = judgment.unit
    return DataError(
        f"line {judgment.line}: query {shown(unit.query_id)} and document "
        f"{shown(unit.document_id)}, characters {unit.start}-{unit.end}: grade {judgment.grade}, "
        f"but the labels have {grade}"
    )


def _span_rows(new: Sequence[tuple[Key, Judgment]], documents: pa.Table) -> Rows:
    names = ("document_id", "text")
    texts = dict(zip(*(documents.column(name).to_pylist() for name in names), strict=True))
    rows = {}
    for key, judgment in new:
        row: JsonRow = {"query_id": key[0], "doc_id": key[1], "relevance": judgment.grade}
        row["source"] = judgment.source
        if key[2] is not None:
            row |= _quoted(texts[key[1]], judgment)
        rows[key] = row
    return rows


def _quoted(text: str, judgment: Judgment) -> dict[str, Any]:
    start, end = judgment.unit.start, judgment.unit.end
    quote = text[start:end]
    if not quote.strip():
        problem = f"line {judgment.line}: characters {start}-{end} of "
        raise DataError(f"{problem}{shown(judgment.unit.document_id)} are blank, cannot be quoted")
    first = text.find(quote)
    unique = first == start and text.find(quote, first + 1) < 0
    return {"quote": quote} if unique else {"quote": quote, "start": start}


def without_covered(
    new: Sequence[tuple[Key, Judgment]], old: Sequence[dict[str, Any]]
) -> list[tuple[Key, Judgment]]:
    """Leave out relevant spans that a shorter, or an older, relevant span says already."""
    labelled: dict[tuple[str, str], list[Span]] = {}
    for row in old:
        if row["grade"] > 0 and row["start"] is not None:
            place = labelled.setdefault((row["query_id"], row["document_id"]), [])
            place.append((row["start"], row["end"]))
    spans: dict[tuple[str, str], list[Span]] = {}
    for (query_id, document_id, start, end), judgment in new:
        if judgment.grade > 0 and start is not None and end is not None:
            spans.setdefault((query_id, document_id), []).append((start, end))
    covered = {
        (*place, *span)
        for place, own_spans in spans.items()
        for span in covered_spans(own_spans, labelled.get(place, ()))
    }
    return [(k, judgment) for k, judgment in new if judgment.grade <= 0 or k not in covered]


def covered_spans(spans: Iterable[Span], labelled: Iterable[Span] = ()) -> set[Span]:
    """Return the spans that share at least half of the shorter one with one that is kept.

    Args:
        spans: relevant spans ``[start, end)`` of one document for one query. The shortest is kept
            first, among equals the one that begins first.
        labelled: relevant spans that the labels hold already; all are kept.
    """
    shortest = list(labelled)
    covered: set[Span] = set()
    for span in sorted(set(spans), key=lambda s: (s[1] - s[0], s)):
        if any(_share_half(span, other) for other in shortest):
            covered.add(span)
        else:
            shortest.append(span)
    return covered


def _share_half(first: Span, other: Span) -> bool:
    shared = min(first[1], other[1]) - max(first[0], other[0])
    return shared > 0 and 2 * shared >= min(first[1] - first[0], other[1] - other[0])


def label_file(dataset: Dataset) -> Path:
    """Return the file to which judgments are added; it need not exist.

    Raises:
        UsageError: judgments cannot be added to this format.
    """
    if dataset.format not in FORMATS:
        raise UsageError(
            f"judgments cannot be added to a dataset of format {dataset.format}; allowed: "
            f"{', '.join(FORMATS)}; `rag-assets convert PATH --to jsonl --out FOLDER` converts it"
        )
    if dataset.has_qrels and dataset.qrels_files()[0].suffix != ".jsonl":
        raise UsageError(
            f"{dataset.qrels_files()[0]}: judgments are added to judgments.jsonl only; "
            "convert the file first"
        )
    return dataset.root / "judgments.jsonl"


def _write(
    file: Path, rows: Sequence[JsonRow], replaced: Replaced, check: Callable[[Path], object]
) -> None:
    """Append lines to a ``judgments.jsonl``, and replace some.

    Args:
        file: the file; created when it is not there, removed when no line is left.
        rows: one mapping a line, in the keys of the format.
        replaced: lines that change or go.
        check: reads the finished file before it takes the old one's place.

    Raises:
        DataError: ``check`` finds the result invalid; the file is as it was.
        StoreError: the file cannot be written.
    """
    target = file.resolve()
    old = target.read_bytes() if target.is_file() else b""
    lines = []
    for number, raw in enumerate(old.split(b"\n"), start=1):
        row = replaced.get(number)
        if number not in replaced:
            lines.append(raw)
        elif row is not None:
            lines.append(_line(row))
    text = b"\n".join(lines)
    if text and not text.endswith(b"\n"):
        text += b"\n"
    text += b"".join(_line(row) + b"\n" for row in rows)
    if replaced and not text.strip():
        target.unlink()
        return
    with atomic_file(target) as temporary:
        temporary.write_bytes(text)
        if target.is_file():
            temporary.chmod(target.stat().st_mode & 0o777)
        check(temporary)


def _line(row: JsonRow) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode()
