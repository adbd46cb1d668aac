"""An evaluation of what is given in code, in a store of its own that goes with the result.

A search may be an object of this process: no experiment names its code, so none is loaded.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from rag_assets.called.asked import ALWAYS
from rag_assets.called.code import version_of_loaded
from rag_assets.code_versions.closure import Root
from rag_assets.compute.compute import release_workers
from rag_assets.errors import ConfigError, DataError, UsageError, allowed_names
from rag_assets.evaluation.measure import FunctionMeasure
from rag_assets.experiment.load import SOURCE, experiment_in_code
from rag_assets.experiment.yaml_file import dotted, first_problem
from rag_assets.pipeline.evaluation_record import record
from rag_assets.pipeline.failed_queries import ask_revisions
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import required_partitions
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.retrieval.base import Retriever
from rag_assets.retrieval.external.python import CodeRetriever
from rag_assets.sources.dataset import RowError
from rag_assets.sources.fields import type_name
from rag_assets.sources.labelled_folder import JUDGMENTS, NAMES, QUERIES
from rag_assets.store.atomic import write_text
from rag_assets.store.settings import StoreSettings


class LiveRetriever(CodeRetriever):
    """``target`` is asked; ``call`` is how it is named in reports.

    It is known by the retriever's name and by its source where that can be read, else each
    evaluation asks it again.
    """

    target: Any = Field(exclude=True, repr=False)
    called_source: str | None = Field(default=None, exclude=True, repr=False)

    @classmethod
    def block(cls, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of the retriever ``name``, whose ``call`` is a function or object."""
        target = options["call"]
        version = None if options.get("revision") is not None else version_of_loaded(target)
        qualname = getattr(target, "__qualname__", type(target).__qualname__)
        spec = {**options, "call": f"{name}:{qualname}", "target": target, "called_source": version}
        return spec if version is not None else {"revision": ALWAYS, **spec}

    def load(self) -> object:
        """Return the object itself."""
        return self.target

    def versions(self) -> Mapping[str, str]:
        """Return the version of the source, where it is known."""
        return {} if self.called_source is None else {"called_source": self.called_source}

    def describe_for_plan(self) -> list[str]:
        """Return what would be run."""
        return [f"runs {self.call} of this process"]


METHODS = ("invoke", "retrieve", "run")

FORMS = (
    "a function of (query, k) or of the query; an object with `invoke`, `retrieve` or `run`; "
    "or a dict with `type` and options, as in an experiment.yaml, whose `call` may be such a "
    "function"
)
"""What a retriever is."""


def evaluate(
    records: Records,
    retrievers: Mapping[str, object],
    settings: Mapping[str, Any],
    store: Path | str | None,
    functions: Mapping[str, FunctionMeasure],
) -> EvaluationTable:
    """Evaluate retrievers; Dagster is not asked.

    Args:
        records: the data.
        retrievers: each by its name, in any of :data:`FORMS`.
        settings: other keys of an ``experiment.yaml``, with its ``name``.
        store: a folder for artifacts; None: one that is removed with the result.
        functions: further metrics.

    Raises:
        UsageError: a retriever is none, or a setting is wrong.
        DataError: a row breaks the format, or contradicts another.
    """
    if store is not None:
        place = StoreSettings.resolve(store)
        return _evaluated(records, retrievers, settings, functions, Pipeline, place)
    folder = Path(tempfile.mkdtemp(prefix="rag_assets_"))
    try:
        place = StoreSettings.resolve(folder)
        result = _evaluated(records, retrievers, settings, functions, _UsedOnce, place)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)
    return result


class _UsedOnce(Pipeline):
    """A pipeline over a store in which nothing of another state of the code can ever be."""

    def code_version(self, roots: Iterable[Root]) -> str:
        """Return nothing: to follow the source would take longer than a small evaluation."""
        return ""


