"""``fused_runs``: fusions of the stored rankings of other retrievers; ``tuning``: their weights.

Weights are chosen on the dev split alone, from a fixed set of vectors. Only the ratios of weights
matter to a fusion that sums, so vectors lie on the simplex: no weight is negative, and they sum to
1. All vectors whose weights are multiples of ``1 / (grid - 1)`` are tried. Equal weights are always
tried, and first, so that what is chosen is at least as good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from math import comb
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.code_versions.closure import Root
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Digests, DuckDBStage, TableProduct, retriever_code
from rag_assets.engine.stage_context import Need, Ranked, StageContext
from rag_assets.engine.stage_context import Search as SearchOne
from rag_assets.errors import DataError, UsageError
from rag_assets.evaluation.leaderboard import mean
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.relevant_units_stage import dev_relevant_units_key, dev_weights
from rag_assets.experiment.experiment import Experiment
from rag_assets.models.token_counts import in_batches
from rag_assets.options import MAX_DEPTH
from rag_assets.retrieval.fusion.base import FusedRetriever
from rag_assets.retrieval.runs_stage import DerivedRuns, RankingsStage
from rag_assets.retrieval.search_steps_stage import factors_of, step_inputs, with_own_steps
from rag_assets.retrieval.unit_ranking import time_weighted_ranking
from rag_assets.schemas import TUNING
from rag_assets.store.artifacts import Artifact, ArtifactKey
from rag_assets.store.canonical import fingerprint

Weights = tuple[float, ...]

ValuesOf = Callable[[Sequence[Weights]], Sequence[float]]
"""Gives each weight vector its value; higher is better."""

SAME = 1e-12
"""Two values nearer than this are one; the last bits of a mean carry no meaning."""

MAX_VECTORS = 10_000


class Tried(NamedTuple):
    """A weight vector and its value."""

    weights: Weights
    value: float


class Search(NamedTuple):
    """All vectors that were tried, in order, and the number of the one that is chosen."""

    tried: list[Tried]
    chosen: int


def search_weights(n_inputs: int, grid: int, values_of: ValuesOf) -> Search:
    """Return the best weights.

    Of equal values the one nearest to equal weights wins (Euclidean distance), then the first.
    Vectors are exact fractions until they are valued, so the result is the same everywhere.

    Args:
        n_inputs: how many weights; 2 or more.
        grid: how many values a weight takes from 0 to 1; 2 or more.
        values_of: called with all vectors.

    Raises:
        UsageError: they are more than ``MAX_VECTORS``.
    """
    steps, equal = grid - 1, (Fraction(1, n_inputs),) * n_inputs
    n_vectors = comb(steps + n_inputs - 1, n_inputs - 1)
    if n_vectors > MAX_VECTORS:
        raise UsageError(
            f"tune: {n_inputs} inputs on a grid of {grid} are {n_vectors:,} weight vectors, at "
            f"most {MAX_VECTORS:,} are allowed; choose a smaller grid"
        )
    vectors = [equal]
    # Stars and bars: n - 1 bars among steps + n - 1 places leave the parts between them.
    for bars in combinations(range(steps + n_inputs - 1), n_inputs - 1):
        edges = pairwise((-1, *bars, steps + n_inputs - 1))
        vectors.append(tuple(Fraction(end - start - 1, steps) for start, end in edges))
    vectors = list(dict.fromkeys(vectors))
    weights = [tuple(map(float, vector)) for vector in vectors]
    tried = [Tried(*pair) for pair in zip(weights, values_of(weights), strict=True)]
    highest = max(trial.value for trial in tried)
    near = [number for number, trial in enumerate(tried) if trial.value > highest - SAME]

    # The squared distance to equal weights is this sum, up to a constant.
    return Search(tried, min(near, key=lambda number: sum(w * w for w in vectors[number])))


AT_ONCE = 16
"""Fused rankings that are in memory together."""

CHOSEN = "weights"
"""Fact of a tuning artifact: the weights that were chosen."""


class Tuning(RankingsStage, DuckDBStage):
    """The fusion weights that were tried on the dev split, and the value of each.

    A partition set without ``top_k`` could not be mapped exactly from those of the runs. What is
    read of the inputs are their rankings, as deep as the metric or the candidates need.
    """

    name = "tuning"
    dimensions: ClassVar[tuple[str, ...]] = ("retriever", "top_k")
    schema = TUNING
    row = "One weight vector that was tried for this fusion, and its value on the dev split."
    group = "runs"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [tuning_key(experiment, name) for name in experiment.tuned_fusions]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return retriever_code(experiment, key)

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            *super().inputs(experiment, key),
            Input("relevant_units", dev_relevant_units_key(key["retriever"])),
            Input("query_facts", QUERY_FACTS_KEY, "means"),
        ]

    def candidates(self, experiment: Experiment, retriever: str, top_k: int) -> int:
        return experiment.tuning_depth(retriever)

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment, retriever = context.experiment, key["retriever"]
        fusion = FusedRetriever.lookup(retriever, experiment.retrievers)
        return {
            "fusion": fusion.described(exclude=frozenset({"weights", "candidates"})),
            "depth": experiment.tuning_depth(retriever),
            "metric": str(experiment.tuning_metric(retriever)),
            "grid": fusion.tune.grid if fusion.tune else None,
        }

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        return {**context.versions_of(key["retriever"]), **super().versions(context, key)}

    def data_version(self, context: StageContext, key: ArtifactKey, digest: str) -> str:
        """Return a version that is another one only where other weights were chosen."""
        return fingerprint(chosen_weights(context.artifact(key)))

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment, retriever = context.experiment, key["retriever"]
        tune = FusedRetriever.lookup(retriever, experiment.retrievers).tune
        if tune is None:
            raise TypeError(f"{retriever} has no weights to choose")
        metric, failed = str(experiment.tuning_metric(retriever)), set[str]()
        rankings = self.input_rankings(context, retriever, int(key["top_k"]))
        for ranking in rankings:
            failed |= ranking.failures.keys()
        weights = {q: w for q, w in dev_weights(context).items() if q not in failed}
        wanted = pa.array(list(weights), pa.string())
        tables = [r.table.filter(pc.is_in(r.table["query_id"], wanted)) for r in rankings]
        trials = _Trials(context, retriever, tables, weights)
        tried, chosen = search_weights(len(tables), tune.grid, trials.values)
        rows: list[dict[str, object]] = [
            {
                "number": number,
                "weights": list(trial.weights),
                "metric": metric,
                "value": trial.value,
                "chosen": number == chosen,
            }
            for number, trial in enumerate(tried)
        ]
        facts = {
            CHOSEN: list(tried[chosen].weights),
            "metric": metric,
            "value": tried[chosen].value,
            "value_of_equal_weights": tried[0].value,
            "n_dev": trials.n_queries,
        }
        return TableProduct(TUNING.from_rows(rows), facts)


@dataclass
class _Trials:
    """Fuses with weights and takes the mean of the metric over dev."""

    context: StageContext
    retriever: str
    rankings: Sequence[pa.Table]
    weights: Mapping[str, float]
    n_queries: int = 0

    def values(self, vectors: Sequence[Weights]) -> list[float]:
        """Return the value of each weight vector."""
        values: list[float] = []
        with self.context.progress(f"tune {self.retriever}", len(vectors)) as advance:
            for batch in in_batches(vectors, AT_ONCE):
                values += self._batch(batch)
                advance(len(values))
        return values

    def _batch(self, vectors: Sequence[Weights]) -> list[float]:
        experiment, retriever = self.context.experiment, self.retriever
        fusion = FusedRetriever.lookup(retriever, experiment.retrievers)
        metric, depth = experiment.tuning_metric(retriever), experiment.tuning_depth(retriever)
        cutoff = metric.cutoff or depth
        runs = {
            str(number): fusion.weighted(vector).fuse(self.rankings, candidates=depth, depth=cutoff)
            for number, vector in enumerate(vectors)
        }
        queries = pa.table({"query_id": pa.array(list(self.weights), pa.string())})
        cells = [(name, cutoff) for name in runs]
        labels = {"dev": self.context.artifact(dev_relevant_units_key(retriever)).table()}
        judged_by = dict.fromkeys(runs, "dev")
        tables = query_metrics(runs, labels, judged_by, queries, cells, [metric])
        return [self._mean(tables[cell], metric.column) for cell in cells]

    def _mean(self, table: pa.Table, column: str) -> float:
        values = table.column(column).to_pylist()
        weights = [self.weights[query_id] for query_id in table.column("query_id").to_pylist()]
        self.n_queries = sum(value is not None for value in values)
        value = mean(values, weights)
        if value is None:
            problem = "no query of the dev split has a relevant judgment, by which the weights of"
            source, key = self.context.experiment.source, f"retrievers.{self.retriever}"
            raise DataError(f"{problem} {self.retriever} could be chosen", file=source, key=key)
        return value


def chosen_weights(artifact: Artifact) -> tuple[float, ...]:
    """Return the weights that a tuning artifact chose."""
    return tuple(map(float, artifact.manifest.facts[CHOSEN]))


def tuning_key(experiment: Experiment, retriever: str) -> ArtifactKey:
    """Return the tuning of one fusion, at the cut-off of the primary metric."""
    top_k = experiment.primary.cutoff or max(experiment.top_k)
    return ArtifactKey.of("tuning", retriever=retriever, top_k=top_k)


class FusedRuns(DerivedRuns):
    """Runs that combine the rankings of several retrievers."""

    name = "fused_runs"
    family = "fused"

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        """Return the inputs' cells, the tuning where weights are chosen, and ages of documents."""
        retriever = key["retriever"]
        tuned = [tuning_key(experiment, retriever)] if experiment.tune(retriever) else []
        return [
            *super().inputs(experiment, key),
            *[Input("tuning", key_read) for key_read in tuned],
            *step_inputs(experiment, retriever),
        ]

    def input_digests(self, context: StageContext, key: ArtifactKey) -> Digests:
        """Yield the rankings' digests; of a tuning only what it chose counts."""
        chosen = _chosen(context, key["retriever"])
        digests = with_own_steps(context, key["retriever"], super().input_digests(context, key))
        for role, digest in digests:
            yield role, fingerprint(chosen) if role == "tuning" and digest is not None else digest

    def rank(self, context: StageContext, need: Need) -> Ranked:
        retriever, top_k, depth = need
        rankings = self.input_rankings(context, retriever, top_k)
        candidates = self.candidates(context.experiment, retriever, top_k)
        tables = [ranking.table for ranking in rankings]
        failures = {q: why for ranking in rankings for q, why in ranking.failures.items()}
        return Ranked(_fusion(context, retriever, candidates, depth)(tables), failures)

    def searcher(self, context: StageContext, need: Need, query_ids: Sequence[str]) -> SearchOne:
        retriever, top_k, depth = need
        candidates = self.candidates(context.experiment, retriever, top_k)
        tables = [ranking.table for ranking in self.input_rankings(context, retriever, top_k)]
        read = {q: [t.filter(pc.equal(t["query_id"], q)) for t in tables] for q in query_ids}
        fused = _fusion(context, retriever, candidates, depth)
        return lambda query_id: fused(read[query_id])


