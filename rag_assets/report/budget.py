"""The leaderboard at an equal context budget: its rows, and its table for a terminal.

It is computed from what the last evaluation stored: nothing is searched again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
from rich.console import Group, RenderableType
from rich.table import Table

from rag_assets.errors import NotEvaluated
from rag_assets.evaluation.budget import Kept, budget_metrics, within_budget
from rag_assets.evaluation.leaderboard import TIE, mean
from rag_assets.evaluation.metric_names import CONTEXT_MEASURES, MEASURES, best_value
from rag_assets.evaluation.metrics import WHOLE_RANKING
from rag_assets.evaluation.query_facts import ALL
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.evaluation.returned_texts import ReturnedTexts
from rag_assets.evaluation.units import context_column
from rag_assets.pipeline.evaluations import SnapshotEntry
from rag_assets.report.formats import Row
from rag_assets.report.result import EvaluationResult
from rag_assets.report.terminal_table import (
    FittedTable,
    mean_cell,
    mean_of,
    number_cell,
    title_line,
)
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
    stored = LEADERBOARD.arrow().names
    measures = [name for name in result.leaderboard.column_names if name not in stored]
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
    within = within_budget(result.table(entry.key), contexts, budget, column=column)
    relevant_units = result.table(relevant_units_key(retriever))
    # The run of a query that failed holds what its original text finds: it counts nowhere.
    failed = result.failures(entry.key)
    weights = {one: weight for one, weight in result.weights(split).items() if one not in failed}
    queries = pa.table({"query_id": pa.array(sorted(weights), pa.string())})
    within = within.of_queries(queries["query_id"])
    table = budget_metrics(within, relevant_units, queries, measures)
    if set(measures) & set(CONTEXT_MEASURES):
        table = table.append_column(
            "answer_hit", _answer_hits(result, within, queries, contexts, column)
        )
    query_weights = [weights[query_id] for query_id in table["query_id"].to_pylist()]
    counted = [name for name in measures if name in table.column_names]
    means = {name: mean(table[name].to_pylist(), query_weights) for name in counted}
    n_queries = queries.num_rows
    return {
        "retriever": retriever,
        "split": split,
        "budget": budget,
        "depth": depth,
        "n_queries": len(_answerable(relevant_units, weights)),
        "n_failed": len(result.weights(split).keys() & failed.keys()),
        "n_short": within.n_short(depth),
        "n_nothing_fits": within.n_nothing_fits(),
        "tokens": _tokens(within, relevant_units, weights),
        "units": within.run.num_rows / n_queries if n_queries else None,
        **{name: value for name, value in means.items() if value is not None},
    }


def _answerable(relevant_units: pa.Table, weights: Mapping[str, float]) -> list[str]:
    positive = {row["query_id"] for row in relevant_units.to_pylist() if row["grade"] > 0}
    return sorted(positive & weights.keys())


def _tokens(within: Kept, relevant_units: pa.Table, weights: Mapping[str, float]) -> float | None:
    """Return the mean over the queries that the other means are over."""
    columns = (within.queries[name].to_pylist() for name in ("query_id", "tokens"))
    spent: dict[str, float] = dict(zip(*columns, strict=True))
    counted = _answerable(relevant_units, weights)
    return mean([spent.get(one, 0) for one in counted], [weights[one] for one in counted])


def _answer_hits(
    result: EvaluationResult, within: Kept, queries: pa.Table, contexts: pa.Table, column: str
) -> pa.ChunkedArray:
    documents = result.table_of("documents")
    texts = zip(documents["document_id"].to_pylist(), documents["text"].to_pylist(), strict=True)
    cell = ("run", WHOLE_RANKING)
    returned = ReturnedTexts(
        {"run": within.run}, {"run": contexts}, {"run": "run"}, queries, column
    )
    hits = returned.answer_hits([cell], dict(texts), result.table_of("query_facts"))
    return hits[cell]["answer_hit"]


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


def budget_view(result: EvaluationResult, rows: Sequence[Row]) -> RenderableType:
    """Return a table, a row a retriever, and a line on each whose run is too short or too long."""
    first = rows[0]
    split = "" if first["split"] == ALL else f"{first['split']}, "
    title = (
        f"{result.evaluation.experiment}: {split}at most {first['budget']} tokens a query, "
        f"mean over {first['n_queries']} queries"
    )
    return Group(title_line(title), _table(result, rows), *_remarks(rows))


def _table(result: EvaluationResult, rows: Sequence[Row]) -> Table:
    measures = [name for name in rows[0] if name.partition("(")[0] in MEASURES]
    primary = f"{result.primary.measure}*"
    table = FittedTable(required=[primary], narrow=True)
    table.number_column("#")
    table.text_column("retriever")
    for name in measures:
        shown = primary if name == result.primary.measure else name
        table.number_column(shown)
    table.number_column("units")
    table.number_column("tokens")
    best = {name: best_value(name, (mean_of(row, name) for row in rows)) for name in measures}
    for row in rows:
        values = [mean_cell(mean_of(row, name), best[name]) for name in measures]
        spent = (number_cell(row["units"], ".1f"), number_cell(row["tokens"], ".0f"))
        position = "-" if row["position"] is None else str(row["position"])
        table.add_row(position, str(row["retriever"]), *values, *spent)
    return table


def _remarks(rows: Sequence[Row]) -> list[str]:
    lines = []
    for row in rows:
        if row["n_failed"]:
            lines.append(
                f"{row['retriever']}: failed on {_queries(row['n_failed'])}, which are in no mean"
            )
        if row["n_short"]:
            lines.append(
                f"{row['retriever']}: all {row['depth']} stored units of "
                f"{_queries(row['n_short'])} fit; a larger top_k might score more"
            )
        if row["n_nothing_fits"]:
            lines.append(
                f"{row['retriever']}: the first unit of {_queries(row['n_nothing_fits'])} alone "
                "exceeds the budget, so nothing is kept"
            )
    return ["", *lines] if lines else []


def _queries(count: object) -> str:
    return f"{count} query" if count == 1 else f"{count} queries"
