"""What a check is: a question to one partition, what it may read for it, and what it came to.

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


class Reads:
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


MOST_EXAMPLES = 20
"""Problems that a result holds in words; all are counted."""

__all__ = ["ERROR", "WARNING", "Check", "CheckResult", "Found"]


@dataclass(frozen=True)
class Found:
    """What is wrong with a partition, in sentences; nothing: all is well.

    Attributes:
        problems: one sentence each, the gravest first.
        severity: ``error`` or ``warning``; of a check that found nothing it says nothing.
        numbers: what else is worth a curve over time.
    """

    problems: list[str]
    severity: str = ERROR
    numbers: Mapping[str, float] = field(default_factory=dict)
    passes: bool | None = None
    """Whether the check passes; by default: nothing was found."""
    not_checked: str | None = None
    """Why nothing could be looked at: such a check does not pass, warns, and blocks nothing."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """What else people want to see, by its title: Markdown."""


class Check(NamedTuple):
    """One question to every partition of an asset.

    Attributes:
        name: unique for the asset.
        meaning: for people: what holds when it passes.
        find: looks at one partition; None: nobody asked for the check, so it has no result.
        blocking: whether partitions that read one that failed with an error are not computed.
    """

    name: str
    meaning: str
    find: Callable[[Reads, ArtifactKey, Artifact], Found | None]
    blocking: bool = False


@dataclass(frozen=True)
class CheckResult:
    """What one check came to on one partition."""

    check: Check
    key: ArtifactKey
    found: Found

    @property
    def passed(self) -> bool:
        """Whether all is well, as far as it was looked at."""
        if self.found.not_checked is not None:
            return False
        return not self.found.problems if self.found.passes is None else self.found.passes

    @property
    def blocks(self) -> bool:
        """Whether what reads the partition must not be computed from it."""
        return self.check.blocking and not self.passed and self.severity == ERROR

    @property
    def severity(self) -> str:
        """``error`` or ``warning``: how grave it is where it does not pass."""
        return self.found.severity if self.found.not_checked is None else WARNING

    @property
    def summary(self) -> str:
        """One line for people."""
        problems = self.found.problems
        if self.found.not_checked is not None:
            return f"Not checked: {self.found.not_checked}."
        if not problems:
            return self.check.meaning
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return f"{problems[0]}{more}"
