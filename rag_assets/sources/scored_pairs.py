"""Rows of BEIR qrels: query id, document id and score, as text, JSON lines or Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rag_assets.sources.fields import Place, Row, checked_grade, checked_id, identifier, shown
from rag_assets.sources.jsonl import read_objects
from rag_assets.sources.lines import read_lines
from rag_assets.sources.parquet_rows import ParquetRows
from rag_assets.sources.problems import tolerated
from rag_assets.text_files import suffix
from rag_assets.trec_lines import integral

QUERY_KEY = "query-id"
DOCUMENT_KEY = "corpus-id"
SCORE_KEY = "score"

_HEADER_END = frozenset({"score", "grade", "relevance", "rel"})
_COLUMNS = (3, 4)
_FORMS = {
    3: f"{QUERY_KEY}, {DOCUMENT_KEY}, {SCORE_KEY}",
    4: f"{QUERY_KEY}, iteration, {DOCUMENT_KEY}, {SCORE_KEY}",
}


class ScoredPair(NamedTuple):
    """One row: where it stands, the two ids and the grade."""

    place: Place
    query_id: str
    document_id: str
    grade: int


def read_scored_pairs(path: Path) -> Iterator[ScoredPair]:
    """Yield every row of a qrels file, ``.jsonl`` and ``.parquet`` by name, any other as a table.

    A table may have a header, which is skipped, and a column of iterations as TREC has, second of
    four, which is ignored. Columns are parted by tabs, or by any number of blanks: copies of
    classic collections have both, sometimes in one file. Ids may hold blanks only where tabs part
    the columns. In JSON and Parquet the fields have the names of that header.

    Raises:
        DataError: a row has not three columns or four, or not as many as the first; or its score
            is not an integer (``1.0`` is one).
    """
    if suffix(path) == ".parquet":
        yield from _from_fields(path, ParquetRows(path).read())
    elif suffix(path) == ".jsonl":
        yield from _from_fields(path, read_objects(path))
    else:
        yield from _from_table(path)


def columns_of(path: Path) -> int:
    """Return how many columns the table of a qrels file has; 3 where it has no row yet."""
    for _, line in read_lines(path):
        return len(_split(line))
    return 3


def _from_fields(path: Path, rows: Iterator[tuple[int, Row]]) -> Iterator[ScoredPair]:
    for number, row in rows:
        pair = None
        with tolerated():
            pair = _field_pair(Place(path, number), row)
        if pair is not None:
            yield pair


def _field_pair(place: Place, row: Row) -> ScoredPair:
    query_id, document_id = (identifier(row, key, place) for key in (QUERY_KEY, DOCUMENT_KEY))
    if SCORE_KEY not in row:
        raise place.error(f"is missing; found keys: {', '.join(map(repr, row))}", SCORE_KEY)
    return ScoredPair(place, query_id, document_id, checked_grade(row[SCORE_KEY], place, SCORE_KEY))


def _from_table(path: Path) -> Iterator[ScoredPair]:
    count: int | None = None
    for number, line in read_lines(path):
        place = Place(path, number)
        pair = None
        with tolerated():
            columns = _columns(line, place, count)
            if count is not None or columns[-1].lower() not in _HEADER_END:
                pair = _pair(place, columns)
            count = count or len(columns)
        count = count or 0
        if pair is not None:
            yield pair


def _split(line: str) -> list[str]:
    columns = [column.strip(" ") for column in line.split("\t")]
    return columns if len(columns) in _COLUMNS else line.split()


def _columns(line: str, place: Place, count: int | None) -> list[str]:
    columns = _split(line)
    if len(columns) == count or (not count and len(columns) in _COLUMNS):
        return columns
    allowed = _FORMS[count] if count else " or ".join(_FORMS.values())
    above = ", as in the rows above" if count else ""
    raise place.error(f"found {len(columns)} columns; must be {allowed}{above}")


def _pair(place: Place, columns: list[str]) -> ScoredPair:
    grade = integral(columns[-1])
    if grade is None:
        raise place.error(f"is {shown(columns[-1])}; a grade must be an integer", SCORE_KEY)
    grade = checked_grade(grade, place, SCORE_KEY)
    query_id = checked_id(columns[0], place, QUERY_KEY)
    return ScoredPair(place, query_id, checked_id(columns[-2], place, DOCUMENT_KEY), grade)
