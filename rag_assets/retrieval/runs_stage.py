"""What runs share: a cell is cut from a stored ranking, which fusions and rerankers read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rag_assets.chunking.stage import chunks_key
from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.latency_sample import LATENCY, kept_part, without
from rag_assets.engine.recipe import Input, Recipe
from rag_assets.engine.stage import Digests, Stage, TableProduct, retriever_code
from rag_assets.engine.stage_context import Need, Part, Ranked, Ranker, Ranking, StageContext
from rag_assets.evaluation.ties import BELOW, TIES, tied_at_cut
from rag_assets.evaluation.units import cut
from rag_assets.experiment.experiment import Experiment
from rag_assets.query_sets.stage import writing_parts
from rag_assets.retrieval.base import RERANKED, BaseRetriever, DerivedRetriever
from rag_assets.schemas import RUNS
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import fingerprint


class FamilyStage(Stage):
    """One partition a retriever of one ``family``."""

    family: ClassVar[str]
    dimensions: ClassVar[tuple[str, ...]] = ("retriever",)

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [ArtifactKey.of(self.name, retriever=n) for n in experiment.of_family(self.family)]


class RetrieverStage(FamilyStage):
    """A stage whose code and versions are the retriever's.

    ``kinds_by`` are attributes of a retriever that say what computes it, for its ``kinds``.
    """

    kinds_by: ClassVar[tuple[str, ...]] = ()

    def kinds_of(self, experiment: Experiment) -> frozenset[str]:
        configs = [experiment.retrievers[name] for name in experiment.of_family(self.family)]
        kinds = (getattr(config, name) for config in configs for name in self.kinds_by)
        return self.kinds | {kind for kind in kinds if kind is not None}

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return retriever_code(experiment, key)

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return context.versions_of(key["retriever"])


class RunsStage(RetrieverStage, Ranker):
    """Runs of one family of retrievers, one partition a retriever and top_k.

    The recipe of a cell is that of the ranking, plus the cut. The judged unit is part of it, since
    chunks collapse to documents before they are counted.
    """

    ends_known: ClassVar[bool] = True
    """Whether a ranking that is shorter than was asked for has nothing below its end."""

    dimensions: ClassVar[tuple[str, ...]] = ("retriever", "top_k")
    schema = RUNS
    row = "One retrieved unit of one query: its rank and score."
    group = "runs"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [
            run_key(experiment, retriever, top_k)
            for retriever in experiment.of_family(self.family)
            for top_k in experiment.top_k
        ]

    def own_code(self) -> list[Root]:
        return [*super().own_code(), root_of(type(self), "rank")]

    @abstractmethod
    def rank(self, context: StageContext, need: Need) -> Ranked:
        """Compute the retriever's ranking to the depth."""

    def ranking_config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        """Return what of the configuration determines the ranking."""
        return {"judge": context.experiment.judge}

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {**self.ranking_config(context, key), "top_k": int(key["top_k"])}

    def ranking_recipe(self, context: StageContext, retriever: str, top_k: int) -> Recipe | None:
        """Return what determines the ranking, whatever the cut."""
        key = run_key(context.experiment, retriever, top_k)
        recipe = self.recipe(context, key)
        if recipe is None:
            return None
        config = self.ranking_config(context, key)
        return Recipe(recipe.stage, recipe.code_version, config, recipe.inputs, recipe.versions)

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        retriever, top_k = key["retriever"], int(key["top_k"])
        need = Need(retriever, top_k, self.depth(context.experiment, retriever, top_k))
        ranking = context.rankings.table(self, need)
        ties = tied_at_cut(ranking.table, top_k, ends_known=self.ends_known)
        facts = {**ranking.facts, "ranking": ranking.fingerprint, TIES: ties}
        cell = self.recipe(context, key)
        if cell is not None:
            context.rankings.time_cell(self, cell, retriever, top_k)
        return TableProduct(cut(ranking.table, top_k), facts, ranking.failures)

    def depth(self, experiment: Experiment, retriever: str, top_k: int) -> int:
        """Return how deep the ranking is searched: for all consumers at once, ties included."""
        return max(experiment.depth(retriever), max(experiment.top_k) + BELOW)

    def is_complete(self, context: StageContext, key: ArtifactKey) -> bool:
        """Return whether the ranking is stored as deep as fusions read it.

        A fusion that is added later may need more candidates than were ever searched for.
        """
        retriever, top_k = key["retriever"], int(key["top_k"])
        depths = context.experiment.candidate_depths(retriever, top_k)
        if not depths:
            return True
        return context.rankings.stored(self, Need(retriever, top_k, max(depths))) is not None

    def data_version(self, context: StageContext, key: ArtifactKey, digest: str) -> str:
        """Return a version that also tells of what derived retrievers read besides the cut.

        A fused cell at top_k 10 may depend on the hundredth candidate, and a reranked one depends
        on the texts: its parents must look changed whenever what it reads has changed.
        """
        retriever, top_k = key["retriever"], int(key["top_k"])
        experiment = context.experiment
        depths = sorted(experiment.candidate_depths(retriever, top_k))
        needs = [Need(retriever, top_k, depth) for depth in depths]
        read = [context.rankings.digest(self, need) for need in needs]
        consumers = (c for c in experiment.retrievers.values() if retriever in c.input_names)
        if any(config.level == RERANKED for config in consumers):
            tables = map(context.current, chunk_keys(experiment, retriever))
            read += [table.manifest.digests["indexed"] for table in tables if table is not None]
        return fingerprint([digest, *read]) if read else digest