class SecondFusedRuns(FusedRuns):
    """Runs of a fusion that reads a reranker."""

    name = "second_fused_runs"
    family = "second_fused"


def _fusion(
    context: StageContext, retriever: str, candidates: int, depth: int
) -> Callable[[Sequence[pa.Table]], pa.Table]:
    """Return what fuses rankings, by scores that fall with age where the retriever wants that."""
    config, factors = _config(context, retriever), factors_of(context, retriever)

    def fused(rankings: Sequence[pa.Table]) -> pa.Table:
        if factors is None:
            return config.fuse(rankings, candidates=candidates, depth=depth)
        complete = config.fuse(rankings, candidates=candidates, depth=MAX_DEPTH)
        return time_weighted_ranking(complete, factors, depth)

    return fused


def _config(context: StageContext, retriever: str) -> FusedRetriever:
    """Return the options of a fusion, with its chosen weights if they are tuned."""
    config = FusedRetriever.lookup(retriever, context.experiment.retrievers)
    weights = _chosen(context, retriever)
    return config if weights is None else config.weighted(weights)


def _chosen(context: StageContext, retriever: str) -> tuple[float, ...] | None:
    """Return the weights that were chosen; None: none are tuned, or not yet."""
    if context.experiment.tune(retriever) is None:
        return None
    artifact = context.current(tuning_key(context.experiment, retriever))
    return chosen_weights(artifact) if artifact else None
