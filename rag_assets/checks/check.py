"""A check: a question to one partition, the tables that it may read, and its outcome.

A check that compares two moments sees each as a :class:`State`: what is up to date, or what an
evaluation names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.errors import StoreError
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.findings import ERROR, WARNING
from rag_assets.pipeline.evaluation_record import configuration_of
from rag_assets.pipeline.evaluations import (
    ANCHOR,
    FOLDER,
    Evaluation,
    pointed,
    read_evaluation,
)
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import Artifact, ArtifactKey

MAX_EXAMPLES = 20
"""Problems that a result holds in words; all are counted."""

NO_ANCHOR = "there is no anchor; `rag-assets anchor PATH` pins an evaluation"

__all__ = ["ERROR", "WARNING", "Check", "CheckOutcome", "CheckResult"]


@dataclass(frozen=True)
class State:
    """One moment.

    Attributes:
        configuration: as :func:`rag_assets.pipeline.evaluation_record.configuration_of` gives it.
        artifact: gives the artifact of a partition; None: there is none that can be read.
    """

    configuration: Mapping[str, Any]
    artifact: Callable[[ArtifactKey], Artifact | None]


def of_evaluation(pipeline: Pipeline, evaluation: Evaluation) -> State:
    """Return what an evaluation of the same experiment names."""
    paths = {entry.key: pipeline.settings.store / entry.path for entry in evaluation.entries}
    return State(
        evaluation.origin.configuration,
        lambda key: pipeline.store.read(paths[key]) if key in paths else None,
    )


def anchor_of(pipeline: Pipeline) -> State | str:
    """Return the pinned evaluation; or why there is none to compare with, as a phrase."""
    root = pipeline.root
    try:
        pinned = pointed(root / ANCHOR)
        if pinned is None:
            return NO_ANCHOR
        return of_evaluation(pipeline, read_evaluation(root / FOLDER / f"{pinned}.json"))
    except StoreError as error:
        return f"the anchor cannot be read: {error}"


class CheckInputs:
    """The tables behind the checks of some partitions, each read once.

    Reading one that is not in the store raises MissingArtifact.
    """

    def __init__(self, pipeline: Pipeline, now: State | None = None) -> None:
        """Read nothing yet; ``now`` is compared with the anchor, by default what is up to date."""
        self.pipeline = pipeline
        self._now = now
        self._tables: dict[object, pa.Table] = {}

    @property
    def experiment(self) -> Experiment:
        """The experiment that is checked."""
        return self.pipeline.experiment

    @cached_property
    def anchor(self) -> State | str:
        """The pinned evaluation; or why there is none to compare with, as a phrase."""
        return anchor_of(self.pipeline)

    @cached_property
    def now(self) -> State:
        """What is compared with the anchor."""
        return self._now or State(configuration_of(self.experiment), self.pipeline.current)

    def table(self, key: ArtifactKey, *columns: str) -> pa.Table:
        """Return some columns of a partition, or all."""
        if (key, columns) not in self._tables:
            artifact = self.pipeline.artifact(key)
            self._tables[key, columns] = artifact.table(list(columns) if columns else None)
        return self._tables[key, columns]

    @property
    def queries(self) -> pa.Table:
        """All queries."""
        return self.table(QUERIES_KEY)

    @property
    def documents(self) -> pa.Table:
        """All documents."""
        return self.table(DOCUMENTS_KEY)


class Partition(NamedTuple):
    """What a check looks at."""

    inputs: CheckInputs
    key: ArtifactKey
    artifact: Artifact

    @property
    def experiment(self) -> Experiment:
        """The experiment of the partition."""
        return self.inputs.experiment

    @property
    def table(self) -> pa.Table:
        """All rows of the partition."""
        return self.artifact.table()


@dataclass(frozen=True)
class CheckOutcome:
    """What a check found in a partition.

    Attributes:
        problems: a sentence each, the gravest first; empty: nothing is wrong.
        severity: ``error`` or ``warning``; means nothing without problems.
        numbers: values that Dagster plots over time.
        not_checked: why the check could not run: then it does not pass, and warns.
        queries: id and sentence of each query that the problems are about.
    """

    problems: Sequence[str] = ()
    severity: str = ERROR
    numbers: Mapping[str, float] = field(default_factory=dict)
    not_checked: str | None = None
    queries: Sequence[tuple[str, str]] = ()


class Check(NamedTuple):
    """One question to every partition of an asset.

    Attributes:
        name: unique for the asset.
        meaning: for people: what holds when it passes.
        find: checks one partition; None: the check does not apply, so it has no result.
    """

    name: str
    meaning: str
    find: Callable[[Partition], CheckOutcome | None]


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check of one partition."""

    check: Check
    key: ArtifactKey
    outcome: CheckOutcome

    @property
    def passed(self) -> bool:
        """True if the check ran and found nothing."""
        return self.outcome.not_checked is None and not self.outcome.problems

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
