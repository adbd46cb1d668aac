"""What an evaluation would do, and why, without doing it; and what that costs, where it is known.

Every partition gets an action:

- ``compute``: no stored artifact can be what is wanted, so an evaluation computes it.
- ``reuse``: what is wanted is stored, so an evaluation computes nothing.
- ``check``: something upstream is or may be computed again, so what is wanted is not known yet. It
  is computed unless the upstream comes out as it was when one of the stored artifacts was made.

Small tables that are read from files (documents, queries, qrels, and the facts of queries) are read
here too, and kept in memory only: so it is known which documents changed, and exact what becomes of
all that reads these tables alone. Chunks that a language model is asked about are cut. Nothing else
is computed, no model is loaded and no server asked.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from rag_assets.answers.stage import Answers
from rag_assets.called.asked import ALWAYS, AskedOptions
from rag_assets.engine.measurements import longest_times
from rag_assets.engine.outgoing import NO_WORK, Outgoing, summed
from rag_assets.engine.recipe import Input, Recipe
from rag_assets.engine.stage import Stage, TableProduct, checked, table_manifest
from rag_assets.errors import NotEvaluated, StoreError
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.hosts import all_clients, retriever_client
from rag_assets.pipeline.evaluation_record import named_files
from rag_assets.pipeline.evaluations import SnapshotEntry, read_current
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.reasons import (
    DAMAGED,
    DELETED,
    NOTHING_STORED,
    Reason,
    Wanted,
    file_changes,
    row_changes,
)
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import STAGES, required_partitions
from rag_assets.query_sets.stage import reads_fields
from rag_assets.retrieval.external.base import AnsweredRetriever
from rag_assets.retrieval.external.stage import ExternalRankings
from rag_assets.retrieval.reranking.stage import RERANKED_RUNS
from rag_assets.retrieval.runs_stage import RunsStage, has_one_ranking
from rag_assets.retrieval.search_steps_stage import own_steps
from rag_assets.store.artifacts import Artifact, ArtifactKey, ArtifactStore
from rag_assets.store.file_stamps import modified

COMPUTE, CHECK, REUSE = "compute", "check", "reuse"
ACTIONS = (COMPUTE, CHECK, REUSE)

SEARCHED = ExternalRankings.name
FILES = Reason("files changed")
ANEW = Reason("requested in each evaluation (revision: always)")


@dataclass(frozen=True)
class Step:
    """One partition: what becomes of it, and why.

    Attributes:
        key: the partition.
        action: ``compute``, ``check`` or ``reuse``.
        reasons: why it is not just reused; empty for ``reuse``.
        work: what it costs at most, where that is known: ``llm_calls`` (requests to language
            models) that are not in the cache,
            ``texts`` to embed or ``pairs`` of a query and a chunk to score, of which those in the
            cache are not computed again.
        outgoing: what models and servers are asked, at most, a line a client.
        same_as: the first partition of the plan that has the same artifact; None: this one is it.
            An artifact counts once, however many partitions have it.
    """

    key: ArtifactKey
    action: str
    reasons: tuple[Reason, ...] = ()
    work: Mapping[str, int] | None = None
    outgoing: tuple[Outgoing, ...] = ()
    same_as: ArtifactKey | None = None


@dataclass(frozen=True)
class Plan:
    """What an evaluation would do.

    Attributes:
        experiment: its name.
        retrievers: those that are selected; a grid stands here as its members.
        steps: every partition that is needed, each after its inputs.
        outgoing: what models and servers are asked, at most, on this machine too.
        searches: retriever or generator -> what an evaluation would run or ask for it, where it
            is a search that is not ours, or answers so.
        files: which files that the YAML names changed since the last evaluation.
        times: what is computed or checked -> the most seconds that it took here before, if known.
    """

    experiment: str
    retrievers: tuple[str, ...]
    steps: tuple[Step, ...]
    outgoing: tuple[Outgoing, ...] = ()
    searches: Mapping[str, Sequence[str]] = field(default_factory=dict)
    files: tuple[Reason, ...] = ()
    times: Mapping[ArtifactKey, float] = field(default_factory=dict)

    @property
    def artifacts(self) -> tuple[Step, ...]:
        """A step for each artifact: many partitions may have one."""
        return tuple(step for step in self.steps if step.same_as is None)

    @property
    def unmeasured(self) -> list[str]:
        """Assets of which something is computed or checked and nothing was measured here yet."""
        new = {step.key.asset for step in self.artifacts if step.action != REUSE}
        return sorted(new - {key.asset for key in self.times})

    def count(self, action: str) -> int:
        """Return how many artifacts have an action."""
        return sum(step.action == action for step in self.artifacts)

    def work(self, what: str) -> int | None:
        """Return the sum of ``llm_calls``, ``texts`` or ``pairs`` over all steps; None: unknown."""
        amounts = [step.work[what] for step in self.artifacts if step.work and what in step.work]
        return sum(amounts) if amounts else None


def plan(pipeline: Pipeline, selection: Selection) -> Plan:
    """Say what an evaluation of the selection would do now; the store is only read.

    Raises:
        RagAssetsError: what the evaluation itself would meet first: files that break their format,
            or a model that is not there.
    """
    experiment = pipeline.experiment
    planned = _PlannedPipeline(experiment, pipeline.settings, pipeline.progress)
    planner = _Planner(planned)
    for keys in required_partitions(experiment, selection).values():
        for key in keys:
            planner.add(key)
    steps = tuple(planner.steps.values())
    new = [step for step in steps if step.action != REUSE and step.same_as is None]
    return Plan(
        experiment.name,
        selection.retrievers,
        steps,
        summed(line for step in new for line in step.outgoing),
        _searches(experiment, steps),
        _changed_files(planned),
        longest_times(planned.measurements.folder, experiment.name, (step.key for step in new)),
    )


def _changed_files(pipeline: Pipeline) -> tuple[Reason, ...]:
    """Return which files differ from those of the last evaluation; none where there was none."""
    try:
        before = read_current(pipeline.root).origin.files
    except (NotEvaluated, StoreError):
        return ()
    return tuple(file_changes(before, named_files(pipeline))) if before else ()


def _searches(experiment: Experiment, steps: Iterable[Step]) -> dict[str, Sequence[str]]:
    services = [asked_by(experiment, step.key) for step in steps if step.action != REUSE]
    return {service[0]: service[1].describe_for_plan() for service in services if service}


def asked_by(experiment: Experiment, key: ArtifactKey) -> tuple[str, AskedOptions] | None:
    """Return the code or server of the user's own that a partition asks, with its name."""
    name: str = ""
    options: object = None
    if key.asset == SEARCHED:
        name = key["retriever"]
        retriever = experiment.retrievers[name]
        options = retriever
        if isinstance(retriever, AnsweredRetriever):
            name, options = retriever.generator, experiment.generators[retriever.generator]
    elif key.asset == Answers.name:
        name = experiment.answerers[experiment.answer_cells[key["answerer"]].name].generator
        options = experiment.generators[name]
    return (name, options) if isinstance(options, AskedOptions) else None


