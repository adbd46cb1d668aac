"""Reads labels to score against, of any layout; some say more than qrels: groups of alternatives.

- TREC qrels, ``query iteration document grade`` a line, and tables of BEIR, ``query-id corpus-id
  score``, with that header or without: each document is an evidence.
- Rows whose columns are one of :data:`LAYOUTS`: the pipeline's ``.parquet`` of relevant units;
  BEIR and MTEB as ``.parquet`` or ``.jsonl``; ``.jsonl`` with ``query_id``, ``doc_id``, and
  optionally ``evidence_id`` and ``relevance``. Those of a query with one evidence are alternatives.
- ``qa.parquet`` of AutoRAG: the columns ``qid`` and ``retrieval_gt``, a list of groups (AND) of
  ids (OR).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.evaluation.run_files import JSON_LINES, layout_of
from rag_assets.schemas import RELEVANT_UNITS
from rag_assets.sources.fields import Place, Row, checked_grade, identifier
from rag_assets.sources.row_files import PARQUET, RowFile, read_pairs

QUERY, GROUND_TRUTH = "qid", "retrieval_gt"
QUOTE_KEYS = ("quote", "start")


class Layout(NamedTuple):
    """The columns of a judgment's query, unit and grade, and of its evidence where there is one."""

    query: str
    unit: str
    grade: str
    evidence: str | None = None


LAYOUTS = (
    Layout("query_id", "unit_id", "grade", "evidence_id"),
    Layout("query-id", "corpus-id", "score"),
    Layout("qid", "docno", "label"),
)
"""The pipeline's, those of BEIR and MTEB, and PyTerrier's; all columns have to be there."""

LINES = Layout("query_id", "doc_id", "relevance", "evidence_id")
"""JSON lines; the grade is 1 where there is none."""

Groups = dict[str, tuple[tuple[str, ...], ...]]


class Labels(NamedTuple):
    """The judgments, and each query's groups of relevant ids as the file has them."""

    judgments: pa.Table
    groups: Groups


class _Judgment(NamedTuple):
    query_id: str
    evidence_id: str
    unit_id: str | None
    grade: int


def read_labels(path: Path) -> Labels:
    """Read the labels of any of these layouts.

    Raises:
        DataError: the file cannot be read, or breaks its format; names the file and the place.
    """
    file_layout = layout_of(path)
    if file_layout not in (PARQUET, JSON_LINES):
        pairs = ((place, _Judgment(q, d, d, grade)) for place, (q, d, grade) in read_pairs(path))
        return _labels(pairs, path)
    rows = list(RowFile(path).rows())
    names = rows[0][1].keys() if rows else {*()}
    if {QUERY, GROUND_TRUTH} <= names:
        return _ground_truth(rows)
    layout = next((each for each in LAYOUTS if {*filter(None, each)} <= names), None)
    if layout is None and rows and file_layout == PARQUET:
        layouts = [(QUERY, GROUND_TRUTH), *(filter(None, each) for each in LAYOUTS)]
        needed = ", or ".join(" and ".join(each) for each in layouts)
        raise DataError(f"needs {needed}; found the columns {', '.join(names)}", file=path)
    return _labels(_row_judgments(rows, layout or LINES), path)


def _row_judgments(
    rows: Iterable[tuple[Place, Row]], layout: Layout
) -> Iterator[tuple[Place, _Judgment]]:
    for place, row in rows:
        if layout is LINES and any(row.get(key) is not None for key in QUOTE_KEYS):
            problem = "quotes need the documents, which are not read here; use `evaluate`"
            raise place.error(problem, QUOTE_KEYS[0])
        query_id = identifier(row, layout.query, place)
        # The pipeline has a row without a unit for an evidence that no unit satisfies.
        is_missed = layout is LAYOUTS[0] and row[layout.unit] is None
        unit_id = None if is_missed else identifier(row, layout.unit, place)
        evidence_id = f"document {unit_id}" if layout is LINES else unit_id or ""
        if layout.evidence is not None and row.get(layout.evidence) is not None:
            evidence_id = identifier(row, layout.evidence, place)
        value = row.get(layout.grade, 1 if layout is LINES else None)
        grade = checked_grade(value, place, layout.grade)
        yield place, _Judgment(query_id, evidence_id, unit_id, grade)


def _labels(judged: Iterable[tuple[Place, _Judgment]], path: Path) -> Labels:
    """Return judgments with the relevant ids of each evidence, in the order of the file."""
    places: dict[tuple[str, str, str | None], Place] = {}
    groups: dict[str, dict[str, list[str]]] = {}
    judgments = []
    for place, judgment in judged:
        first = places.setdefault(judgment[:3], place)
        if first is not place:
            what = f"query '{judgment.query_id}' and document '{judgment.unit_id}'"
            raise place.error(f"{what} are already on line {first.line}")
        of_query = groups.setdefault(judgment.query_id, {})
        if judgment.grade > 0:
            units = of_query.setdefault(judgment.evidence_id, [])
            units += [judgment.unit_id] if judgment.unit_id is not None else []
        judgments.append(judgment)
    if not judgments:
        raise DataError("holds no judgments", file=path)
    by_query = {query: tuple(map(tuple, each.values())) for query, each in groups.items()}
    return Labels(RELEVANT_UNITS.from_rows([each._asdict() for each in judgments]), by_query)


def _ground_truth(rows: Iterable[tuple[Place, Row]]) -> Labels:
    """Return AutoRAG's groups; null means the same as nothing at each level."""
    groups: Groups = {}
    judgments: list[_Judgment] = []
    for place, row in rows:
        query_id = identifier(row, QUERY, place)
        if query_id in groups:
            raise place.error(f"query '{query_id}' occurs twice", QUERY)
        try:
            listed = msgspec.convert(row[GROUND_TRUTH], list[list[str | None] | None] | None)
        except msgspec.ValidationError as error:
            raise place.error("must be a list of lists of ids", GROUND_TRUTH) from error
        of_query = [[item or "" for item in group or ()] for group in listed or ()]
        groups[query_id] = tuple(map(tuple, of_query))
        named = [dict.fromkeys(filter(str.strip, group)) for group in of_query]
        relevant = [
            _Judgment(query_id, str(number), item, 1)
            for number, group in enumerate(filter(None, named), 1)
            for item in group
        ]
        judgments += relevant or [_Judgment(query_id, "1", None, 0)]
    return Labels(RELEVANT_UNITS.from_rows([each._asdict() for each in judgments]), groups)
