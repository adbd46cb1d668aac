"""What fused and reranked runs share: they read the stored rankings of other retrievers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.engine.latency_sample import LATENCY, kept_part, without
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage_context import Part, Ranking, StageContext
from rag_assets.evaluation.ties import BELOW
from rag_assets.experiment.experiment import Experiment
from rag_assets.query_sets.stage import writing_parts
from rag_assets.retrieval.base import BaseRetriever
from rag_assets.retrieval.derived import DerivedRetriever
from rag_assets.retrieval.runs_stage import RunsStage, run_key
from rag_assets.store.artifacts import ArtifactKey


class DerivedRuns(RunsStage):
    """One partition a derived retriever and top_k; nothing is searched again."""

    def __init__(self, families: Mapping[str, RunsStage]) -> None:
        """Know the stages that rank the inputs, by family."""
        self._families = families

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        """Return the inputs' cells at the same top_k; what is read are their rankings."""
        names = experiment.inputs(key["retriever"])
        return [
            Input(f"input_{number}", run_key(experiment, name, key["top_k"]))
            for number, name in enumerate(names)
        ]

    def ranking_config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        """Return the retriever's options, with the number of candidates of this cell."""
        experiment, retriever = context.experiment, key["retriever"]
        chosen = dict(experiment.retrievers[retriever].described())
        if chosen["candidates"] == "top_k":
            chosen["candidates"] = int(key["top_k"])
        return {**chosen, "judge": experiment.judge}

    def input_digests(
        self, context: StageContext, key: ArtifactKey
    ) -> Iterator[tuple[str, str | None]]:
        """Yield the digests of the inputs' rankings at the depth that is read, then of the rest."""
        experiment, top_k = context.experiment, int(key["top_k"])
        names = experiment.inputs(key["retriever"])
        for number, name in enumerate(names):
            candidates = self.candidates(experiment, key["retriever"], top_k)
            stage = self._families[experiment.family(name)]
            digest = context.rankings.digest(stage, name, top_k, candidates)
            there = context.current(run_key(experiment, name, top_k)) is not None
            yield f"input_{number}", digest if there else None
        for item in self.inputs(experiment, key)[len(names) :]:
            artifact = context.current(item.key)
            yield item.role, artifact.manifest.digests[item.projection] if artifact else None

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        """Return the versions of what computes the retriever."""
        return context.versions_of(key["retriever"])

    def depth(self, experiment: Experiment, retriever: str, top_k: int) -> int:
        """Return the depth of the ranking: over lists cut at top_k it is that of its cell."""
        if DerivedRetriever.named(retriever, experiment.retrievers).candidates == "top_k":
            return top_k + BELOW
        return super().depth(experiment, retriever, top_k)

    def candidates(self, experiment: Experiment, retriever: str, top_k: int) -> int:
        """Return how many ranks of each input are read for a cell."""
        candidates = DerivedRetriever.named(retriever, experiment.retrievers).candidates
        return candidates if isinstance(candidates, int) else top_k

    def parts_before(
        self, context: StageContext, retriever: str, top_k: int, *, cached: bool
    ) -> list[Part] | None:
        """Return what the inputs take, one after the other; a shared query set is written once."""
        found: list[Part] = []
        any_cached, written = False, set[str]()
        for name in context.experiment.inputs(retriever):
            stage = self._families[context.experiment.family(name)]
            candidates = self.candidates(context.experiment, retriever, top_k)
            ranking = context.rankings.measured(stage, name, top_k, candidates)
            if ranking is None:
                return None
            part = None
            if cached:
                part = kept_part(context, LATENCY, ranking, cached=True)
                any_cached |= part is not None
            part = part or kept_part(context, LATENCY, ranking)
            if part is None:
                return None
            if isinstance(context.experiment.retrievers[name], BaseRetriever):
                query_set = context.experiment.query_set_of(name)
                if query_set in written:
                    part = without(part, writing_parts(context, name) or [])
                written.add(query_set)
            found.append(part)
        return found if any_cached or not cached else None

    def rankings_by_query(
        self, context: StageContext, retriever: str, top_k: int, query_ids: Sequence[str]
    ) -> dict[str, list[pa.Table]]:
        """Return query -> its rows in the ranking of each input."""
        wanted = pa.array(query_ids, pa.string())
        tables = [one.table for one in self.input_rankings(context, retriever, top_k)]
        few = [t.filter(pc.is_in(t.column("query_id"), value_set=wanted)) for t in tables]
        return {
            one: [table.filter(pc.equal(table.column("query_id"), one)) for table in few]
            for one in query_ids
        }

    def input_rankings(self, context: StageContext, retriever: str, top_k: int) -> list[Ranking]:
        """Return the rankings of the inputs, cut at the candidates."""
        experiment = context.experiment
        candidates = self.candidates(experiment, retriever, top_k)
        return [
            context.rankings.table(self._families[experiment.family(name)], name, top_k, candidates)
            for name in experiment.inputs(retriever)
        ]