def run_key(experiment: Experiment, retriever: str, top_k: int | str) -> ArtifactKey:
    """Return the cell of a retriever at a cut-off."""
    asset = f"{experiment.family(retriever)}_runs"
    return ArtifactKey.of(asset, retriever=retriever, top_k=top_k)


def hits_key(retriever: str) -> ArtifactKey:
    """Return the located hits of a search, with its own chunks among them."""
    return ArtifactKey.of("external_hits", retriever=retriever)


def chunk_keys(experiment: Experiment, retriever: str) -> list[ArtifactKey]:
    """Return the tables of all chunks that can be in a retriever's runs, see ``chunks_of``."""
    chunkings = [chunks_key(name) for name in experiment.chunkings_of(retriever)]
    return chunkings + [hits_key(name) for name in experiment.located_of(retriever)]


def has_one_ranking(experiment: Experiment, retriever: str) -> bool:
    """Return whether all cells of a retriever are cut from one ranking, whatever their cut-off."""
    config = experiment.retrievers[retriever]
    return getattr(config, "candidates", None) != "top_k" and all(
        has_one_ranking(experiment, name) for name in experiment.inputs(retriever)
    )


def depth_at_most(context: StageContext, retriever: str, depth: int) -> int:
    """Return a depth, at most the number of chunks that a retriever can return where it is known.

    What a search with units of its own returns is known when it was asked.
    """
    experiment = context.experiment
    names = () if experiment.located_of(retriever) else experiment.chunkings_of(retriever)
    tables = [context.current(chunks_key(name)) for name in names]
    n_chunks = sum(table.manifest.rows for table in tables if table is not None)
    return min(depth, n_chunks) if tables and None not in tables else depth


class RankingsStage(Stage):
    """A stage that reads the rankings of what a derived retriever combines, to a depth.

    What it reads of an input is its ranking, which may lie below the cut of the input's cell.
    """

    def __init__(self, families: Mapping[str, RunsStage]) -> None:
        """Know the stages that rank the inputs, by family."""
        self._families = families

    @abstractmethod
    def candidates(self, experiment: Experiment, retriever: str, top_k: int) -> int:
        """Return how many ranks of each input are read for a cell."""

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        names = experiment.inputs(key["retriever"])
        return [
            Input(f"input_{number}", run_key(experiment, name, key["top_k"]))
            for number, name in enumerate(names)
        ]

    def input_digests(self, context: StageContext, key: ArtifactKey) -> Digests:
        experiment, top_k = context.experiment, int(key["top_k"])
        reads = list(self.reads(experiment, key["retriever"], top_k))
        for number, (stage, need) in enumerate(reads):
            digest = context.rankings.digest(stage, need)
            there = context.current(run_key(experiment, need.retriever, top_k)) is not None
            yield f"input_{number}", digest if there else None
        for item in self.inputs(experiment, key)[len(reads) :]:
            artifact = context.current(item.key)
            if item.is_read:
                yield item.role, artifact.manifest.digests[item.projection] if artifact else None

    def reads(
        self, experiment: Experiment, retriever: str, top_k: int
    ) -> Iterator[tuple[RunsStage, Need]]:
        """Yield for each input the stage that ranks it, and how deep it is read."""
        candidates = self.candidates(experiment, retriever, top_k)
        for name in experiment.inputs(retriever):
            yield self._families[experiment.family(name)], Need(name, top_k, candidates)

    def input_rankings(self, context: StageContext, retriever: str, top_k: int) -> list[Ranking]:
        """Return the rankings of the inputs, cut at the candidates."""
        reads = self.reads(context.experiment, retriever, top_k)
        return [context.rankings.table(stage, need) for stage, need in reads]


class DerivedRuns(RankingsStage, RunsStage):
    """One partition a derived retriever and top_k; nothing is searched again."""

    def ranking_config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment, retriever = context.experiment, key["retriever"]
        chosen = dict(experiment.retrievers[retriever].described())
        if chosen["candidates"] == "top_k":
            chosen["candidates"] = int(key["top_k"])
        return {**chosen, "judge": experiment.judge}

    def depth(self, experiment: Experiment, retriever: str, top_k: int) -> int:
        if DerivedRetriever.lookup(retriever, experiment.retrievers).candidates == "top_k":
            return top_k + BELOW
        return super().depth(experiment, retriever, top_k)

    def candidates(self, experiment: Experiment, retriever: str, top_k: int) -> int:
        candidates = DerivedRetriever.lookup(retriever, experiment.retrievers).candidates
        return candidates if isinstance(candidates, int) else top_k

    def parts_before(self, context: StageContext, retriever: str, top_k: int) -> list[Part] | None:
        parts, written = list[Part](), set[str]()
        for stage, need in self.reads(context.experiment, retriever, top_k):
            name, ranking = need.retriever, context.rankings.stored(stage, need)
            part = kept_part(context, LATENCY, ranking) if ranking is not None else None
            if part is None:
                return None
            if isinstance(context.experiment.retrievers[name], BaseRetriever):
                query_set = context.experiment.query_set_of(name)
                if query_set in written:
                    part = without(part, writing_parts(context, name) or [])
                written.add(query_set)
            parts.append(part)
        return parts
