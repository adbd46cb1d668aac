"""Retrievers at an equal context budget: as many units as fit, whatever k that is.

At a budget of tokens each query keeps its units in the order of rank while the sum of their tokens
stays within the budget. The first that does not fit ends the list: what follows a gap was never
ranked as such. Nothing is cut to fit, since a piece of a unit was not judged; so a query whose
first unit alone exceeds the budget keeps nothing and scores 0.

The measures are those of the remaining list. What is divided by k elsewhere, such as precision, is
divided by the number of units kept. The ideal of nDCG is not cut: it is the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.metric_names import needs_cutoff, parse_metric
from rag_assets.evaluation.metrics import WHOLE_RANKING, query_metrics
from rag_assets.evaluation.returned_texts import ReturnedTexts
from rag_assets.schemas import RUNS

_RUN = "run"

_WITHIN = """
WITH summed AS (
    SELECT query_id, rank, n_tokens, sum(n_tokens) OVER (
        PARTITION BY query_id ORDER BY rank ROWS UNBOUNDED PRECEDING) AS spent
    FROM returned
)
SELECT query_id, count(*) AS n_retrieved,
       count(*) FILTER (spent <= $budget) AS n_kept,
       coalesce(sum(n_tokens) FILTER (spent <= $budget), 0)::BIGINT AS tokens
FROM summed GROUP BY ALL ORDER BY query_id
"""


class Kept(NamedTuple):
    """What fits into a budget: the run, cut for each query where it ends, and its queries.

    ``queries`` has ``query_id``, ``n_retrieved``, ``n_kept`` and ``tokens`` of every query for
    which anything was retrieved, sorted by query id.
    """

    run: pa.Table
    queries: pa.Table

    def n_short(self, depth: int) -> int:
        """Return for how many queries a run deeper than ``depth`` might fit more."""
        columns = (self.queries[name].to_pylist() for name in ("n_kept", "n_retrieved"))
        return sum(kept == retrieved >= depth for kept, retrieved in zip(*columns, strict=True))

    def n_nothing_fits(self) -> int:
        """Return for how many queries the first unit alone exceeds the budget."""
        return sum(kept == 0 for kept in self.queries["n_kept"].to_pylist())

    def of_queries(self, query_ids: pa.ChunkedArray) -> Kept:
        """Return what is about these queries only."""
        return Kept(*(t.filter(pc.is_in(t["query_id"], value_set=query_ids)) for t in self))


def within_budget(run: pa.Table, contexts: pa.Table, budget: int, *, column: str) -> Kept:
    """Cut a run where the tokens of its texts, named by ``column``, exceed a budget."""
    ids = run.select(["query_id"])
    texts = ReturnedTexts({_RUN: run}, {_RUN: contexts}, {_RUN: _RUN}, ids, column)
    with texts.opened() as connection:
        queries = connection.sql(_WITHIN, params={"budget": budget}).to_arrow_table()
        connection.register("kept", queries)
        connection.register("whole", run)
        rows = "SELECT whole.* FROM whole JOIN kept USING (query_id) WHERE rank <= n_kept"
        cut = connection.sql(f"{rows} ORDER BY query_id, rank").to_arrow_table()
    return Kept(RUNS.check(cut.cast(RUNS.arrow())), queries)


def budget_metrics(
    kept: Kept, relevant_units: pa.Table, queries: pa.Table, measures: Sequence[str]
) -> pa.Table:
    """Return the measures of the units that fit, a row for each of ``queries``.

    Null for a query without a positive judgment; a measure that is not computed from judgments is
    left out.
    """
    columns = (kept.queries[name].to_pylist() for name in ("query_id", "n_kept"))
    kept_units: dict[str, int] = dict(zip(*columns, strict=True))
    # What is divided by the cut-off is taken at as many units as were kept; of none it is 0 anyway.
    cutoffs = {q: max(kept_units.get(q, 0), 1) for q in queries["query_id"].to_pylist()}
    cells = [(_RUN, k) for k in {*cutoffs.values(), WHOLE_RANKING}]
    metrics = [parse_metric(name) for name in measures]
    labels, judged_by = {_RUN: relevant_units}, {_RUN: _RUN}
    tables = query_metrics({_RUN: kept.run}, labels, judged_by, queries, cells, metrics)
    whole = tables[_RUN, WHOLE_RANKING]
    table = whole.select(["query_id", *(name for name in measures if name in whole.column_names)])
    query_ids = table["query_id"].to_pylist()
    for place, name in enumerate(table.column_names):
        if needs_cutoff(name.partition("(")[0]):
            by_cutoff = {k: tables[_RUN, k][name].to_pylist() for k in {*cutoffs.values()}}
            values = [by_cutoff[cutoffs[query]][row] for row, query in enumerate(query_ids)]
            table = table.set_column(place, name, pa.array(values, pa.float64()))
    return table
