"""A check: a question to one partition, the tables that it may read, and its outcome.

A check that compares two moments sees each as a :class:`State`: what is up to date, or what an
evaluation names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.errors import StoreError
from rag_assets.labels.health.findings import ERROR, WARNING
from rag_assets.pipeline.evaluation_names import anchor_id
from rag_assets.pipeline.evaluation_record import configuration_of
from rag_assets.pipeline.evaluations import FOLDER, Evaluation, read_evaluation
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.external.stage import chunk_keys
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import Artifact, ArtifactKey

NO_ANCHOR = "there is no anchor; `rag-assets anchor PATH` pins an evaluation"


@dataclass(frozen=True)
class State:
    """One moment.

    Attributes:
        configuration: as :func:`rag_assets.pipeline.evaluation_record.configuration_of` gives it.
        artifact: gives the artifact of a partition; None: there is none that can be read.
    """

    configuration: Mapping[str, Any]
    artifact: Callable[[ArtifactKey], Artifact | None]


def of_pipeline(pipeline: Pipeline) -> State:
    """Return what is up to date now."""
    return State(configuration_of(pipeline.experiment), pipeline.current)


def of_evaluation(pipeline: Pipeline, evaluation: Evaluation) -> State:
    """Return what an evaluation of the same experiment names."""
    paths = {entry.key: pipeline.settings.store / entry.path for entry in evaluation.entries}

    def artifact(key: ArtifactKey) -> Artifact | None:
        return pipeline.store.read(paths[key]) if key in paths else None

    return State(evaluation.origin.configuration, artifact)


def anchor_of(pipeline: Pipeline) -> State | str:
    """Return the pinned evaluation; or why there is none to compare with, as a phrase."""
    root = pipeline.root
    try:
        pinned = anchor_id(root)
        if pinned is None:
            return NO_ANCHOR
        return of_evaluation(pipeline, read_evaluation(root / FOLDER / f"{pinned}.json"))
    except StoreError as error:
        return f"the anchor cannot be read: {error}"


_UNITS = ["chunk_id", "document_id", "parent_chunk_id"]


class CheckInputs:
    """The tables behind the checks of some partitions, which share them."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Read nothing yet."""
        self.pipeline = pipeline
        self._units: dict[tuple[ArtifactKey, ...], pa.Table] = {}

    @cached_property
    def anchor(self) -> State | str:
        """The pinned evaluation; or why there is none to compare with, as a phrase."""
        return anchor_of(self.pipeline)

    @cached_property
    def now(self) -> State:
        """What is up to date."""
        return of_pipeline(self.pipeline)

    @cached_property
    def queries(self) -> pa.Table:
        """All queries.

        Raises:
            MissingArtifact: they are not in the store.
        """
        return self.pipeline.artifact(QUERIES_KEY).table()

    @cached_property
    def documents(self) -> pa.Table:
        """All documents.

        Raises:
            MissingArtifact: they are not in the store.
        """
        return self.pipeline.artifact(DOCUMENTS_KEY).table()

    @cached_property
    def document_ids(self) -> pa.Table:
        """The ids of all documents.

        Raises:
            MissingArtifact: they are not in the store.
        """
        return self.pipeline.artifact(DOCUMENTS_KEY).table(["document_id"])

    def units(self, retriever: str) -> pa.Table:
        """Return the ids of all chunks that a retriever can find, their documents and parents.

        Raises:
            MissingArtifact: a chunking is not in the store.
        """
        keys = tuple(chunk_keys(self.pipeline.experiment, retriever))
        if keys not in self._units:
            tables = [self.pipeline.artifact(key).table(_UNITS) for key in keys]
            self._units[keys] = pa.concat_tables(tables)
        return self._units[keys]


MAX_EXAMPLES = 20
"""Problems that a result holds in words; all are counted."""

__all__ = ["ERROR", "WARNING", "Check", "CheckOutcome", "CheckResult"]


@dataclass(frozen=True)
class CheckOutcome:
    """What a check found in a partition.

    Attributes:
        problems: a sentence each, the gravest first; empty: nothing is wrong.
        severity: ``error`` or ``warning``; means nothing without problems.
        numbers: values that Dagster plots over time.
    """

    problems: list[str]
    severity: str = ERROR
    numbers: Mapping[str, float] = field(default_factory=dict)
    passes: bool | None = None
    """True if the check passes in spite of its problems; None: it passes without any."""
    not_checked: str | None = None
    """Why the check could not run: then it does not pass, warns, and blocks nothing."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """Markdown for people, by title."""


class Check(NamedTuple):
    """One question to every partition of an asset.

    Attributes:
        name: unique for the asset.
        meaning: for people: what holds when it passes.
        find: checks one partition; None: the check does not apply, so it has no result.
        blocking: True if an error stops the partitions that read this one.
    """

    name: str
    meaning: str
    find: Callable[[CheckInputs, ArtifactKey, Artifact], CheckOutcome | None]
    blocking: bool = False


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check of one partition."""

    check: Check
    key: ArtifactKey
    outcome: CheckOutcome

    @property
    def passed(self) -> bool:
        """True if the check ran and found nothing, or if what it found passes."""
        if self.outcome.not_checked is not None:
            return False
        return not self.outcome.problems if self.outcome.passes is None else self.outcome.passes

    @property
    def blocks(self) -> bool:
        """True if partitions that read this one must not be computed."""
        return self.check.blocking and not self.passed and self.severity == ERROR

    @property
    def severity(self) -> str:
        """``error`` or ``warning``, for a check that does not pass."""
        return self.outcome.severity if self.outcome.not_checked is None else WARNING

    @property
    def summary(self) -> str:
        """One line for people."""
        problems = self.outcome.problems
        if self.outcome.not_checked is not None:
            return f"Not checked: {self.outcome.not_checked}."
        if not problems:
            return self.check.meaning
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return f"{problems[0]}{more}"
