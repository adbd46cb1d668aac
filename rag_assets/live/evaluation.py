"""An evaluation of what is given in code, in a store of its own that goes with the result.

A search may be an object of this process: no experiment names its code, so none is loaded.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from rag_assets.code_versions.closure import Root
from rag_assets.compute.compute import release_workers
from rag_assets.errors import UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.load import SOURCE, experiment_in_code
from rag_assets.experiment.yaml_file import refused
from rag_assets.live.parts import BM25
from rag_assets.live.records import Records
from rag_assets.pipeline.evaluation_record import record
from rag_assets.pipeline.failed_queries import ask_revisions
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import required_partitions
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.retrieval.external.base import ALWAYS
from rag_assets.retrieval.external.called_code import version_of_loaded
from rag_assets.retrieval.external.python import CodeRetriever
from rag_assets.retrieval.retriever import Retriever
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
        own = getattr(target, "__qualname__", type(target).__qualname__)
        found = {**options, "call": f"{name}:{own}", "target": target, "called_source": version}
        return found if version is not None else {"revision": ALWAYS, **found}

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
    "BM25(); or a dict with `type` and options, as in an experiment.yaml, whose `call` may be such "
    "a function"
)
"""What a retriever is."""


def evaluate(
    records: Records,
    retrievers: Mapping[str, object],
    settings: Mapping[str, Any],
    store: Path | str | None,
) -> EvaluationTable:
    """Evaluate retrievers; Dagster is not asked.

    Args:
        records: the data.
        retrievers: each by its name, in any of :data:`FORMS`.
        settings: other keys of an ``experiment.yaml``, with its ``name``.
        store: a folder for artifacts; None: one that is removed with the result.

    Raises:
        UsageError: a retriever is none, or a setting is wrong.
        DataError: a row breaks the format, or contradicts another.
    """
    if store is not None:
        settings_of_store = StoreSettings.resolve(store)
        source = settings_of_store.store / str(settings["name"]) / SOURCE
        return _evaluated(records, retrievers, settings, source, Pipeline, settings_of_store)
    folder = Path(tempfile.mkdtemp(prefix="rag_assets_"))
    try:
        own = StoreSettings.resolve(folder / "store")
        result = _evaluated(records, retrievers, settings, folder / "source", _UsedOnce, own)
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
    source: Path,
    opened: Callable[[Experiment, StoreSettings], Pipeline],
    store: StoreSettings,
) -> EvaluationTable:
    source.mkdir(parents=True, exist_ok=True)
    records.write(source)
    experiment = _experiment(source, retrievers, settings)
    started = datetime.now(UTC)
    pipeline = opened(experiment, store)
    selection = Selection.of(experiment)
    try:
        with records.errors(), pipeline.evaluating():
            ask_revisions(pipeline, selection.retrievers)
            for asset, keys in required_partitions(experiment, selection).items():
                pipeline.materialize(asset, keys)
            evaluation = record(
                pipeline, started=started, trigger="Python", computed=pipeline.n_computed
            )
    finally:
        release_workers()
    return EvaluationTable(pipeline.root, evaluation)


def _experiment(
    source: Path, retrievers: Mapping[str, object], settings: Mapping[str, Any]
) -> Experiment:
    if "retrievers" in settings:
        raise UsageError("settings has retrievers; give them only as `retrievers`")
    given = {name: _retriever(name, one) for name, one in retrievers.items()}
    blocks = {name: one for name, one in given.items() if not isinstance(one, Retriever)}
    made = {name: one for name, one in given.items() if isinstance(one, Retriever)}
    return experiment_in_code(source, {**settings, "retrievers": blocks}, made, list(given))


def _retriever(name: str, given: object) -> Retriever | Mapping[str, Any]:
    """Return the options of a retriever, or the block that would stand in an experiment.yaml.

    Raises:
        UsageError: it is none.
    """
    if isinstance(given, BM25):
        if given.texts:
            problem = "BM25(texts) searches texts of its own; give BM25(), for the documents"
            raise UsageError(f"retrievers['{name}']: {problem}")
        return given.options
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
        raise refused(
            error, {"retrievers": {name: options}}, ("retrievers", name, "python")
        ) from error
