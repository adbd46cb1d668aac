"""Rows of a BEIR qrels file: query id, document id and score in three columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rag_assets.datasets.fields import Place, checked_grade, checked_id, shown
from rag_assets.datasets.lines import read_lines
from rag_assets.datasets.problems import tolerated

QUERY_KEY = "query-id"
DOCUMENT_KEY = "corpus-id"
SCORE_KEY = "score"

_HEADER_END = frozenset({"score", "grade", "relevance", "rel"})
_INTEGRAL = re.compile(r"([+-]?[0-9]{1,18})(?:\.0*)?")


class ScoredPair(NamedTuple):
    """One row: where it stands, the two ids and the grade."""

    place: Place
    query_id: str
    document_id: str
    grade: int


def read_scored_pairs(path: Path) -> Iterator[ScoredPair]:
    """Yield every row of a qrels file; a header is skipped when there is one.

    Columns are parted by tabs, or by any number of blanks: copies of classic collections have
    both, sometimes in one file. Ids may hold blanks only where tabs part the columns.

    Raises:
        DataError: a row has not three columns, or its score is not an integer.
    """
    first = True
    for number, line in read_lines(path):
        place = Place(path, number)
        pair = None
        with tolerated():
            columns = _columns(line, place)
            if not (first and columns[2].lower() in _HEADER_END):
                pair = _pair(place, columns)
        first = False
        if pair is not None:
            yield pair


def _columns(line: str, place: Place) -> list[str]:
    columns = [column.strip(" ") for column in line.split("\t")]
    if len(columns) != 3:
        columns = line.split()
    if len(columns) == 3:
        return columns
    hint = "; four columns are TREC qrels, not BEIR" if len(columns) == 4 else ""
    raise place.error(
        f"found {len(columns)} columns; must be {QUERY_KEY}, {DOCUMENT_KEY}, {SCORE_KEY}{hint}"
    )


def _pair(place: Place, columns: list[str]) -> ScoredPair:
    integral = _INTEGRAL.fullmatch(columns[2])
    if integral is None:
        raise place.error(f"is {shown(columns[2])}; a grade must be an integer", SCORE_KEY)
    grade = checked_grade(int(integral.group(1)), place, SCORE_KEY)
    query_id = checked_id(columns[0], place, QUERY_KEY)
    return ScoredPair(place, query_id, checked_id(columns[1], place, DOCUMENT_KEY), grade)
