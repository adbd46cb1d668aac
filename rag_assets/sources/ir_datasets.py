"""Datasets of the library ``ir_datasets``, by their id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from rag_assets.errors import DataError, UsageError
from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import Place, checked_grade, checked_id, json_value
from rag_assets.sources.ids import UniqueIds
from rag_assets.sources.problems import skipping_bad_rows
from rag_assets.sources.rows import DocumentRows, QrelRows, QueryRows
from rag_assets.store.canonical import canonical_json

_TEXT_FIELDS = ("text", "body", "abstract", "contents")
_PARTS = ("docs", "queries", "qrels")
_FAILURES = (
    *(ArithmeticError, AttributeError, EOFError, ImportError, LookupError, OSError, RuntimeError),
    *(TypeError, ValueError),
)


@dataclass(frozen=True)
class IrDataset:
    """The documents, queries and qrels of one id, as ``beir/scifact/test``.

    The library finds the data on disk, or downloads it to its own folder when the tables are read.
    An id and the library's version stand for the content, so no file is hashed. The text of a
    document is its field ``text``, ``body``, ``abstract`` or ``contents``, else what the library
    makes of it; the other fields are metadata.
    """

    format: ClassVar[str] = "ir_datasets"
    layout: ClassVar[str] = "an id of the library ir_datasets"
    default_judge: ClassVar[str] = "document"
    default_chunking: ClassVar[str] = "none"
    has_qrels: ClassVar[bool] = True

    id: str
    identity: str
    """The id with the version of the library, which stands for the content."""

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return False: an id is no path, so the format must be said."""
        return False

    @classmethod
    def parts(cls, path: Path) -> Mapping[str, bool]:
        """Return nothing: its data lies in no folder that could be nearly right."""
        return {}

    @classmethod
    def open(cls, path: Path, subset: str | None = None) -> Self:
        """Return the dataset whose id is ``path``.

        Raises:
            DataError: it has no documents, no queries or no qrels.
            UsageError: the library is not installed, it has no such id, or a subset is asked for.
        """
        name = path.as_posix()
        if subset is not None:
            raise UsageError(f"{name}: subset '{subset}': put it into the id of ir_datasets")
        library = _library()
        try:
            dataset = library.load(name)
        except KeyError as error:
            raise UsageError(f"{name}: no such id in ir_datasets {library.__version__}") from error
        missing = [part for part in _PARTS if not getattr(dataset, f"has_{part}")()]
        if missing:
            hint = "; its parts may have them" if len(missing) < len(_PARTS) else ""
            raise DataError(f"has no {', no '.join(missing)}{hint}", file=name)
        return cls(name, f"{name} (ir_datasets {library.__version__})")

    @property
    def root(self) -> Path:
        """The id, which takes the place of a folder in messages."""
        return Path(self.id)

    def document_files(self) -> list[Path]:
        """Return nothing: ``identity`` says what determines the documents."""
        return []

    def query_files(self) -> list[Path]:
        """Return nothing."""
        return []

    def qrels_files(self) -> list[Path]:
        """Return nothing."""
        return []

    def read_documents(self) -> Read:
        """Return the documents, one after the other from the library's own reader."""
        rows, ids, place = DocumentRows(), UniqueIds("document"), self._place()
        for number, row in self._rows("docs"):
            key = f"docs[{number}].doc_id"
            fields = row._asdict()
            with skipping_bad_rows():
                document_id = checked_id(fields.pop("doc_id", None), place, key)
                ids.add(document_id, place, key)
                title, text = _title_and_text(row, fields)
                rows.add(document_id, title, text, _metadata(fields))
        return rows.read(place, [])

    def read_queries(self) -> Read:
        """Return the queries; the text is the one that the library recommends."""
        rows, ids, place = QueryRows(), UniqueIds("query"), self._place()
        for number, row in self._rows("queries"):
            key = f"queries[{number}].query_id"
            fields = row._asdict()
            with skipping_bad_rows():
                query_id = checked_id(fields.pop("query_id", None), place, key)
                ids.add(query_id, place, key)
                text = row.default_text()
                rest = {name: value for name, value in fields.items() if value != text}
                rows.add(query_id, text, [], _metadata(rest))
        return rows.read(place, [])

    def read_qrels(self, documents: pa.Table, queries: pa.Table) -> Read:
        """Return the judgments, negative and zero grades included."""
        rows, place = QrelRows(documents, queries), self._place()
        for number, row in self._rows("qrels"):
            key = f"qrels[{number}]"
            with skipping_bad_rows():
                keys = (f"{key}.query_id", f"{key}.doc_id")
                rows.resolve(row.query_id, row.doc_id, place, keys)
                grade = checked_grade(row.relevance, place, f"{key}.relevance")
                rows.add(place, row.query_id, row.doc_id, grade)
        return rows.read(place, [])

    def _place(self) -> Place:
        return Place(Path(self.id))

    def _rows(self, part: str) -> Iterator[tuple[int, Any]]:
        """Yield number and row; what the library raises, as when a download fails, is our error."""
        try:
            yield from enumerate(getattr(_library().load(self.id), f"{part}_iter")())
        except _FAILURES as error:
            what = str(error) or type(error).__name__
            raise DataError(f"ir_datasets cannot read it: {what}", file=self.id) from error


def _library() -> Any:  # noqa: ANN401 (the library publishes no types)
    try:
        import ir_datasets
    except ImportError as error:
        raise UsageError(
            "format ir_datasets needs the library of this name: "
            "pip install 'rag-assets[ir-datasets]'"
        ) from error
    return ir_datasets


def _title_and_text(row: Any, fields: dict[str, Any]) -> tuple[str, str]:  # noqa: ANN401
    """Take title and text out of the fields; without a known field of text, the recommended one."""
    name = next((name for name in _TEXT_FIELDS if isinstance(fields.get(name), str)), None)
    if name is None:
        return "", row.default_text()
    text = fields.pop(name)
    title = fields.pop("title") if isinstance(fields.get("title"), str) else ""
    return title, text


def _metadata(fields: dict[str, Any]) -> str:
    present = {name: json_value(value) for name, value in fields.items() if value is not None}
    try:
        return canonical_json(present)
    except (TypeError, ValueError):  # values of a type of the library's own
        return canonical_json({name: str(value) for name, value in present.items()})
