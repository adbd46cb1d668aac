"""From judged units to labels of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.datasets.beir import BeirDataset
from rag_assets.datasets.dataset import Dataset
from rag_assets.datasets.fields import shown
from rag_assets.datasets.judgments import read_judgments
from rag_assets.errors import DataError
from rag_assets.pooling.covered import Span, covered_spans
from rag_assets.pooling.label_files import (
    DOCUMENT_FORMATS,
    append_judgments,
    append_qrel_lines,
    append_scored_pairs,
    label_file,
)
from rag_assets.pooling.pool import PooledUnit

Key = tuple[str, str, int | None, int | None]
"""A query, a document and a span of it; without a span the whole document."""


class Judgment(NamedTuple):
    """A judged unit, its grade, who judged it, and where that was read."""

    unit: PooledUnit
    grade: int
    source: str
    line: int


class Added(NamedTuple):
    """What became of judgments: added to ``file``, there already, or covered by a shorter span."""

    file: Path
    n_added: int
    n_known: int
    n_covered: int


def add_judgments(
    dataset: Dataset,
    judgments: Iterable[Judgment],
    documents: pa.Table,
    queries: pa.Table,
    *,
    judge: str,
    on_conflict: Callable[[DataError], object],
) -> Added:
    """Add judgments to the dataset's label file; one that is there with the same grade is known.

    A folder of documents gets spans, or whole documents where ``judge`` is ``document``. Folders
    of BEIR and TREC get documents, each with the highest grade of its spans. Of relevant spans that
    share half of the shorter one only the shortest is added: the others satisfy it.

    Args:
        dataset: to which they are added.
        judgments: units of known queries and documents, each unit once.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        queries: table of :data:`rag_assets.schemas.QUERIES`.
        judge: the unit that the experiment judges.
        on_conflict: called where the labels have another grade already; theirs stays.

    Raises:
        UsageError: judgments cannot be added to this format.
        DataError: the result would not be valid; nothing is written.
        StoreError: the file cannot be written.
    """
    file = label_file(dataset)
    whole = judge == "document" or isinstance(dataset, DOCUMENT_FORMATS)
    old = dataset.read_qrels(documents, queries).table.to_pylist() if dataset.has_qrels else []
    grades: dict[Key, int] = {
        (row["query_id"], row["document_id"], row["start"], row["end"]): row["grade"] for row in old
    }
    new: list[tuple[Key, Judgment]] = []
    n_known = 0
    for key, judgment in _by_key(judgments, whole).items():
        known = grades.get(key)
        if known is None:
            new.append((key, judgment))
            continue
        n_known += 1
        if known != judgment.grade:
            on_conflict(_conflict(judgment, known))
    n_unknown = len(new)
    new = _without_covered(new, old)
    if new and isinstance(dataset, BeirDataset):
        append_scored_pairs(file, [_row(key, judgment) for key, judgment in new])
    elif new and isinstance(dataset, DOCUMENT_FORMATS):
        append_qrel_lines(file, [_row(key, judgment) for key, judgment in new])
    elif new:
        rows = _span_rows(new, documents)
        append_judgments(file, rows, lambda path: read_judgments(path, documents, queries))
    return Added(file, len(new), n_known, n_unknown - len(new))


def _by_key(judgments: Iterable[Judgment], whole: bool) -> dict[Key, Judgment]:
    """Return one judgment a key: the one with the highest grade, the first of several."""
    found: dict[Key, Judgment] = {}
    for judgment in judgments:
        query_id, document_id, start, end = judgment.unit
        key = (query_id, document_id, None if whole else start, None if whole else end)
        if key not in found or judgment.grade > found[key].grade:
            found[key] = judgment
    return found


def _conflict(judgment: Judgment, known: int) -> DataError:
    unit = judgment.unit
    return DataError(
        f"line {judgment.line}: query {shown(unit.query_id)} and document "
        f"{shown(unit.document_id)}, characters {unit.start}-{unit.end}: grade {judgment.grade}, "
        f"but the labels have {known}"
    )


def _row(key: Key, judgment: Judgment) -> dict[str, Any]:
    row = {"query_id": key[0], "doc_id": key[1], "relevance": judgment.grade}
    return {**row, "source": judgment.source}


def _span_rows(new: Sequence[tuple[Key, Judgment]], documents: pa.Table) -> list[dict[str, Any]]:
    names = ("document_id", "text")
    texts = dict(zip(*(documents.column(name).to_pylist() for name in names), strict=True))
    rows = []
    for key, judgment in new:
        row = _row(key, judgment)
        if key[2] is not None:
            row |= _quoted(texts[key[1]], judgment)
        rows.append(row)
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


def _without_covered(
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
        for place, found in spans.items()
        for span in covered_spans(found, labelled.get(place, ()))
    }
    return [(k, judgment) for k, judgment in new if judgment.grade <= 0 or k not in covered]
