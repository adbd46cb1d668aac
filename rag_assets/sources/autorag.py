"""AutoRAG folders: ``corpus.parquet``, and ``qa.parquet`` with the ground truth of each question.

``retrieval_gt`` is a list of needed pieces of evidence, each a list of alternatives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.sources.dataset import FIRST, Dataset, Problems, Read
from rag_assets.sources.fields import (
    DocumentFields,
    Place,
    Row,
    checked_id,
    identifier,
    metadata_json,
    note,
    present,
    string,
)
from rag_assets.sources.row_files import RowFile
from rag_assets.sources.tables import QrelRows, QueryRows, UniqueIds, read_document_rows

GROUND_TRUTH = "retrieval_gt"
CORPUS = "corpus"
QA = "qa"
ANSWERS = "generation_gt"

GRADE = 1
"""The format only knows relevant documents, without grades."""

_DOCUMENT = DocumentFields(("doc_id",), title=None, text="contents")
_QUERY_KEYS = frozenset({"qid", "query", GROUND_TRUTH})


@dataclass(frozen=True)
class AutoragDataset(Dataset):
    """A corpus and the questions about it.

    The files are ``corpus.parquet`` and ``qa.parquet``, or the only ones with ``corpus`` and
    ``qa`` in their names; a subset is the name of the questions' file without ``.parquet``. Every
    outer group of ``retrieval_gt`` is an evidence (``1``, ``2``, ... in its order) whose rows are
    alternatives. Other columns, ``generation_gt`` among them, are metadata; of a struct under
    ``metadata`` those fields that are not null.
    """

    format: ClassVar[str] = "autorag"
    layout: ClassVar[str] = f"a folder with {CORPUS}.parquet and {QA}.parquet"

    root: Path
    corpus: Path
    qa: Path

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        return {f"{part}.parquet": bool(files) for part, files in _files(path).items()}

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        cls.require_parts(path)
        files = _files(path)
        if subset is not None and subset not in files[QA]:
            raise UsageError(f"{path}: no subset {allowed_names(subset, files[QA])}")
        qa = files[QA][subset] if subset is not None else _only(files[QA], QA, path)
        return cls(path, _only(files[CORPUS], CORPUS, path), qa)

    def document_files(self) -> list[Path]:
        return [self.corpus]

    def query_files(self) -> list[Path]:
        return [self.qa]

    def qrels_files(self) -> list[Path]:
        return [self.qa]

    def read_documents(self, problems: Problems = FIRST) -> Read:
        return read_document_rows([RowFile(self.corpus)], lambda *_: _DOCUMENT, problems, _present)

    def read_queries(self, problems: Problems = FIRST) -> Read:
        source, rows = RowFile(self.qa), QueryRows()
        ids = UniqueIds("query")
        for place, row in source.rows():
            with problems:
                query_id = identifier(row, "qid", place)
                ids.add(query_id, place, "qid")
                text = string(row, "query", place)
                rows.add(query_id, text, [], metadata_json(_present(row), _QUERY_KEYS))
        return rows.read(Place(self.qa), source.notes())

    def read_qrels(
        self, documents: pa.Table, queries: pa.Table, problems: Problems = FIRST
    ) -> Read:
        """Return a judgment of grade 1 for each id of the ground truth, once in its group.

        The outer list of ids is an AND, an inner list an OR. ``[[]]``, ``[[""]]``, ``[]`` and null
        mean that a query has no ground truth. Notes count queries with empty entries beside others,
        and with an id twice in one group.
        """
        rows = QrelRows(documents, queries, problems)
        empty, repeated = list[str](), list[str]()
        for place, row in RowFile(self.qa).rows():
            with problems:
                query_id = identifier(row, "qid", place)
                listed = _ground_truth(row, place)
                groups = [ids for group in listed if (ids := [i for i in group if i])]
                for number, group in enumerate(groups, start=1):
                    for document_id in dict.fromkeys(group):
                        key = f"{GROUND_TRUTH}[{number - 1}]"
                        rows.resolve(query_id, document_id, place, ("qid", key))
                        rows.add(place, query_id, document_id, GRADE, str(number))
                if groups and groups != listed:
                    empty.append(query_id)
                if any(len(set(group)) < len(group) for group in groups):
                    repeated.append(query_id)
        what = "empty entries beside the ground truth, left out"
        notes = note(f"query has {what}", f"queries have {what}", empty)
        what = "an id twice in one group, taken once"
        notes += note(f"query has {what}", f"queries have {what}", repeated)
        return rows.read(Place(self.qa), notes)


def _files(path: Path) -> dict[str, dict[str, Path]]:
    """Return the files that may be the corpus, and those that may be the questions, by name."""
    files: dict[str, dict[str, Path]] = {CORPUS: {}, QA: {}}
    for file in sorted(path.glob("[!.]*.parquet")) if path.is_dir() else []:
        part = next((part for part in files if part in file.stem.lower()), None)
        if part is not None and file.is_file():
            files[part][file.stem] = file
    return files


def _only(files: dict[str, Path], part: str, path: Path) -> Path:
    """Return the file that is named exactly like the part, or else the only one."""
    if part not in files and len(files) > 1:
        names = ", ".join(file.name for file in files.values())
        subset = f"choose with subset: {next(iter(files))}" if part == QA else "keep one"
        raise DataError(f"more than one file may be {part}.parquet: {names}; {subset}", file=path)
    return files.get(part) or next(iter(files.values()))


def _present(row: Row) -> Row:
    """Return the row without what Parquet cannot tell from an absent key: null, no answer."""
    present = {
        key: value for key, value in row.items() if value is not None or key == _DOCUMENT.text
    }
    if present.get(ANSWERS) == []:
        del present[ANSWERS]
    if isinstance(present.get("metadata"), dict):
        fields = present["metadata"].items()
        present["metadata"] = {key: value for key, value in fields if value is not None}
    return present


def _ground_truth(row: Row, place: Place) -> list[list[str]]:
    """Return the groups of a query; an empty or missing id is an empty text."""
    groups, given = [], present(row, GROUND_TRUTH, place)
    for number, group in enumerate(_listed(given, place, GROUND_TRUTH, "lists of ids")):
        key = f"{GROUND_TRUTH}[{number}]"
        ids = enumerate(_listed(group, place, key, "ids"))
        groups.append([checked_id(i, place, f"{key}[{n}]") if i or i == 0 else "" for n, i in ids])
    return groups


def _listed(value: object, place: Place, key: str, of: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise place.wrong(value, f"a list of {of}", key)
    return value or []