def _evaluated(
    records: Records,
    retrievers: Mapping[str, object],
    settings: Mapping[str, Any],
    functions: Mapping[str, FunctionMeasure],
    opened: type[Pipeline],
    place: StoreSettings,
) -> EvaluationTable:
    if "retrievers" in settings:
        raise UsageError("settings has retrievers; give them only as `retrievers`")
    source = place.store / str(settings["name"]) / SOURCE
    source.mkdir(parents=True, exist_ok=True)
    records.write(source)
    given = {name: _retriever(name, retriever) for name, retriever in retrievers.items()}
    experiment = experiment_in_code(source, settings, given).with_functions(functions)
    started = datetime.now(UTC)
    pipeline, selection = opened(experiment, place), Selection.of(experiment)
    try:
        with records.errors(), pipeline.evaluating():
            ask_revisions(pipeline, selection.retrievers)
            for asset, keys in required_partitions(experiment, selection).items():
                pipeline.materialize(asset, keys)
            computed = pipeline.n_computed
            evaluation = record(pipeline, started=started, trigger="Python", computed=computed)
    finally:
        release_workers()
    return EvaluationTable(pipeline.root, evaluation)


def _retriever(name: str, given: object) -> Retriever | Mapping[str, Any]:
    """Return the options of a retriever, or the block that would stand in an experiment.yaml.

    Raises:
        UsageError: it is none.
    """
    if isinstance(given, Retriever):
        return given
    if isinstance(given, Mapping):
        call = given.get("call")
        if call is None or isinstance(call, str):
            return given
        return _live(name, {"type": "python", **given})
    if callable(given) or any(callable(getattr(given, method, None)) for method in METHODS):
        return _live(name, {"type": "python", "call": given})
    problem = f"retrievers['{name}'] is {type(given).__name__} {given!r:.60}"
    raise UsageError(f"{problem}; expected {FORMS}")


def _live(name: str, options: Mapping[str, Any]) -> LiveRetriever:
    try:
        return LiveRetriever.model_validate(LiveRetriever.block(name, options))
    except ValidationError as error:
        above = ("retrievers", name, "python")
        location, problem = first_problem(error, {"retrievers": {name: options}}, above)
        raise ConfigError(problem, key=dotted(location)) from error


DOCUMENTS = "documents"

