"""Stored rankings: the deep result of a retriever, from which its cells are cut.

A retriever searches once, as deep as its deepest consumer needs. The depth is part of a ranking's
fingerprint; a shallower need is served from a deeper ranking, a deeper one makes a new ranking.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from rag_assets.engine.latency_sample import measure_cell, measure_latency
from rag_assets.engine.recipe import UNANSWERED, Recipe, manifest_of
from rag_assets.engine.stage_context import Need, Ranker, Ranking, StageContext
from rag_assets.evaluation.units import cut
from rag_assets.schemas import RUNS
from rag_assets.store.artifacts import DEPTH_MARK, Artifact, ArtifactKey
from rag_assets.store.canonical import fingerprint, table_digest

ASSET = "rankings"

_OF_RANKING = ("depth", UNANSWERED)
"""Facts of a ranking that are none of the runs that are cut from it."""


def result_digest(table: pa.Table, failures: Mapping[str, str]) -> str:
    """Return the digest of a ranking; which queries failed, and why, is part of its content."""
    digest = table_digest(table, RUNS.key)
    return fingerprint([digest, failures]) if failures else digest


def at_depth(recipe: Recipe, depth: int) -> str:
    """Return the fingerprint of a ranking to a depth."""
    return f"{recipe.fingerprint}{DEPTH_MARK}{depth}"


class Rankings:
    """The stored rankings of one experiment."""

    def __init__(self, context: StageContext) -> None:
        """Serve the retrievers of ``context.experiment``."""
        self._context = context
        self._tables: dict[str, pa.Table] = {}

    def table(self, ranker: Ranker, need: Need) -> Ranking:
        """Return the ranking cut at the depth: stored, or computed now and stored."""
        recipe = ranker.ranking_recipe(self._context, need.retriever, need.top_k)
        if recipe is None:
            raise LookupError(f"the inputs of {need.retriever} are not complete")
        with self._context.store.lock(ASSET, [recipe.fingerprint]):
            ranking = self._find(recipe, need.depth) or self._compute(ranker, need, recipe)
        manifest = ranking.manifest
        facts = {name: fact for name, fact in manifest.facts.items() if name not in _OF_RANKING}
        table = cut(self._read(ranking), need.depth)
        return Ranking(table, manifest.fingerprint, manifest.failures, facts)

    def stored(self, ranker: Ranker, need: Need) -> str | None:
        """Return the fingerprint of what is stored at the depth or deeper; None: nothing is."""
        ranking = self._stored(ranker, need)
        return ranking.manifest.fingerprint if ranking else None

    def time_cell(self, ranker: Ranker, cell: Recipe, retriever: str, top_k: int) -> None:
        """Time queries at the cut-off of a cell whose ranking is stored."""
        need = Need(retriever, top_k, top_k)
        ranking = self.stored(ranker, need)
        if ranking is not None:
            measure_cell(self._context, ranker, need, cell.fingerprint, ranking)

    def digest(self, ranker: Ranker, need: Need) -> str | None:
        """Return the content digest of the ranking cut at the depth; None: it is not stored."""
        ranking = self._stored(ranker, need)
        if ranking is None:
            return None
        stated = ranking.manifest.digests.get(str(need.depth))
        failures = ranking.manifest.failures
        return stated or result_digest(cut(self._read(ranking), need.depth), failures)

    def _stored(self, ranker: Ranker, need: Need) -> Artifact | None:
        recipe = ranker.ranking_recipe(self._context, need.retriever, need.top_k)
        return self._find(recipe, need.depth) if recipe else None

    def _find(self, recipe: Recipe, depth: int) -> Artifact | None:
        store = self._context.store
        ranking = store.find(ASSET, at_depth(recipe, depth))
        for stored in sorted(store.depths(ASSET, recipe.fingerprint)) if ranking is None else ():
            if ranking is None and stored > depth:
                ranking = store.find(ASSET, at_depth(recipe, stored))
        return ranking

    def _compute(self, ranker: Ranker, need: Need, recipe: Recipe) -> Artifact:
        context, retriever = self._context, need.retriever
        n_queries = len(context.artifact(ArtifactKey.of("queries")).table())
        name = at_depth(recipe, need.depth)
        started = time.perf_counter()
        ranked = ranker.rank(context, need)
        seconds = time.perf_counter() - started
        context.measurements.add(
            "search", name, seconds, n_queries, asset=ASSET, retriever=retriever
        )
        table, failures = RUNS.check(ranked.table), ranked.failures
        digests = {"all": result_digest(table, failures)}
        for consumed in context.experiment.candidate_depths(retriever):
            digests[str(consumed)] = result_digest(cut(table, consumed), failures)
        facts = {**ranked.facts, "depth": need.depth}
        manifest = replace(
            manifest_of(recipe, digests, table.num_rows, facts, failures),
            asset=ASSET,
            fingerprint=name,
        )
        artifact = context.store.write_table(table, manifest)
        measure_latency(context, ranker, need, name, ranked.served)
        return artifact

    def _read(self, artifact: Artifact) -> pa.Table:
        """Read a ranking once: all cells of a retriever are cut from it in one process."""
        memory = artifact.manifest.fingerprint
        if memory not in self._tables:
            self._tables = {memory: artifact.table()}
        return self._tables[memory]
