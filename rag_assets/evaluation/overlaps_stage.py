"""``overlaps[top_k]``: how alike the retrievers rank, for an experiment without labels.

Per query, with s and l the lengths of the shorter and the longer list, X(d) the number of units
that the first d ranks of both share:

- ``overlap``: X(l) / l, so 1 exactly when both hold the same units.
- ``rbo``: extrapolated rank-biased overlap, RBO_ext, of Webber, Moffat and Zobel, ACM Transactions
  on Information Systems 28(4), 2010, equation 32::

      (1 - p) / p * ( sum over d = 1..l of X(d) / d * p^d
                    + sum over d = s+1..l of X(s) * (d - s) / (s * d) * p^d )
      + ( (X(l) - X(s)) / l + X(s) / s ) * p^l

  It is 1 for equal lists, 0 for disjoint ones. With p = 0.9 the first ten ranks hold 86 % of the
  weight.

A query for which one list alone is empty counts 0 in both; where both are empty it is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.engine.recipe import Input, failures_of
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.base import UNCHUNKED
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import OVERLAPS
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.sql_paths import scratch_connection

PERSISTENCE = 0.9
"""p of rank-biased overlap: the chance to look at one more rank."""

UNIT, DOCUMENT = "unit", "document"
Floats = npt.NDArray[np.float64]

_ITEMS = {
    UNIT: "SELECT query_id, unit_id AS item, rank FROM {run}",
    DOCUMENT: """
        SELECT query_id, document_id AS item,
               row_number() OVER (PARTITION BY query_id ORDER BY min(rank)) AS rank
        FROM {run} GROUP BY query_id, document_id
    """,
}


_MATCH = """
    WITH a AS ({a}), b AS ({b}), lengths AS (
        SELECT query_id, least(n_a, n_b) AS shorter, greatest(n_a, n_b) AS longer
        FROM (SELECT query_id, coalesce(n_a, 0) AS n_a, coalesce(n_b, 0) AS n_b
              FROM (SELECT query_id, count(*) AS n_a FROM a GROUP BY ALL)
              FULL JOIN (SELECT query_id, count(*) AS n_b FROM b GROUP BY ALL) USING (query_id))
    ), common AS (
        SELECT query_id, greatest(a.rank, b.rank) AS depth
        FROM a JOIN b USING (query_id, item)
    )
    SELECT query_id, shorter, longer, depth
    FROM lengths LEFT JOIN common USING (query_id) ORDER BY query_id, depth
"""


class Overlaps(Stage):
    """How alike the retrievers rank, two by two.

    It exists only without labels: with them the metrics answer the question that it can only
    hint at, and an experiment that has labels pays nothing for it. One retriever has no pair.
    """

    name = "overlaps"
    dimensions: ClassVar[tuple[str, ...]] = ("top_k",)
    schema = OVERLAPS
    row = "Two retrievers at one top_k: the share of common units, and rank-biased overlap."
    group = "metrics"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "duckdb"})
    packages: ClassVar[tuple[str, ...]] = ("duckdb", "numpy")

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
        return {"p": PERSISTENCE, "pairs": [list(pair) for pair in _pairs(context.experiment)]}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        runs, failed = dict[str, pa.Table](), dict[str, Collection[str]]()
        for name in experiment.retrievers:
            artifact = context.current(run_key(experiment, name, key["top_k"]))
            if artifact is not None:
                runs[name], failed[name] = artifact.table(), failures_of(artifact.manifest)
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
                run = runs[retriever].select(["query_id", "rank", "unit_id", "document_id"])
                run = run.filter(pc.invert(pc.is_in(run["query_id"], left_out)))
                connection.register(name, run)
            a, b = (_ITEMS[compared].format(run=run) for run in ("run_a", "run_b"))
            values = _per_query(connection.sql(_MATCH.format(a=a, b=b)).to_arrow_table())
        n = len(values["overlap"])
        means = {name: math.fsum(each) / n if n else None for name, each in values.items()}
        names = {"retriever_a": first, "retriever_b": second, "compared": compared}
        rows.append({**names, "n_queries": n, **means})
    return OVERLAPS.from_rows(rows)


def _per_query(matched: pa.Table) -> dict[str, Floats]:
    """Return the overlap and the RBO of every query, from the depths of its common units.

    A row is a unit that both lists hold, with the depth at which both do; a query without a common
    unit has one row, whose ``depth`` is null. A unit that is common from depth m on adds 1 to X(d)
    for all d >= m; with the running sums W(n) = sum of p^d / d and P(n) = sum of p^d it so adds
    W(l) - W(m - 1) to the first sum; the second is X(s) / s * (P(l) - P(s) - s * (W(l) - W(s))).
    """
    query = matched["query_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    n = int(query.max()) + 1 if query.size else 0
    shorter, longer = np.zeros((2, n), dtype=np.int64)
    shorter[query], longer[query] = (matched[name].to_numpy() for name in ("shorter", "longer"))
    depth = matched["depth"].fill_null(0).to_numpy().astype(np.int64)
    counts = depth > 0
    query, depth = query[counts], depth[counts]
    p = PERSISTENCE
    powers = p ** np.arange(int(longer.max(initial=0)) + 1)
    powers[0] = 0.0
    sum_p = np.cumsum(powers)
    sum_w = np.cumsum(powers / np.maximum(np.arange(powers.size), 1))
    x_long = np.bincount(query, minlength=n)
    x_short = np.bincount(query[depth <= shorter[query]], minlength=n)
    gained = np.bincount(query, weights=sum_w[longer[query]] - sum_w[depth - 1], minlength=n)
    safe = np.maximum(shorter, 1)
    behind = sum_p[longer] - sum_p[shorter] - shorter * (sum_w[longer] - sum_w[shorter])
    rate = x_short / safe
    seen = (1 - p) / p * (gained + rate * behind)
    rbo = seen + ((x_long - x_short) / longer + rate) * p**longer
    return {"overlap": x_long / longer, "rbo": np.clip(rbo, 0.0, 1.0)}
