"""Documents, queries and judgments that are given in code, as rows of a folder of JSON lines.

What a row must hold is checked by the readers of such folders. Here each row keeps the place that
it was given at, such as ``judgments['q1'][2]``, and errors of the readers are told by it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rag_assets.errors import DataError, UsageError, allowed_names
from rag_assets.sources.fields import type_name
from rag_assets.sources.folder_queries import QUERIES
from rag_assets.sources.labelled_folder import JUDGMENTS, NAMES
from rag_assets.sources.problems import RowError
from rag_assets.store.atomic import write_text

DOCUMENTS = "documents"

TEXTS = (
    "a list of texts, whose ids are 0, 1, ...; a dict of id to text; or a list of dicts or a data "
    "frame with {keys}"
)
"""What documents and queries are."""

LABELS = (
    "a dict of query id to a dict of document id to grade, or to a list of relevant ids; a list of "
    "(query id, document id) or (query id, document id, grade); or a list of dicts or a data frame "
    "with {keys}"
)
"""What judgments are."""

_KEYS = {
    DOCUMENTS: "doc_id and text, and if wanted title; all else is metadata",
    QUERIES: "query_id and text, and if wanted tags; all else is metadata",
    JUDGMENTS: "query_id, doc_id, and if wanted quote, start, relevance, evidence_id",
}
_JUDGMENT_KEYS = ("query_id", "doc_id", "quote", "start", "relevance", "evidence_id", "source")

Row = dict[str, Any]


class Placed(NamedTuple):
    """A row, and where it was given."""

    place: str
    row: Row


class Records(NamedTuple):
    """The three tables as rows; ``judgments`` is None where nothing is judged."""

    documents: list[Placed]
    queries: list[Placed]
    judgments: list[Placed] | None

    @classmethod
    def of(cls, documents: object, queries: object, judgments: object | None) -> Records:
        """Return what is given as rows.

        Raises:
            UsageError: something is of no known form; says what it is, and what is expected.
        """
        return cls(
            document_rows(documents),
            query_rows(queries),
            None if judgments is None else judgment_rows(judgments),
        )

    def write(self, folder: Path) -> None:
        """Write them into a folder that is there; a file whose content is the same is left."""
        for name, placed in self._asdict().items():
            file = folder / f"{name}.jsonl"
            if placed is None:
                file.unlink(missing_ok=True)
                continue
            text = "".join(f"{_line(*one)}\n" for one in placed)
            if not file.exists() or file.read_text(encoding="utf-8") != text:
                write_text(file, text)

    @contextmanager
    def errors(self, documents: str = DOCUMENTS) -> Iterator[None]:
        """Name the place that a row was given at where a reader names a file and a line.

        Args:
            documents: what the documents are called.

        Raises:
            DataError: in place of a ``RowError`` of the readers.
        """
        try:
            yield
        except RowError as error:
            placed = getattr(self, error.file.stem, None)
            if placed is None:
                raise
            table = documents if error.file.stem == DOCUMENTS else error.file.stem
            place = table if error.line is None else placed[error.line - 1].place
            how = '`columns`, as in `settings={"dataset": {"columns": {"text": "body"}}}`'
            problem = error.problem.replace("`columns`", how)
            raise DataError(problem, file=place, key=error.key) from error


def document_rows(given: object, name: str = DOCUMENTS) -> list[Placed]:
    """Return documents, under ``name`` in errors."""
    return _texts(name, given, DOCUMENTS, "doc_id", NAMES["document_id"])


def query_rows(given: object) -> list[Placed]:
    """Return queries; an ``id`` is one of a query."""
    placed = _texts(QUERIES, given, QUERIES, "query_id", NAMES["query_id"])
    names = {*NAMES["query_id"]}
    return [
        Placed(place, {"query_id": row["id"], **_without(row, "id")})
        if "id" in row and not names & row.keys()
        else Placed(place, row)
        for place, row in placed
    ]


def judgment_rows(given: object) -> list[Placed]:
    """Return judgments."""
    if isinstance(given, Mapping):
        return [one for query_id, own in given.items() for one in _judged(query_id, own)]
    return [_judgment(place, value) for place, value in _items(JUDGMENTS, given, LABELS)]


def _texts(name: str, given: object, kind: str, key: str, names: Iterable[str]) -> list[Placed]:
    expected = TEXTS.format(keys=_KEYS[kind])
    if isinstance(given, Mapping):
        return [
            Placed(place, {key: text_id, **_text_row(place, value, expected)})
            for text_id, value in given.items()
            for place in [f"{name}[{text_id!r}]"]
        ]
    placed = []
    for number, (place, value) in enumerate(_items(name, given, TEXTS, kind)):
        row = _text_row(place, value, expected)
        placed.append(Placed(place, {key: number, **row} if isinstance(value, str) else row))
    return placed


def _text_row(place: str, value: object, expected: str) -> Row:
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, Mapping):
        return _row(value)
    raise UsageError(f"{place} is {_what(value)}; expected {expected}")


def _judged(query_id: object, own: object) -> Iterator[Placed]:
    place = f"{JUDGMENTS}[{query_id!r}]"
    if isinstance(own, Mapping):
        for document_id, grade in own.items():
            row = {"query_id": query_id, "doc_id": document_id, "relevance": grade}
            yield Placed(f"{place}[{document_id!r}]", row)
        return
    if isinstance(own, str) or not isinstance(own, Iterable):
        problem = f"{place} is {_what(own)}; expected a dict of document id to grade, or a list"
        raise UsageError(f"{problem} of ids of relevant documents")
    for number, document_id in enumerate(own):
        row = {"query_id": query_id, "doc_id": document_id}
        yield Placed(f"{place}[{number}]", row)


def _judgment(place: str, value: object) -> Placed:
    if isinstance(value, Mapping):
        row = _row(value)
        if "doc_id" not in row and "document_id" in row:
            row = {"doc_id": row["document_id"], **_without(row, "document_id")}
        unknown = [key for key in row if key not in _JUDGMENT_KEYS]
        if unknown:
            raise UsageError(f"{place}: unknown key {allowed_names(unknown[0], _JUDGMENT_KEYS)}")
        return Placed(place, row)
    if isinstance(value, tuple) and len(value) in {2, 3}:
        keys = ("query_id", "doc_id", "relevance")
        return Placed(place, dict(zip(keys, value, strict=False)))
    expected = LABELS.format(keys=_KEYS[JUDGMENTS])
    raise UsageError(f"{place} is {_what(value)}; expected {expected}")


def _items(
    name: str, given: object, form: str, kind: str = JUDGMENTS
) -> Iterator[tuple[str, object]]:
    """Yield each item of a list, or row of a data frame, with its place."""
    to_rows = _frame(given)
    if to_rows is not None:
        for number, row in enumerate(to_rows()):
            yield f"{name}, row {number}", row
        return
    if isinstance(given, str | bytes | Path) or not isinstance(given, Iterable):
        hint = (
            "; a folder or file is evaluate(path)"
            if name == DOCUMENTS and isinstance(given, str | Path)
            else ""
        )
        expected = form.format(keys=_KEYS[kind])
        raise UsageError(f"{name} is {_what(given)}; expected {expected}{hint}")
    for number, value in enumerate(given):
        yield f"{name}[{number}]", value


def _frame(given: Any) -> Callable[[], list[Row]] | None:  # noqa: ANN401
    """Return what gives the rows of a data frame of polars, pandas or pyarrow, if it is one."""
    if hasattr(given, "columns") and hasattr(given, "to_dicts"):
        return lambda: list(given.to_dicts())
    if hasattr(given, "columns") and hasattr(given, "to_dict"):
        return lambda: list(given.to_dict("records"))
    if hasattr(given, "schema") and hasattr(given, "to_pylist"):
        return lambda: list(given.to_pylist())
    return None


def _row(value: Mapping[Any, Any]) -> Row:
    """Return a row without what is missing: None, and the NaN of pandas."""
    return {
        str(key): cell
        for key, cell in value.items()
        if cell is not None and not (isinstance(cell, float) and math.isnan(cell))
    }


def _without(row: Row, key: str) -> Row:
    return {name: value for name, value in row.items() if name != key}


def _line(place: str, row: Row) -> str:
    try:
        return json.dumps(row, default=_plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{place}: is not what JSON can hold: {error}") from error


def _plain(value: Any) -> object:  # noqa: ANN401
    """Return a value of numpy as one of Python, a date as its text."""
    for method in ("tolist", "isoformat"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"found {_what(value)}")


def _what(value: object) -> str:
    return f"{type_name(value)} {value!r:.60}"
