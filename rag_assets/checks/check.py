"""A check: a question to one partition, the tables that it may read, and its outcome.

A check that compares two moments sees each as :data:`Artifacts`: what is up to date, or what an
evaluation names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from rag_assets.errors import StoreError
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.findings import ERROR, WARNING
from rag_assets.pipeline.evaluations import ANCHOR, FOLDER, Evaluation, pointed, read_evaluation
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.artifacts import Artifact, ArtifactKey

MAX_EXAMPLES = 20
"""Problems that a result holds in words; all are counted."""

NO_ANCHOR = "there is no anchor; `rag-assets anchor PATH` pins an evaluation"

Artifacts = Callable[[ArtifactKey], Artifact | None]
"""One moment: gives the artifact of a partition; None: there is none that can be read."""


def of_evaluation(pipeline: Pipeline, evaluation: Evaluation) -> Artifacts:
    """Return what an evaluation of the same experiment names."""
    paths = {entry.key: pipeline.settings.store / entry.path for entry in evaluation.entries}
    return lambda key: pipeline.store.read(paths[key]) if key in paths else None


class CheckInputs:
    """What the checks of some partitions read beside these.

    Reading one that is not in the store raises MissingArtifact.
    """

    def __init__(self, pipeline: Pipeline, now: Artifacts | None = None) -> None:
        """Read nothing yet; ``now`` is compared with the anchor, by default what is up to date."""
        self.pipeline = pipeline
        self.now = now or pipeline.current

    @cached_property
    def anchor(self) -> Artifacts | str:
        """The pinned evaluation; or why there is none to compare with, as a phrase."""
        root = self.pipeline.root
        try:
            pinned = pointed(root / ANCHOR)
            if pinned is None:
                return NO_ANCHOR
            evaluation = read_evaluation(root / FOLDER / f"{pinned}.json")
        except StoreError as error:
            return f"the anchor cannot be read: {error}"
        return of_evaluation(self.pipeline, evaluation)

    @cached_property
    def queries(self) -> pa.Table:
        """All queries."""
        return self.pipeline.artifact(QUERIES_KEY).table()


class Partition(NamedTuple):
    """What a check looks at."""

    inputs: CheckInputs
    key: ArtifactKey
    artifact: Artifact

    @property
    def experiment(self) -> Experiment:
        """The experiment of the partition."""
        return self.inputs.pipeline.experiment

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
        no_result: for people: when it does not apply, where that may be.
    """

    name: str
    meaning: str
    find: Callable[[Partition], CheckOutcome | None]
    no_result: str = ""


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
