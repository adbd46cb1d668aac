"""AutoRAG folders: ``corpus.parquet``, and ``qa.parquet`` with the ground truth of each question.

``retrieval_gt`` is a list of needed pieces of evidence, each a list of alternatives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import pyarrow as pa

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import (
    Place,
    Row,
    checked_id,
    identifier,
    metadata_json,
    note,
    string,
)
from rag_assets.sources.ids import UniqueIds
from rag_assets.sources.problems import skipping_bad_rows
from rag_assets.sources.row_files import ParquetFile
from rag_assets.sources.rows import DocumentRows, QrelRows, QueryRows
from rag_assets.sources.strict_json import type_name

GROUND_TRUTH = "retrieval_gt"
CORPUS = "corpus"
QA = "qa"
ANSWERS = "generation_gt"

GRADE = 1
"""The format only knows relevant documents, without grades."""

_DOCUMENT_KEYS = frozenset({"doc_id", "contents"})
_QUERY_KEYS = frozenset({"qid", "query", GROUND_TRUTH})


@dataclass(frozen=True)
class AutoragDataset:
    """A corpus and the questions about it.

    The files are ``corpus.parquet`` and ``qa.parquet``, or the only ones with ``corpus`` and
    ``qa`` in their names; a subset is the name of the questions' file without ``.parquet``. Every
    outer group of ``retrieval_gt`` is an evidence (``1``, ``2``, ... in its order) whose rows are
    alternatives. Other columns, ``generation_gt`` among them, are metadata; of a struct under
    ``metadata`` those fields that are not null.
    """

    format: ClassVar[str] = "autorag"
    layout: ClassVar[str] = f"a folder with {CORPUS}.parquet and {QA}.parquet"
    default_judge: ClassVar[str] = "document"
    default_chunking: ClassVar[str] = "none"
    has_qrels: ClassVar[bool] = True

    root: Path
    corpus: Path
    qa: Path

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether there are Parquet files of both kinds."""
        corpora, questions = _files(path)
        return bool(corpora and questions)

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        """Return the two files, and which are there."""
        corpora, questions = _files(path)
        return {f"{CORPUS}.parquet": bool(corpora), f"{QA}.parquet": bool(questions)}

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        """Return the folder with one file of questions.

        Raises:
            DataError: a file is missing, or more than one could be meant.
            UsageError: there is no subset of this name.
        """
        if not path.is_dir():
            raise DataError(f"not {cls.layout}", file=path)
        corpora, questions = _files(path)
        missing = [
            f"{part}.parquet" for part, files in ((CORPUS, corpora), (QA, questions)) if not files
        ]
        if missing:
            raise DataError(f"not an AutoRAG folder: {', '.join(missing)} missing", file=path)
        if subset is not None and subset not in questions:
            raise UsageError(f"{path}: no subset {allowed_names(subset, questions)}")
        chosen = questions[subset] if subset is not None else _only(questions, QA, path)
        return cls(path, _only(corpora, CORPUS, path), chosen)

    def document_files(self) -> list[Path]:
        """Return the corpus."""
        return [self.corpus]

    def query_files(self) -> list[Path]:
        """Return the questions."""
        return [self.qa]

    def qrels_files(self) -> list[Path]:
        """Return the file of the questions, which holds the ground truth."""
        return [self.qa]

    def read_documents(self) -> Read:
        """Return the corpus, without titles; rows are counted from 1 in messages."""
        source, rows = ParquetFile(self.corpus), DocumentRows()
        ids = UniqueIds("document")
        for place, row in source.rows():
            with skipping_bad_rows():
                document_id = identifier(row, "doc_id", place)
                ids.add(document_id, place, "doc_id")
                text = string(row, "contents", place)
                rows.add(document_id, "", text, metadata_json(_present(row), _DOCUMENT_KEYS))
        return rows.read(Place(self.corpus), source.notes())

    def read_queries(self) -> Read:
        """Return the questions, without tags."""
        source, rows = ParquetFile(self.qa), QueryRows()
        ids = UniqueIds("query")
        for place, row in source.rows():
            with skipping_bad_rows():
                query_id = identifier(row, "qid", place)
                ids.add(query_id, place, "qid")
                text = string(row, "query", place)
                rows.add(query_id, text, [], metadata_json(_present(row), _QUERY_KEYS))
        return rows.read(Place(self.qa), source.notes())

    def read_qrels(self, documents: pa.Table, queries: pa.Table) -> Read:
        """Return a judgment of grade 1 for each id of the ground truth.

        Notes count queries with empty groups beside others, and with an id twice in one group.
        """
        rows = QrelRows(documents, queries)
        empty, repeated = list[str](), list[str]()
        for place, row in ParquetFile(self.qa).rows():
            with skipping_bad_rows():
                query_id = identifier(row, "qid", place)
                truth = _ground_truth(row, place)
                empty += [query_id] if truth.empty else []
                repeated += [query_id] if truth.repeated else []
                _add(rows, place, query_id, truth.groups)
        singular = "query has empty entries beside the ground truth, left out"
        notes = note(singular, singular.replace("query has", "queries have"), empty)
        singular = "query has an id twice in one group, taken once"
        notes += note(singular, singular.replace("query has", "queries have"), repeated)
        return rows.read(Place(self.qa), notes)


