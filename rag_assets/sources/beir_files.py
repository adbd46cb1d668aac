"""Where the parts of a BEIR dataset lie in a folder, as text or as Parquet.

- The corpus: ``corpus.jsonl`` (``.gz`` too), ``corpus.parquet``, or shards in ``corpus/``.
- The queries, likewise.
- The qrels: ``qrels/<subset>.tsv``, ``.jsonl`` or ``.parquet``, or one file ``qrels`` of such a
  kind; beside Parquet also shards in ``data/``, where MTEB has them.

Shards are named as Hugging Face names them: ``test-00000-of-00002.parquet``. And the rows of qrels:
query id, document id and score, as text, JSON lines or Parquet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rag_assets.errors import DataError
from rag_assets.sources.fields import Place, Row, checked_grade, checked_id, identifier, shown
from rag_assets.sources.lines import read_lines
from rag_assets.sources.problems import parse_each, skipping_bad_rows
from rag_assets.sources.row_files import PARQUET, row_file
from rag_assets.text_files import plain_name, suffix
from rag_assets.trec_lines import integral

CORPUS = "corpus"
QUERIES = "queries"
QRELS = "qrels"
DATA = "data"

LINES = ".jsonl"
_PAIRS = (".tsv", LINES, PARQUET)
_SHARD = re.compile(r"(?P<name>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})")
Split = Mapping[str, list[Path]]

_Entry = tuple[str, Path]
"""A file, and the folder that it lies in: empty at the top."""

QUERY_KEY = "query-id"
DOCUMENT_KEY = "corpus-id"
SCORE_KEY = "score"
_HEADER_END = frozenset({"score", "grade", "relevance", "rel"})
_COLUMNS = (3, 4)

_FORMS = {
    3: f"{QUERY_KEY}, {DOCUMENT_KEY}, {SCORE_KEY}",
    4: f"{QUERY_KEY}, iteration, {DOCUMENT_KEY}, {SCORE_KEY}",
}


class Parts(NamedTuple):
    """The files of each part by split; the qrels by subset.

    Attributes:
        qrels_folder: whether there is a folder for qrels, which may be empty.
    """

    corpus: Split
    queries: Split
    qrels: Split
    qrels_folder: bool

    @property
    def missing(self) -> list[str]:
        """The parts that are not there, as they are called in a folder."""
        splits = {f"{CORPUS}{LINES}": self.corpus, f"{QUERIES}{LINES}": self.queries}
        absent = [name for name, split in splits.items() if not split]
        return absent if self.qrels or self.qrels_folder else [*absent, f"{QRELS}/"]


def beir_parts(path: Path) -> Parts:
    """Return what of a BEIR dataset is at a path, judged from names only.

    Raises:
        DataError: a part is there in two forms, or a shard is missing.
    """
    if not path.is_dir():
        return Parts({}, {}, {}, qrels_folder=False)
    files = list(_in_folder(path))
    corpus, queries = (_part(files, name, (LINES, PARQUET)) for name in (CORPUS, QUERIES))
    qrels = _part(files, QRELS, _PAIRS)
    is_parquet = any(suffix(file) == PARQUET for split in corpus.values() for file in split)
    if not qrels and is_parquet:
        qrels = _splits([file for folder, file in files if folder == DATA], (PARQUET,))
    return Parts(corpus, queries, qrels, (path / QRELS).is_dir())


def files_of(split: Split, subset: str) -> list[Path]:
    """Return the files of a part for a subset: its own where there are such, else all."""
    if subset in split:
        return split[subset]
    return [file for files in split.values() for file in files]


def _in_folder(path: Path) -> Iterator[_Entry]:
    for entry in sorted(path.iterdir(), key=lambda entry: entry.name):
        if entry.is_file():
            yield "", entry
    for name in (CORPUS, QUERIES, QRELS, DATA):
        folder = path / name
        if folder.is_dir():
            inside = sorted(folder.iterdir(), key=lambda entry: entry.name)
            yield from ((name, entry) for entry in inside if entry.is_file())


def _part(files: list[_Entry], part: str, kinds: tuple[str, ...]) -> Split:
    top = [file for folder, file in files if not folder and _split_name(file)[0] == part]
    inner = PARQUET if part != QRELS else None
    inside = [file for folder, file in files if folder == part]
    flat = _splits(top, kinds)
    deep = _splits(inside, kinds if inner is None else (inner,))
    if flat and deep:
        one, other = flat[part][0], next(iter(deep.values()))[0]
        raise DataError(f"{one.name} exists too; keep one of them", file=other)
    return flat or deep


def _splits(files: list[Path], kinds: tuple[str, ...]) -> dict[str, list[Path]]:
    splits: dict[str, list[Path]] = {}
    for file in files:
        # Version 0.1.0 wrote who judged what beside the qrels.
        is_other = file.name.startswith(".") or file.name.endswith(".sources.jsonl")
        if suffix(file) in kinds and not is_other:
            splits.setdefault(_split_name(file)[0], []).append(file)
    for name, split in splits.items():
        _check_complete(name, split)
    return splits


def _split_name(file: Path) -> tuple[str, int, int]:
    """Return the name without shard and kind, the number of the shard, and how many there are."""
    stem = Path(plain_name(file)).stem
    shard = _SHARD.fullmatch(stem)
    if shard is None or suffix(file) != PARQUET:
        return stem, 0, 1
    return shard["name"], int(shard["number"]), int(shard["count"])


def _check_complete(name: str, files: list[Path]) -> None:
    shards = [_split_name(file) for file in files]
    count = shards[0][2]
    if any(shard[2] != count for shard in shards) or len({shard[1] for shard in shards}) < len(
        shards
    ):
        raise DataError(f"{files[0].name} exists too; keep one of them", file=files[1])
    missing = sorted(set(range(count)) - {shard[1] for shard in shards})
    if missing:
        shard_name = f"{name}-{missing[0]:05d}-of-{count:05d}{PARQUET}"
        raise DataError(f"{shard_name} is missing beside it", file=files[0])


class ScoredPair(NamedTuple):
    """One row: where it stands, the two ids and the grade."""

    place: Place
    query_id: str
    document_id: str
    grade: int


def read_scored_pairs(path: Path) -> Iterator[ScoredPair]:
    """Yield every row of a qrels file, ``.jsonl`` and ``.parquet`` by name, any other as a table.

    A table may have a header, which is skipped, and a column of iterations as TREC has, second of
    four, which is ignored. Columns are separated by tabs, or by any number of blanks: copies of
    classic collections have both, sometimes in one file. Ids may hold blanks only where tabs part
    the columns. In JSON and Parquet the fields have the names of that header.

    Raises:
        DataError: a row has not three columns or four, or not as many as the first; or its score
            is not an integer (``1.0`` is one).
    """
    if suffix(path) in (LINES, PARQUET):
        return parse_each(lambda row: _field_pair(*row), row_file(path).rows())
    return _from_table(path)


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
        with skipping_bad_rows():
            columns = _columns(line, place, count)
            if count is not None or columns[-1].lower() not in _HEADER_END:
                pair = _pair(place, columns)
            count = count or len(columns)
        count = count or 0
        if pair is not None:
            yield pair


def _columns(line: str, place: Place, count: int | None) -> list[str]:
    columns = [column.strip(" ") for column in line.split("\t")]
    if len(columns) not in _COLUMNS:
        columns = line.split()
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
