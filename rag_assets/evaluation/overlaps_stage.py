"""``overlaps[top_k]``: how alike the retrievers rank, for an experiment without labels.

The overlap of two lists is the share of the longer one that both hold: 1 exactly when both hold the
same units. A query for which one list alone is empty counts 0; where both are empty it is not
counted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.base import UNCHUNKED
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import OVERLAPS
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.sql_paths import scratch_connection

UNIT, DOCUMENT = "unit", "document"

_ITEMS = {
    UNIT: "SELECT query_id, unit_id AS item, true AS is_there FROM {run}",
    DOCUMENT: "SELECT DISTINCT query_id, document_id AS item, true AS is_there FROM {run}",
}
_SHARES = """
    SELECT count(*) FILTER (a.is_there AND b.is_there)
           / greatest(count(a.is_there), count(b.is_there)) AS share
    FROM ({a}) a FULL JOIN ({b}) b USING (query_id, item) GROUP BY query_id
"""


class Overlaps(Stage):
    """How alike the retrievers rank, two by two.

    It exists only without labels: with them the metrics answer the question that it can only
    hint at, and an experiment that has labels pays nothing for it. One retriever has no pair.
    """

    name = "overlaps"
    dimensions: ClassVar[tuple[str, ...]] = ("top_k",)
    schema = OVERLAPS
    row = "Two retrievers at one top_k: the share of common units."
    group = "metrics"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "duckdb"})
    packages: ClassVar[tuple[str, ...]] = ("duckdb",)

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        if experiment.has_qrels or len(experiment.retrievers) < 2:
            return []
        return [overlaps_key(top_k) for top_k in experiment.top_k]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input(f"run_of_{name}", run_key(experiment, name, key["top_k"]), optional=True)
            for name in experiment.retrievers
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return {"pairs": [list(pair) for pair in _pairs(context.experiment)]}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        runs, failed = dict[str, pa.Table](), dict[str, Collection[str]]()
        for name in experiment.retrievers:
            artifact = context.current(run_key(experiment, name, key["top_k"]))
            if artifact is not None:
                runs[name], failed[name] = artifact.table(), artifact.manifest.failures
        present = [p for p in _pairs(experiment) if p.first in runs and p.second in runs]
        return TableProduct(overlaps(runs, present, failed))


def _pairs(experiment: Experiment) -> list[Pair]:
    chunkings = dict[str, Sequence[str]]()
    for name in experiment.retrievers:
        # A search with chunks of its own has no units in common with any other.
        located = (f"{UNCHUNKED}:{each}" for each in experiment.located_of(name))
        chunkings[name] = (*experiment.chunkings_of(name), *located)
    if experiment.judge != "evidence":
        # Documents, and given chunks, are the same units whatever is searched.
        chunkings = dict.fromkeys(chunkings, ())
    return pairs(chunkings)


def overlaps_key(top_k: int | str) -> ArtifactKey:
    """Return the overlaps at one cut-off."""
    return ArtifactKey.of("overlaps", top_k=top_k)


class Pair(NamedTuple):
    """Two retrievers, and by what their runs are compared: ``unit`` or ``document``."""

    first: str
    second: str
    compared: str


def pairs(chunkings: Mapping[str, Sequence[str]]) -> list[Pair]:
    """Return every pair of retrievers, in their order.

    Chunks of different chunkings have nothing in common, so their runs are compared by documents.
    """
    return [
        Pair(a, b, UNIT if set(chunkings[a]) == set(chunkings[b]) else DOCUMENT)
        for a, b in combinations(chunkings, 2)
    ]


def overlaps(
    runs: Mapping[str, pa.Table],
    pairs: Sequence[Pair],
    failed: Mapping[str, Collection[str]] = {},
) -> pa.Table:
    """Compare runs that are cut at the same top_k, a row a pair.

    A pair is compared on the queries on which neither retriever failed.
    """
    rows: list[dict[str, object]] = []
    for first, second, compared in pairs:
        left_out = pa.array({*failed.get(first, ()), *failed.get(second, ())}, pa.string())
        with scratch_connection() as connection:
            for name, retriever in (("run_a", first), ("run_b", second)):
                run = runs[retriever].select(["query_id", "unit_id", "document_id"])
                run = run.filter(pc.invert(pc.is_in(run["query_id"], left_out)))
                connection.register(name, run)
            a, b = (_ITEMS[compared].format(run=run) for run in ("run_a", "run_b"))
            shares = [row[0] for row in connection.sql(_SHARES.format(a=a, b=b)).fetchall()]
        overlap = math.fsum(shares) / len(shares) if shares else None
        names = {"retriever_a": first, "retriever_b": second, "compared": compared}
        rows.append({**names, "n_queries": len(shares), "overlap": overlap})
    return OVERLAPS.from_rows(rows)
