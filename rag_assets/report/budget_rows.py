"""The leaderboard at an equal context budget, computed from what the last evaluation stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from rag_assets.errors import NotEvaluated
from rag_assets.evaluation.answer_hits import MEASURES as ANSWER_MEASURES
from rag_assets.evaluation.answer_hits import answer_hits
from rag_assets.evaluation.budget import Kept, budget_metrics, within_budget
from rag_assets.evaluation.contexts import context_column
from rag_assets.evaluation.judgments_stage import judgments_key
from rag_assets.evaluation.leaderboard import TIE, mean
from rag_assets.evaluation.metrics import WHOLE_RANKING
from rag_assets.pipeline.evaluations import SnapshotEntry
from rag_assets.report.result import EvaluationResult
from rag_assets.report.rows import Row
from rag_assets.schemas import LEADERBOARD


def budget_rows(
    result: EvaluationResult, retrievers: Collection[str], budget: int, split: str | None = None
) -> list[Row]:
    """Return one mapping a retriever, best first by the primary measure.

    One that was tuned on the split comes last, and its position is None. Each has ``retriever``,
    ``position``, ``split``, ``budget``, ``depth`` (top_k of the deepest stored run),
    ``n_queries`` (the denominator of the means), ``n_failed`` (queries that are in no mean, because
    the retriever failed on them), ``n_short`` (queries all of whose ``depth`` units
    fit: a deeper run might do better), ``n_nothing_fits``, ``tokens`` (mean over the same queries),
    ``units`` (mean over all queries), and the means of the leaderboard's measures.

    Args:
        result: the evaluation.
        retrievers: whose rows.
        budget: tokens a query.
        split: whose queries to count; the one that the leaderboard shows when absent.

    Raises:
        UsageError: the queries are not split.
        NotEvaluated: the last evaluation has no labels, no run of these retrievers, or was made
            before tokens were counted.
    """
    known = LEADERBOARD.arrow().names
    measures = [name for name in result.leaderboard.column_names if name not in known]
    chosen = result.chosen_split(split)
    names = [name for name in result.run_retrievers if name in retrievers]
    rows = [_row(result, name, budget, measures, chosen) for name in names]
    if not rows:
        name = result.evaluation.experiment
        raise NotEvaluated(f"the last evaluation of {name} has no run of these retrievers")
    return _placed(rows, result.primary.column, result.tuned_on(chosen))


def _row(
    result: EvaluationResult, retriever: str, budget: int, measures: list[str], split: str
) -> dict[str, object]:
    entry = _deepest_run(result, retriever)
    depth = int(entry.partition["top_k"])
    contexts_entry = _partition(result, "retriever_contexts", retriever)
    manifest = result.manifest_of(contexts_entry)
    column = context_column(str(manifest.config["judge"])) if manifest else ""
    contexts = result.table(contexts_entry.key)
    kept = within_budget(result.table(entry.key), contexts, budget, column=column)
    judgments = result.table(judgments_key(retriever))
    # The run of a query that failed holds what its original text finds: it counts nowhere.
    failed = result.failures(entry.key)
    weights = {one: weight for one, weight in result.weights(split).items() if one not in failed}
    asked = pa.table({"query_id": pa.array(sorted(weights), pa.string())})
    kept = kept.of_queries(asked["query_id"])
    table = budget_metrics(kept, judgments, asked, measures)
    if set(measures) & set(ANSWER_MEASURES):
        table = table.append_column(
            "answer_hit", _answer_hits(result, kept, asked, contexts, column)
        )
    each = [weights[query_id] for query_id in table["query_id"].to_pylist()]
    found = [name for name in measures if name in table.column_names]
    means = {name: mean(table[name].to_pylist(), each) for name in found}
    n_queries = asked.num_rows
    return {
        "retriever": retriever,
        "split": split,
        "budget": budget,
        "depth": depth,
        "n_queries": len(_answerable(judgments, weights)),
        "n_failed": len(result.weights(split).keys() & failed.keys()),
        "n_short": kept.n_short(depth),
        "n_nothing_fits": kept.n_nothing_fits(),
        "tokens": _tokens(kept, judgments, weights),
        "units": kept.run.num_rows / n_queries if n_queries else None,
        **{name: value for name, value in means.items() if value is not None},
    }


def _answerable(judgments: pa.Table, weights: Mapping[str, float]) -> list[str]:
    positive = {row["query_id"] for row in judgments.to_pylist() if row["grade"] > 0}
    return sorted(positive & weights.keys())


def _tokens(kept: Kept, judgments: pa.Table, weights: Mapping[str, float]) -> float | None:
    """Return the mean over the queries that the other means are over."""
    columns = (kept.queries[name].to_pylist() for name in ("query_id", "tokens"))
    spent: dict[str, float] = dict(zip(*columns, strict=True))
    counted = _answerable(judgments, weights)
    return mean([spent.get(one, 0) for one in counted], [weights[one] for one in counted])


def _answer_hits(
    result: EvaluationResult, kept: Kept, asked: pa.Table, contexts: pa.Table, column: str
) -> pa.ChunkedArray:
    documents = result.table_of("documents")
    texts = zip(documents["document_id"].to_pylist(), documents["text"].to_pylist(), strict=True)
    cell = ("run", WHOLE_RANKING)
    found = answer_hits(
        {"run": kept.run},
        {"run": contexts},
        {"run": "run"},
        asked,
        [cell],
        column=column,
        documents=dict(texts),
        answers=result.table_of("query_facts"),
    )
    return found[cell]["answer_hit"]


def _deepest_run(result: EvaluationResult, retriever: str) -> SnapshotEntry:
    runs = [
        entry
        for entry in result.evaluation.entries
        if entry.asset.endswith("_runs") and entry.partition["retriever"] == retriever
    ]
    return max(runs, key=lambda entry: int(entry.partition["top_k"]))


def _partition(result: EvaluationResult, asset: str, retriever: str) -> SnapshotEntry:
    for entry in result.evaluation.entries_of(asset):
        if entry.partition["retriever"] == retriever:
            return entry
    name = result.evaluation.experiment
    problem = f"the last evaluation of {name} has no {asset} of {retriever}"
    raise NotEvaluated(f"{problem}; evaluate it again")


def _placed(rows: list[dict[str, object]], measure: str, unplaced: Collection[str]) -> list[Row]:
    values = {str(row["retriever"]): _number(row.get(measure)) for row in rows}
    ranked = [value for name, value in values.items() if name not in unplaced]
    placed: list[Row] = []
    for row in sorted(rows, key=lambda row: _order(str(row["retriever"]), values, unplaced)):
        name = str(row["retriever"])
        better = sum(value > values[name] + TIE for value in ranked)
        position = None if name in unplaced else 1 + better
        placed.append({"retriever": name, "position": position, **row})
    return placed


def _order(
    name: str, values: Mapping[str, float], unplaced: Collection[str]
) -> tuple[bool, float, str]:
    return name in unplaced, -values[name], name


def _number(value: object) -> float:
    return value if isinstance(value, float) else float("-inf")