def _add(rows: QrelRows, place: Place, query_id: str, groups: list[list[str]]) -> None:
    for group, alternatives in enumerate(groups):
        for document_id in alternatives:
            rows.resolve(query_id, document_id, place, ("qid", f"{GROUND_TRUTH}[{group}]"))
            rows.add(place, query_id, document_id, GRADE, str(group + 1))


def _files(path: Path) -> tuple[dict[str, Path], dict[str, Path]]:
    """Return the files that may be the corpus, and those that may be the questions, by name."""
    corpora: dict[str, Path] = {}
    questions: dict[str, Path] = {}
    for file in sorted(path.glob("*.parquet")) if path.is_dir() else []:
        if not file.is_file() or file.name.startswith("."):
            continue
        if CORPUS in file.stem.lower():
            corpora[file.stem] = file
        elif QA in file.stem.lower():
            questions[file.stem] = file
    return corpora, questions


def _only(files: dict[str, Path], part: str, path: Path) -> Path:
    """Return the file that is named exactly like the part, or else the only one."""
    if part in files:
        return files[part]
    if len(files) > 1:
        names = ", ".join(file.name for file in files.values())
        subset = f"choose with subset: {next(iter(files))}" if part == QA else "keep one"
        raise DataError(f"more than one file may be {part}.parquet: {names}; {subset}", file=path)
    return next(iter(files.values()))


def _present(row: Row) -> dict[str, Any]:
    """Return the row without what Parquet cannot tell from an absent key: null, no answer."""
    present = {key: value for key, value in row.items() if value is not None}
    if present.get(ANSWERS) == []:
        del present[ANSWERS]
    if isinstance(present.get("metadata"), dict):
        fields = present["metadata"].items()
        present["metadata"] = {key: value for key, value in fields if value is not None}
    return present


class _GroundTruth(NamedTuple):
    """The groups with their ids, and what was left out of them."""

    groups: list[list[str]]
    empty: bool
    repeated: bool


def _ground_truth(row: Row, place: Place) -> _GroundTruth:
    """Return the groups of a query, each id of a group once.

    The outer list is an AND, an inner list an OR. ``[[]]``, ``[[""]]``, ``[]`` and null mean that
    the query has no ground truth. Beside groups with ids, ``empty`` tells of groups or ids without
    content that were left out, ``repeated`` of ids that a group has twice.

    Raises:
        DataError: it is not a list of lists of ids.
    """
    if GROUND_TRUTH not in row:
        raise place.error(f"is missing; found columns: {', '.join(row)}", GROUND_TRUTH)
    groups: list[list[str]] = []
    empty = repeated = False
    for number, group in enumerate(_listed(row[GROUND_TRUTH], place, GROUND_TRUTH, "lists of ids")):
        inside = f"{GROUND_TRUTH}[{number}]"
        listed = _listed(group, place, inside, "ids")
        ids = [
            checked_id(item, place, f"{inside}[{position}]")
            for position, item in enumerate(listed)
            if item is not None and item != ""
        ]
        empty = empty or len(ids) < max(len(listed), 1)
        repeated = repeated or len(set(ids)) < len(ids)
        if ids:
            groups.append(list(dict.fromkeys(ids)))
    return _GroundTruth(groups, empty and bool(groups), repeated)


def _listed(value: object, place: Place, key: str, of: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise place.error(f"is {type_name(value)}; must be a list of {of}", key)
    return value