class _PlannedPipeline(Pipeline):
    """The pipeline of a plan: it remembers which partitions are not up to date, too.

    A run must never do that. Another process may compute a partition meanwhile, so a run looks
    again under each lock.
    """

    @cached_property
    def _misses(self) -> set[ArtifactKey]:
        return set()

    def current(self, key: ArtifactKey) -> Artifact | None:
        """Return the up-to-date artifact of a partition; None when it would be computed."""
        if key in self._misses:
            return None
        artifact = super().current(key)
        if artifact is None:
            self._misses.add(key)
        return artifact

    def assume(self, key: ArtifactKey, artifact: Artifact) -> None:
        """Take an artifact for the up-to-date one: what reads it may be up to date then."""
        super().assume(key, artifact)
        self._misses.clear()


SOURCES = ("documents", "queries", "qrels")
_READABLE = (*SOURCES, "query_facts")
"""Assets that are read from files in a moment, and so for a plan too."""


class _StoredArtifacts:
    """The artifacts of a store, as one experiment sees them."""

    def __init__(self, store: ArtifactStore, root: Path) -> None:
        self._store, self._root = store, root
        self._artifacts: dict[str, list[Artifact]] = {}

    @cached_property
    def entries(self) -> dict[ArtifactKey, SnapshotEntry]:
        """What the last evaluation of the experiment names, by partition."""
        try:
            return {entry.key: entry for entry in read_current(self._root).entries}
        except (NotEvaluated, StoreError):
            return {}

    def artifacts(self, asset: str) -> list[Artifact]:
        """Return all readable artifacts of an asset, the newest first, whoever wanted them."""
        if asset not in self._artifacts:
            paths = [self._store.objects / asset / name for name in self._store.names(asset)]
            artifacts = [artifact for path in paths if (artifact := self._store.read(path))]
            artifacts.sort(key=lambda each: (-modified(each.path), each.path.name))
            self._artifacts[asset] = artifacts
        return self._artifacts[asset]

    def reference(self, key: ArtifactKey) -> Artifact | None:
        """Return the artifact of the last evaluation; None: there is none, or it is unreadable."""
        entry = self.entries.get(key)
        return None if entry is None else self._store.read(self._store.root / entry.path)


@dataclass(frozen=True)
class _TableInMemory(Artifact):
    """An artifact that an evaluation would write, in memory."""

    content: pa.Table = None

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        return self.content if columns is None else self.content.select(list(columns))