_TEXTS = (
    "a list of texts, whose ids are 0, 1, ...; a dict of id to text; or a list of dicts or a data "
    "frame with"
)
_EXPECTED = {
    DOCUMENTS: f"{_TEXTS} doc_id and text, and if wanted title; all else is metadata",
    QUERIES: f"{_TEXTS} query_id and text, and if wanted tags; all else is metadata",
    JUDGMENTS: "a dict of query id to a dict of document id to grade, or to a list of relevant "
    "ids; a list of (query id, document id) or (query id, document id, grade); or a list of dicts "
    "or a data frame with query_id, doc_id, and if wanted quote, start, relevance, evidence_id",
}
"""In which forms each table may be given."""

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
        texts = _texts(DOCUMENTS, documents, "doc_id"), _queries(queries)
        return cls(*texts, None if judgments is None else _judgments(judgments))

    def write(self, folder: Path) -> None:
        """Write them into a folder that is there; a file whose content is the same is left."""
        for name, placed in self._asdict().items():
            file = folder / f"{name}.jsonl"
            if placed is None:
                file.unlink(missing_ok=True)
                continue
            text = "".join(f"{_line(*row)}\n" for row in placed)
            if not file.exists() or file.read_text(encoding="utf-8") != text:
                write_text(file, text)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Name the place that a row was given at where a reader names a file and a line.

        Raises:
            DataError: in place of a ``RowError`` of the readers.
        """
        try:
            yield
        except RowError as error:
            placed = getattr(self, error.file.stem, None)
            if placed is None:
                raise
            place = error.file.stem if error.line is None else placed[error.line - 1].place
            how = '`columns`, as in `settings={"dataset": {"columns": {"text": "body"}}}`'
            problem = error.problem.replace("`columns`", how)
            raise DataError(problem, file=place, key=error.key) from error


def _refused(place: str, value: object, expected: str) -> UsageError:
    return UsageError(f"{place} is {_what(value)}; expected {expected}")


def _queries(given: object) -> list[Placed]:
    """Return queries; an ``id`` is one of a query."""
    return [
        Placed(place, {"query_id": row["id"], **_without(row, "id")})
        if "id" in row and not {*NAMES["query_id"]} & row.keys()
        else Placed(place, row)
        for place, row in _texts(QUERIES, given, "query_id")
    ]


def _texts(name: str, given: object, key: str) -> list[Placed]:
    if isinstance(given, Mapping):
        items = [(f"{name}[{each!r}]", {key: each}, value) for each, value in given.items()]
    else:
        items = [
            (place, {key: number} if isinstance(value, str) else {}, value)
            for number, (place, value) in enumerate(_items(name, given))
        ]
    placed = []
    for place, row_id, value in items:
        if not isinstance(value, str | Mapping):
            raise _refused(place, value, _EXPECTED[name])
        row = {"text": value} if isinstance(value, str) else _row(value)
        placed.append(Placed(place, {**row_id, **row}))
    return placed


def _judgments(given: object) -> list[Placed]:
    if isinstance(given, Mapping):
        return [row for query_id, judged in given.items() for row in _judged(query_id, judged)]
    return [_judgment(place, value) for place, value in _items(JUDGMENTS, given)]


def _judged(query_id: object, own: object) -> Iterator[Placed]:
    place = f"{JUDGMENTS}[{query_id!r}]"
    if isinstance(own, Mapping):
        for document_id, grade in own.items():
            row = {"query_id": query_id, "doc_id": document_id, "relevance": grade}
            yield Placed(f"{place}[{document_id!r}]", row)
        return
    if isinstance(own, str) or not isinstance(own, Iterable):
        expected = "a dict of document id to grade, or a list of ids of relevant documents"
        raise _refused(place, own, expected)
    for number, document_id in enumerate(own):
        yield Placed(f"{place}[{number}]", {"query_id": query_id, "doc_id": document_id})


def _judgment(place: str, value: object) -> Placed:
    if isinstance(value, tuple) and len(value) in {2, 3}:
        return Placed(place, dict(zip(("query_id", "doc_id", "relevance"), value, strict=False)))
    if not isinstance(value, Mapping):
        raise _refused(place, value, _EXPECTED[JUDGMENTS])
    row = _row(value)
    if "doc_id" not in row and "document_id" in row:
        row = {"doc_id": row["document_id"], **_without(row, "document_id")}
    for key in row:
        if key not in _JUDGMENT_KEYS:
            raise UsageError(f"{place}: unknown key {allowed_names(key, _JUDGMENT_KEYS)}")
    return Placed(place, row)


_FRAMES = {"to_dicts": (), "to_dict": ("records",), "to_pylist": ()}
"""Method that gives the rows of a data frame of polars, pandas or pyarrow -> its arguments."""


def _items(name: str, given: Any) -> Iterator[tuple[str, object]]:  # noqa: ANN401 (of a user)
    """Yield each item of a list, or row of a data frame, with its place."""
    if hasattr(given, "columns") or hasattr(given, "schema"):
        for method, arguments in _FRAMES.items():
            if hasattr(given, method):
                for number, row in enumerate(getattr(given, method)(*arguments)):
                    yield f"{name}, row {number}", row
                return
    if isinstance(given, str | bytes | Path) or not isinstance(given, Iterable):
        is_path = name == DOCUMENTS and isinstance(given, str | Path)
        hint = "; a folder or file is evaluate(path)" if is_path else ""
        raise _refused(name, given, f"{_EXPECTED[name]}{hint}")
    for number, value in enumerate(given):
        yield f"{name}[{number}]", value


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
