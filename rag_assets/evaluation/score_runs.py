"""Scores several runs on the same queries, and tests which differences are more than chance.

The statistics are those of an experiment: the intervals of :mod:`rag_assets.statistics.intervals`,
pairs by the randomisation test, corrected by Holm over all pairs of a metric, with an allowance for
queries that share relevant documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.families import all_metrics
from rag_assets.evaluation.metric_names import shown_name
from rag_assets.evaluation.metrics import WHOLE_RANKING
from rag_assets.evaluation.query_facts import facts_table, with_shared_documents
from rag_assets.evaluation.score import checked_metric, count_not_in, is_sum
from rag_assets.statistics.intervals import intervals
from rag_assets.statistics.paired_differences import shared_evidence
from rag_assets.statistics.pairs import all_pairs, comparisons
from rag_assets.statistics.resampling import Resampling
from rag_assets.statistics.units import counted_by_split

Row = dict[str, object]


@dataclass(frozen=True)
class RunScores:
    """Several runs beside each other.

    Attributes:
        metrics: the names that were asked for.
        means: a row for each run and metric: ``run``, ``metric``, ``n`` queries, ``mean``, and
            ``low`` and ``high``, its interval.
        pairs: a row for each two runs and metric: ``run_a``, ``run_b``, ``metric`` and what
            :data:`rag_assets.schemas.COMPARISONS` has of them; ``difference`` is b minus a.
        caveat: what limits the claims because queries share documents; None: nothing does.
        n_queries: queries that are averaged.
        n_unanswerable: queries of the qrels without a relevant document.
        n_missing: run -> queries that are averaged and not in it; they count 0.
    """

    metrics: tuple[str, ...]
    means: list[Row]
    pairs: list[Row]
    caveat: str | None
    n_queries: int
    n_unanswerable: int
    n_missing: Mapping[str, int]


def score_runs(
    runs: Mapping[str, pa.Table],
    judgments: pa.Table,
    metrics: Sequence[str],
    resampling: Resampling | None = None,
) -> RunScores:
    """Score runs and compare all pairs of them by each metric.

    Args:
        runs: name -> table of :data:`rag_assets.schemas.RUNS`.
        judgments: table of :data:`rag_assets.schemas.RELEVANT_UNITS`.
        metrics: names in any vocabulary.
        resampling: of intervals and tests; 95 %, 10,000 samples and seed 0 when absent.

    Raises:
        UsageError: as :func:`rag_assets.evaluation.score.score` does.
    """
    resampling = resampling or Resampling()
    by_name = {_shown(name): checked_metric(name) for name in metrics}
    depths = sorted({metric.cutoff or WHOLE_RANKING for metric in by_name.values()})
    queries = pa.table({"query_id": pc.unique(judgments.column("query_id"))})
    cells = [(run, depth) for run in runs for depth in depths]
    judged_by = dict.fromkeys(runs, "qrels")
    asked = list(by_name.values())
    tables = all_metrics(runs, {"qrels": judgments}, judged_by, queries, cells, asked)
    alone = facts_table(queries["query_id"].to_pylist(), {}, {}, {}, {})
    documents = judgments.select(["query_id", "unit_id", "grade"])
    labels = documents.rename_columns(["query_id", "document_id", "grade"])
    counting = with_shared_documents(alone, labels)
    means: list[Row] = []
    pairs: list[Row] = []
    for name, metric in by_name.items():
        depth = metric.cutoff or WHOLE_RANKING
        at_depth = {run: tables[run, depth] for run in runs}
        for run, table in at_depth.items():
            column = table.select(["query_id", "n_relevant", metric.column])
            for row in intervals({depth: column}, alone, resampling.confidence).to_pylist():
                shown = {key: row[key] for key in ("n", "mean", "low", "high")}
                means.append({"run": run, "metric": name, **shown})
        compared = comparisons(
            at_depth, counting, (metric.column, depth), resampling, all_pairs(list(runs))
        )
        pairs += [_of_runs(row, name) for row in compared.to_pylist()]
    counts = tables[cells[0]]
    answerable = counts.filter(pc.greater(counts["n_relevant"], 0))["query_id"]
    evidence = next((shared_evidence(one) for one in counted_by_split(counting, [counts])), None)
    return RunScores(
        tuple(by_name),
        means,
        pairs,
        None if evidence is None else evidence.caveat(),
        len(answerable),
        counts.num_rows - len(answerable),
        {name: count_not_in(answerable, run["query_id"]) for name, run in runs.items()},
    )


def _shown(name: str) -> str:
    """Return a metric as it is echoed; a mean is never shown by trec_eval's name of a sum."""
    return str(checked_metric(name)) if is_sum(name) else shown_name(name)


def _of_runs(row: Row, metric: str) -> Row:
    """Return a comparison with the names of this table; the split and cut-off are known."""
    pair = {"run_a": row["retriever_a"], "run_b": row["retriever_b"], "metric": metric}
    left_out = {"retriever_a", "retriever_b", "metric", "split", "top_k"}
    return {**pair, **{key: value for key, value in row.items() if key not in left_out}}
