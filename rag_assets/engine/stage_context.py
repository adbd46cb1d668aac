"""What a stage may ask for while it computes, and what the engine asks of a stage that ranks.

A stage sees this, never the engine: so what a stage reaches is its own code and the library's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from rag_assets.code_versions.closure import Root
from rag_assets.compute.compute import Compute
from rag_assets.engine.measurements import Measurements
from rag_assets.engine.recipe import Attempts, Recipe, Revisions
from rag_assets.experiment.experiment import Experiment
from rag_assets.progress import Progress
from rag_assets.retrieval.workspace import Workspace
from rag_assets.store.artifacts import Artifact, ArtifactKey, ArtifactStore

if TYPE_CHECKING:
    from rag_assets.llm.client import ChatModel
    from rag_assets.llm.completions import Completions
    from rag_assets.llm.replies import ReplyStore

Times = Mapping[str, float]
"""Query id -> milliseconds."""

Search = Callable[[str], object]
"""Ranks one query, given by its id."""


class Part(NamedTuple):
    """What one part of a query's way takes.

    Attributes:
        times: of single queries.
        cost: money that servers take for a query, on average; 0 where none is asked, None where
            that is not known.
    """

    times: Times
    cost: float | None = 0.0


class Ranked(NamedTuple):
    """What a search gave: table of :data:`rag_assets.schemas.RUNS`, and the queries that failed.

    Its facts are worth showing, and determine nothing; ``served`` is what a server took to rank.
    """

    table: pa.Table
    failures: Mapping[str, str] = {}
    facts: Mapping[str, Any] = {}
    served: Part | None = None


class Ranking(NamedTuple):
    """A ranking cut at some depth; fingerprint, failed queries and facts are those of the whole."""

    table: pa.Table
    fingerprint: str
    failures: Mapping[str, str]
    facts: Mapping[str, Any]


class Need(NamedTuple):
    """Ranks of a retriever that something reads.

    Attributes:
        retriever: its name.
        top_k: of the cell that asks, which matters only where the ranking depends on it.
        depth: how many ranks.
    """

    retriever: str
    top_k: int
    depth: int


class StoredRankings(Protocol):
    """The rankings of one experiment, each computed once by the stage that ranks the retriever."""

    def table(self, ranker: Ranker, need: Need) -> Ranking:
        """Return the ranking cut at the depth: stored, or computed now and stored."""

    def stored(self, ranker: Ranker, need: Need) -> str | None:
        """Return the fingerprint of what is stored at the depth or deeper; None: nothing is."""

    def time_cell(self, ranker: Ranker, cell: Recipe, retriever: str, top_k: int) -> None:
        """Time queries at the cut-off of a cell whose ranking is stored, see ``engine``."""

    def digest(self, ranker: Ranker, need: Need) -> str | None:
        """Return the content digest of the ranking cut at the depth; None: it is not stored."""


class StageContext(Protocol):
    """One experiment and its store, as a stage sees them.

    Attributes:
        experiment: the experiment.
        allow_code: whether the user allowed code that the experiment names, even somebody else's.
        progress: where progress is shown.
        store: the artifacts of the experiment.
        rankings: the rankings of the experiment.
        measurements: what was measured; no result depends on it.
        attempts: how often a failed partition was tried again.
        revisions: the revisions that evaluations asked searches for.
    """

    experiment: Experiment
    allow_code: bool
    progress: Progress
    store: ArtifactStore
    rankings: StoredRankings
    measurements: Measurements
    attempts: Attempts
    revisions: Revisions

    @property
    def source_digests(self) -> Mapping[str, str]:
        """Digests of the files behind ``documents``, ``queries`` and, if any, ``qrels``.

        Generated questions have no files. A part that cannot be read (a folder without queries
        can be chunked) fails when it is asked for.
        """

    @property
    def compute(self) -> Compute:
        """Where models and searches are computed."""

    @property
    def replies(self) -> ReplyStore:
        """What language models said, in any experiment of the store."""

    def artifact(self, key: ArtifactKey) -> Artifact:
        """Return the up-to-date artifact of a partition.

        Raises:
            MissingArtifact: it is not in the store.
        """

    def current(self, key: ArtifactKey) -> Artifact | None:
        """Return the up-to-date artifact of a partition; None when it must be computed."""

    def recipe(self, key: ArtifactKey) -> Recipe | None:
        """Return what determines a partition now; None while an input is missing."""

    def workspace(self, retriever: str, key: ArtifactKey | None = None) -> Workspace:
        """Return caches and progress of a retriever; measurements are kept for ``key``, if any."""

    def cache_folder(self, name: str) -> Path:
        """Return the folder of one cache of computed values."""

    def code_version(self, roots: Iterable[Root]) -> str:
        """Return the version of all code that these roots reach."""

    def versions_of(self, retriever: str) -> Mapping[str, str]:
        """Return what computes a retriever: its engines, the files that it names."""

    def file_digest(self, file: Path) -> str:
        """Return the digest of a file's content."""

    def completions(
        self, label: str, total: int, llm: str | ChatModel | None = None
    ) -> AbstractContextManager[Completions]:
        """Open one of the ``llms`` (None: ``llm``) with its replies, for ``total`` requests.

        Its budget holds for the whole evaluation. What is given itself, and no name, has none.
        """

    def check_source(self, part: str) -> None:
        """Check that files which were just read are still those that were hashed.

        Raises:
            DataError: they were edited meanwhile; what was read belongs to another fingerprint.
        """


class Ranker(Protocol):
    """A stage that can rank: what determines its ranking, how it is computed, and timed."""

    def searcher(
        self, context: StageContext, need: Need, query_ids: Sequence[str]
    ) -> Search | None:
        """Return a function that ranks one of these queries; None where nothing is computed."""
        return None

    def step_timed_once(self, context: StageContext, retriever: str, top_k: int) -> str | None:
        """Return what the search's time depends on; None: time it for every new ranking."""
        return None

    def parts_before(self, context: StageContext, retriever: str, top_k: int) -> list[Part] | None:
        """Return what each query takes before the search; None: a part was not measured."""
        return []

    def ranking_recipe(self, context: StageContext, retriever: str, top_k: int) -> Recipe | None:
        """Return what determines the ranking; None while an input is missing."""

    def rank(self, context: StageContext, need: Need) -> Ranked:
        """Compute the ranking to the depth."""
