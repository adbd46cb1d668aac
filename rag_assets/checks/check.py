"""A check: a question to one partition, the tables that it may read, and its outcome.

A check that compares two moments sees each as a :class:`State`: what is up to date, or what an
evaluation names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
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
from rag_assets.pipeline.stages import STAGES
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import Artifact, ArtifactKey
from rag_assets.store.canonical import fingerprint, read_sealed, sealed_json

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
        passes: True if the check passes in spite of its problems; None: it passes without any.
        not_checked: why the check could not run: then it does not pass, warns, and blocks nothing.
        shown: Markdown for people, by title.
        queries: id and sentence of each query that the problems are about.
    """

    problems: Sequence[str] = ()
    severity: str = ERROR
    numbers: Mapping[str, float] = field(default_factory=dict)
    passes: bool | None = None
    not_checked: str | None = None
    shown: Mapping[str, str] = field(default_factory=dict)
    queries: Sequence[tuple[str, str]] = ()


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
    find: Callable[[Partition], CheckOutcome | None]
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


FAILED_CHECKS_DIR = "failed_checks"


class FailedChecks:
    """The partitions of one experiment whose blocking checks failed, as of now."""

    def __init__(self, pipeline: Pipeline) -> None:
        """List what is known."""
        self._pipeline = pipeline
        self._folder = pipeline.root / FAILED_CHECKS_DIR
        self._names = {file.name for file in self._folder.glob("*.json")}

    def failed(self, key: ArtifactKey) -> bool:
        """Return whether the up-to-date artifact of a partition failed."""
        return bool(self._names) and self._name(key) in self._names

    def reason(self, key: ArtifactKey) -> str | None:
        """Return what failed on the up-to-date artifact of a partition; None: nothing did."""
        if not self.failed(key):
            return None
        file = self._folder / str(self._name(key))
        try:
            return f"{key}: {read_sealed(file.read_bytes())['problems'][0]}"
        except (OSError, ValueError):
            return f"{key}: a blocking check failed; {file} is damaged, delete it to check again"

    def can_be_computed(self, key: ArtifactKey) -> bool:
        """Return whether no input failed, and none is missing because one of its own did."""
        if not self._names:
            return True
        inputs = STAGES[key.asset].inputs(self._pipeline.experiment, key)
        return self.stopped_by(key) is None and all(
            item.optional or self._pipeline.current(item.key) for item in inputs
        )

    def stopped_by(self, key: ArtifactKey) -> ArtifactKey | None:
        """Return an input of a partition that failed; None: it can be computed."""
        if not self._names:
            return None
        inputs = STAGES[key.asset].inputs(self._pipeline.experiment, key)
        return next((item.key for item in inputs if self.failed(item.key)), None)

    def record(self, keys: Iterable[ArtifactKey], results: Sequence[CheckResult]) -> None:
        """Remember which of the partitions failed, and that the others did not."""
        settings = self._pipeline.settings
        failed: dict[ArtifactKey, list[str]] = {}
        repaired: list[Path] = []
        for result in results:
            if result.blocks:
                problems = result.outcome.problems[:MAX_EXAMPLES]
                failed.setdefault(result.key, []).append(f"{result.check.name}: {problems[0]}")
        for key in keys:
            name = self._name(key)
            if key in failed and name is not None:
                content = {"partition": str(key), "problems": failed[key]}
                text = sealed_json(content)
                settings.write_record(self._folder / name, text, partial(_newest, text))
                self._names.add(name)
            elif name in self._names:
                self._names.discard(str(name))
                repaired.append(self._folder / str(name))
        settings.remove(repaired)

    def _name(self, key: ArtifactKey) -> str | None:
        artifact = self._pipeline.current(key)
        if artifact is None:
            return None
        return f"{fingerprint([str(key), artifact.manifest.fingerprint])[:32]}.json"


def _newest(text: str, _: object) -> str:
    """Return the record that is written, whatever another process wrote meanwhile."""
    return text