def _is_readable(experiment: Experiment, key: ArtifactKey) -> bool:
    """Return whether a plan reads a partition: also the chunks that a model or server is sent."""
    if key.asset != "chunks":
        return key.asset in _READABLE
    return key["chunking"] in _sent_chunkings(experiment)


def _sent_chunkings(experiment: Experiment) -> set[str]:
    """Return the chunkings whose chunks a language model or server is sent, and that no model cuts.

    Unless these are cut, nobody can say how often it is asked.
    """
    chunkings = experiment.chunkings
    names = {n for n in chunkings if any(text.asks for text in chunkings[n].index_texts or ())}
    for name in experiment.retrievers:
        if retriever_client(experiment, name) and not experiment.located_of(name):
            names.update(experiment.chunkings_of(name))
    if experiment.questions is not None:
        names.add(str(experiment.questions.chunking))
    return {name for name in names if chunkings[name].by_blocks}


def _read_source(
    pipeline: Pipeline, stage: Stage, key: ArtifactKey, recipe: Recipe, stored: Artifact | None
) -> list[Reason] | None:
    """Read a table as an evaluation would, and make it the up-to-date one of ``pipeline``.

    Returns which of its rows differ from what is ``stored``; of sources alone. None where it was
    not read: with nothing stored there is nothing to compare with, neither here nor below. Queries,
    chunks, and what a prompt says of documents, are read also then where they tell how often a
    model or server is asked.
    """
    experiment = pipeline.experiment
    asking = {"queries"} if all_clients(experiment) else set()
    asking |= {"documents"} if reads_fields(experiment) else set()
    asking |= {"documents", "chunks"} if _sent_chunkings(experiment) else set()
    if stored is None and stage.name not in asking:
        return None
    product = stage.compute_one(pipeline, key)
    if not isinstance(product, TableProduct):
        raise TypeError(f"{key} is no table")
    product = checked(stage, product)
    path = pipeline.store.path(key.asset, recipe.fingerprint)
    # Blocks are read from a file, and this table has none.
    manifest = replace(table_manifest(stage, product, recipe), blocks=())
    pipeline.assume(key, _TableInMemory(path, manifest, content=product.table))
    if stored is None or stage.schema is None or stage.name not in SOURCES:
        return []
    return row_changes(stage.name, stored.table(), product.table, stage.schema.key)


