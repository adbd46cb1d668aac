"""The leaderboard at an equal context budget: its rows, and its sheet.

It is computed from what the last evaluation stored: nothing is searched again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from rag_assets.errors import NotEvaluated
from rag_assets.evaluation.budget import Kept, budget_metrics, within_budget
from rag_assets.evaluation.leaderboard import TIE, mean
from rag_assets.evaluation.metric_names import CONTEXT_MEASURES, MEASURES
from rag_assets.evaluation.metrics import WHOLE_RANKING
from rag_assets.evaluation.query_facts import ALL
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.evaluation.returned_texts import ReturnedTexts
from rag_assets.evaluation.units import context_column
from rag_assets.pipeline.evaluations import SnapshotEntry
from rag_assets.report.result import EvaluationResult, Row
from rag_assets.report.sheet import TEXT, Column, Sheet, metric_column
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
) -> Row:
    keys = result.run_keys(retriever)
    depth = max(keys)
    contexts_entry = _partition(result, "retriever_contexts", retriever)
    manifest = result.manifest_of(contexts_entry)
    column = context_column(str(manifest.config["judge"])) if manifest else ""
    contexts = result.table(contexts_entry.key)
    within = within_budget(result.table(keys[depth]), contexts, budget, column=column)
    relevant_units = result.table(relevant_units_key(retriever))
    # The run of a query that failed holds what its original text finds: it counts nowhere.
    failed = result.failures(keys[depth])
    weights = {
        query: weight for query, weight in result.weights(split).items() if query not in failed
    }
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


def _partition(result: EvaluationResult, asset: str, retriever: str) -> SnapshotEntry:
    for entry in result.evaluation.entries_of(asset):
        if entry.partition["retriever"] == retriever:
            return entry
    name = result.evaluation.experiment
    problem = f"the last evaluation of {name} has no {asset} of {retriever}"
    raise NotEvaluated(f"{problem}; evaluate it again")


def _placed(rows: list[Row], measure: str, unplaced: Collection[str]) -> list[Row]:
    """Return the rows with their positions, best first; those that are not ranked come last."""
    values = {row["retriever"]: row.get(measure, float("-inf")) for row in rows}
    ranked = [value for name, value in values.items() if name not in unplaced]
    placed = []
    for row in sorted(
        rows, key=lambda r: (r["retriever"] in unplaced, -values[r["retriever"]], r["retriever"])
    ):
        name = row["retriever"]
        better = sum(value > values[name] + TIE for value in ranked)
        position = None if name in unplaced else 1 + better
        placed.append({"retriever": name, "position": position, **row})
    return placed


def budget_sheet(result: EvaluationResult, rows: Sequence[Row]) -> Sheet:
    """Return a row a retriever, and a line on each whose run is too short or too long."""
    first = rows[0]
    split = "" if first["split"] == ALL else f"{first['split']}, "
    title = (
        f"{result.evaluation.experiment}: {split}at most {first['budget']} tokens a query, "
        f"mean over {first['n_queries']} queries"
    )
    columns = (
        Column("position", "#", "d"),
        Column("retriever", "retriever", TEXT),
        *(
            metric_column(name, is_primary=name == result.primary.measure)
            for name in first
            if name.partition("(")[0] in MEASURES
        ),
        Column("units", "units", ".1f"),
        Column("tokens", "tokens", ".0f"),
    )
    return Sheet(title, columns, rows, notes=[*_remarks(rows)], is_narrow=True)


def _remarks(rows: Sequence[Row]) -> Iterator[str]:
    texts = {
        "n_failed": "failed on {n}, which are in no mean",
        "n_short": "all {depth} stored units of {n} fit; a larger top_k might score more",
        "n_nothing_fits": "the first unit of {n} alone exceeds the budget, so nothing is kept",
    }
    for row in rows:
        for name, text in texts.items():
            if row[name]:
                line = text.format(n=_queries(row[name]), depth=row["depth"])
                yield f"{row['retriever']}: {line}"


def _queries(count: int) -> str:
    return f"{count} query" if count == 1 else f"{count} queries"