class _Planner:
    """Goes through the partitions in the order of the graph."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._experiment = pipeline.experiment
        self._stored = _StoredArtifacts(pipeline.store, pipeline.root)
        self._sources: set[ArtifactKey] = set()
        self._pending_ancestors: dict[ArtifactKey, bool] = {}
        self._objects: dict[ArtifactKey, int] = {}
        self._first: dict[Hashable, ArtifactKey] = {}
        self.steps: dict[ArtifactKey, Step] = {}

    def add(self, key: ArtifactKey) -> None:
        """Decide on one partition; its inputs were decided on before."""
        stage = STAGES[key.asset]
        inputs = stage.inputs(self._experiment, key)
        pending = [item for item in inputs if item.is_read and self._is_pending(item)]
        # An optional input that is still to come would make what is current now another one.
        current = self._pipeline.current(key) if not pending else None
        if current is not None:
            same = self._same(key, current.manifest.fingerprint, ())
            service = asked_by(self._experiment, key)
            self.steps[key] = Step(key, REUSE, same_as=same)
            if service is not None and service[1].revision == ALWAYS:
                work = stage.expected_work(self._pipeline, key)
                self.steps[key] = Step(key, COMPUTE, (ANEW,), *work, same)
            return
        wanted = self._wanted(stage, key, inputs, pending)
        action, why = self._decide(stage, key, wanted, pending)
        is_sure = action == COMPUTE and not pending and not wanted.unknown
        if is_sure and _is_readable(self._experiment, key):
            before = self._stored.reference(key)
            rows = _read_source(self._pipeline, stage, key, wanted.recipe, before)
            if rows is not None:
                self._sources.add(key)
                if FILES in why:  # what became of rows says more
                    why = [*rows, *(reason for reason in why if reason != FILES)]
        work = stage.expected_work(self._pipeline, key)
        if key.asset in RERANKED_RUNS and has_one_ranking(self._experiment, key["retriever"]):
            # An earlier cell makes the ranking of which this one is cut.
            work = NO_WORK if self._has_new_cell(key) else work
        unclear = wanted.unknown - {item.role for item in pending}
        same = self._same(key, "" if unclear else wanted.recipe.fingerprint, pending)
        reasons = tuple(dict.fromkeys(why))
        self.steps[key] = Step(key, action, reasons, work.amounts, work.requests, same)

    def _has_new_cell(self, key: ArtifactKey) -> bool:
        """Whether an earlier cell of the same retriever is computed."""
        new = (other for other, step in self.steps.items() if step.action != REUSE)
        return any(o.asset == key.asset and o["retriever"] == key["retriever"] for o in new)

    def _same(
        self, key: ArtifactKey, fingerprint: str, pending: Sequence[Input]
    ) -> ArtifactKey | None:
        """Return the first partition that has the same artifact, whatever that will be.

        ``fingerprint`` is of what is known of its recipe; empty: it stands for itself.
        """
        # Filters and ages are one artifact for all retrievers, of which each reads a part.
        parts = own_steps(self._experiment, dict(key.partition).get("retriever", ""))
        inputs = {
            (item.role, parts.get(item.role), self._objects.get(item.key, item.key))
            for item in pending
        }
        name: Hashable = (key.asset, fingerprint, frozenset(inputs)) if fingerprint else key
        first = self._first.setdefault(name, key)
        self._objects[key] = self._objects.get(first, len(self._objects))
        return first if first != key else None

    def _is_pending(self, item: Input) -> bool:
        """Whether an input will be another one, or may, and it is not known which.

        An optional input that is not brought up to date may be so in the end, where something above
        it is computed again and comes out as it was.
        """
        if item.key in self.steps:
            return self._is_new(item.key)
        return item.optional and self._has_pending_ancestor(item.key)

    def _is_new(self, key: ArtifactKey) -> bool:
        return self.steps[key].action != REUSE and key not in self._sources

    def _has_pending_ancestor(self, key: ArtifactKey) -> bool:
        if key in self.steps:
            return self._is_new(key)
        if key not in self._pending_ancestors:
            inputs = STAGES[key.asset].inputs(self._experiment, key)
            read = (item.key for item in inputs if item.is_read)
            self._pending_ancestors[key] = any(map(self._has_pending_ancestor, read))
        return self._pending_ancestors[key]

    def _wanted(
        self, stage: Stage, key: ArtifactKey, inputs: Iterable[Input], pending: Iterable[Input]
    ) -> Wanted:
        pipeline = self._pipeline
        digests = dict(stage.input_digests(pipeline, key))
        maybe = {item.role for item in pending if item.key not in self.steps}
        late = {item.role for item in pending if item.optional or item.role in digests} - maybe
        unknown = late | {role for role, digest in digests.items() if digest is None}
        stored = {
            role: digest
            for role, digest in digests.items()
            if digest is not None and role not in late | maybe
        }
        recipe = Recipe(
            stage.name,
            pipeline.code_version(stage.code(self._experiment, key)),
            stage.config(pipeline, key),
            stored,
            stage.versions(pipeline, key),
        )
        roles = {item.role: item.key for item in inputs}
        follows = stage.config_of_inputs if unknown else frozenset[str]()
        return Wanted(recipe, frozenset(unknown), frozenset(maybe), roles, follows)

    def _decide(
        self, stage: Stage, key: ArtifactKey, wanted: Wanted, pending: list[Input]
    ) -> tuple[str, list[Reason]]:
        if pending:
            upstream = [self._upstream(item.key) for item in pending]
            if any(wanted.fits(past.manifest) for past in self._stored.artifacts(key.asset)):
                return CHECK, upstream
            why = self._reasons(key, wanted)
            return COMPUTE, why if why == [Reason(NOTHING_STORED)] else [*why, *upstream]
        if wanted.unknown:
            return COMPUTE, [Reason("a ranking that it needs is not stored")]
        if self._pipeline.store.find(key.asset, wanted.recipe.fingerprint) is None:
            return COMPUTE, self._reasons(key, wanted)
        if not isinstance(stage, RunsStage):
            return COMPUTE, [Reason("other inputs of what uses it are not stored")]
        # The first of a retriever's cells brings the ranking back that others read, and the other
        # cells are then complete.
        depth = max(self._experiment.candidate_depths(key["retriever"], int(key["top_k"])))
        why = [Reason(f"its ranking is needed to depth {depth}, but not stored that deep")]
        return CHECK if self._has_new_cell(key) else COMPUTE, why

    def _upstream(self, key: ArtifactKey) -> Reason:
        if key not in self.steps:
            return Reason(f"upstream {key} may be up to date again")
        is_certain = self.steps[key].action == COMPUTE
        return Reason(f"upstream {key} {'is' if is_certain else 'may be'} computed again")

    def _reasons(self, key: ArtifactKey, wanted: Wanted) -> list[Reason]:
        entry, artifact = self._stored.entries.get(key), self._stored.reference(key)
        if entry is None:
            return [Reason(NOTHING_STORED)]
        if artifact is None:
            is_there = (self._pipeline.store.root / entry.path).exists()
            return [Reason(DAMAGED if is_there else DELETED)]
        return list(wanted.differences(artifact.manifest))
