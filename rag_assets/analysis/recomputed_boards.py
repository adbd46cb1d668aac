"""Leaderboards computed anew from stored runs: at an equal context budget, and over tie orders.

Nothing is searched again. Over all orders of units with equal scores a mean lies between a worst
and a best value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from rag_assets.analysis.findings import mean_name
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.engine.rankings import ASSET
from rag_assets.errors import DataError
from rag_assets.evaluation.contexts_stage import retriever_contexts_key
from rag_assets.evaluation.leaderboard import UNIT_TOKENS, mean, positions
from rag_assets.evaluation.metric_names import (
    CONTEXT_MEASURES,
    MEASURES,
    Metric,
    metric_columns,
    parse_metric,
)
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.evaluation.query_facts import ALL
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.evaluation.returned_texts import (
    GoldAnswers,
    KeptUnits,
    budget_metrics,
    returned_texts,
    within_budget,
)
from rag_assets.evaluation.ties import BELOW, BOUNDED, tie_bounds
from rag_assets.evaluation.units import context_column, cut
from rag_assets.schemas import LEADERBOARD, column_values
from rag_assets.sheets.sheet import TEXT, Column, Sheet, metric_column
from rag_assets.store.artifacts import DEPTH_MARK, OBJECTS, read_intact, short


def budget_rows(result: EvaluationResult, retrievers: Collection[str], budget: int) -> list[Row]:
    """Return one mapping a retriever, best first by the primary measure.

    One that was tuned on the split comes last, and its position is None. Each has ``retriever``,
    ``position``, ``split``, ``budget``, ``depth`` (top_k of the deepest stored run),
    ``n_queries`` (the denominator of the means), ``n_failed`` (queries that are in no mean, because
    the retriever failed on them), ``n_short`` (queries all of whose ``depth`` units
    fit: a deeper run might do better), ``n_nothing_fits``, ``tokens`` (mean over the same queries),
    ``units`` (mean over all queries), and the means of the leaderboard's measures.

    Raises:
        NotEvaluated: the last evaluation has no labels, no run of these retrievers, or was made
            before tokens of units were stored.
    """
    stored = LEADERBOARD.arrow().names
    measures = [name for name in result.leaderboard.column_names if name not in stored]
    names = [name for name in result.run_retrievers if name in retrievers]
    if not (rows := [_row(result, name, budget, measures) for name in names]):
        raise result.lacks("has no run of these retrievers")
    by_name = {row["retriever"]: row for row in rows}
    values = {name: row.get(result.primary.column, float("-inf")) for name, row in by_name.items()}
    return [
        {"retriever": name, "position": position, **by_name[name]}
        for name, position in positions(values, {*result.tuned, *result.perturbed}).items()
    ]


def _row(result: EvaluationResult, retriever: str, budget: int, measures: list[str]) -> Row:
    keys = result.run_keys(retriever)
    depth = max(keys)
    cell = result.table(metrics_key(retriever, depth))
    if UNIT_TOKENS not in cell.column_names:
        raise result.lacks("was made before tokens of units were stored; evaluate again")
    of_units = dict(column_values(cell, "query_id", UNIT_TOKENS))
    within = within_budget(result.table(keys[depth]), of_units, budget)
    relevant_units = result.table(relevant_units_key(retriever))
    # The run of a query that failed holds what its original text finds: it counts nowhere.
    failed = result.failures(keys[depth])
    of_split = result.weights(result.split)
    weights = {query: weight for query, weight in of_split.items() if query not in failed}
    queries = pa.table({"query_id": pa.array(sorted(weights), pa.string())})
    within = within.of_queries(weights.keys())
    table = budget_metrics(within, relevant_units, queries, measures)
    if set(measures) & set(CONTEXT_MEASURES):
        texts = dict(column_values(result.table_of("documents"), "document_id", "text"))
        answers = GoldAnswers(texts, result.table_of("query_facts"))
        key = retriever_contexts_key(retriever)
        contexts, manifest = result.table(key), result.manifest(key)
        column = context_column(str(manifest.config["judge"])) if manifest else ""
        returned = returned_texts(within.run, contexts, column)
        hits = answers.hits(returned, queries["query_id"].to_pylist())
        table = table.append_column("answer_hit", hits)
    query_weights = [weights[query_id] for query_id in table["query_id"].to_pylist()]
    counted = [name for name in measures if name in table.column_names]
    means = {name: mean(table[name].to_pylist(), query_weights) for name in counted}
    positive = {row["query_id"] for row in relevant_units.to_pylist() if row["grade"] > 0}
    averaged = sorted(positive & weights.keys())
    spent = [within.queries.get(query_id, KeptUnits()).tokens for query_id in averaged]
    tokens = mean(spent, [weights[query_id] for query_id in averaged])
    return {
        **{"retriever": retriever, "split": result.split, "budget": budget, "depth": depth},
        **{"n_queries": len(averaged), "n_failed": len(of_split.keys() & failed.keys())},
        **{"n_short": within.n_short(depth), "n_nothing_fits": within.n_nothing_fits()},
        "tokens": tokens,
        "units": within.run.num_rows / len(weights) if weights else None,
        **{name: value for name, value in means.items() if value is not None},
    }


def budget_sheet(result: EvaluationResult, rows: Sequence[Row]) -> Sheet:
    """Return a row a retriever, and a line on each whose run is too short or too long."""
    first = rows[0]
    split = "" if first["split"] == ALL else f"{first['split']}, "
    title = (
        f"{result.evaluation.experiment}: {split}at most {first['budget']} tokens a query, "
        f"{mean_name(result)} over {first['n_queries']} queries"
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
        "n_failed": "failed on {n}, which count in no mean",
        "n_short": "all {depth} stored units of {n} fit; a larger top_k might score more",
        "n_nothing_fits": "the first unit of {n} alone exceeds the budget, so nothing is kept",
    }
    for row in rows:
        for name, text in texts.items():
            if row[name]:
                queries = "1 query" if row[name] == 1 else f"{row[name]} queries"
                line = text.format(n=queries, depth=row["depth"])
                yield f"{row['retriever']}: {line}"


def tie_rows(result: EvaluationResult, retrievers: Collection[str], top_k: int) -> list[Row]:
    """Return one mapping a retriever and measure: its mean, and the bounds over all tie orders.

    Units of one score are put into every order, within the cut and across it. Each row has
    ``retriever``, ``metric``, ``n_queries``, ``n_tied`` (queries tied across the cut), ``worst``,
    ``value``, ``best``, ``n_queries_that_differ``; where a measure has no bounds these are None,
    and ``why`` says why.

    Raises:
        NotEvaluated: there is no such cell with a measure of
            :data:`rag_assets.evaluation.ties.BOUNDED`.
    """
    rows: list[Row] = []
    for name, table in result.query_metrics(top_k).items():
        if name in retrievers:
            names = metric_columns(table.column_names)
            metrics = [parse_metric(column)._replace(cutoff=top_k) for column in names]
            bounded = [metric for metric in metrics if metric.measure in BOUNDED]
            ranking = _ranking(result, name, top_k)
            rows += [_tie_row(result, name, ranking, metric) for metric in bounded]
    if not rows:
        which = f"of these retrievers with one of {', '.join(BOUNDED)}"
        raise result.lacks(f"has no cell at top_k {top_k} {which}")
    return rows


def _tie_row(result: EvaluationResult, retriever: str, ranking: pa.Table, metric: Metric) -> Row:
    weights = result.weights(result.split)
    cell = result.query_metrics(metric.cutoff or 0)[retriever]
    counted = {
        row["query_id"]: row["ties_at_cut"]
        for row in cell.select(["query_id", "n_relevant", "failed", "ties_at_cut"]).to_pylist()
        if row["n_relevant"] > 0 and not row["failed"] and row["query_id"] in weights
    }
    lead: Row = {"retriever": retriever, "metric": str(metric), "n_queries": len(counted)}
    lead["n_tied"] = None if None in counted.values() else sum(n > 0 for n in counted.values())
    try:
        table = tie_bounds(ranking, result.table(relevant_units_key(retriever)), [metric])[metric]
    except DataError as error:
        return {**lead, **dict.fromkeys(_BOUNDS), "why": str(error)}
    rows = [row for row in table.to_pylist() if row["query_id"] in counted]
    each = [weights[row["query_id"]] for row in rows]
    means = {part: mean([row[part] for row in rows], each) for part in ("worst", "value", "best")}
    differ = sum(row["worst"] != row["best"] for row in rows)
    return {**lead, **means, "n_queries_that_differ": differ, "why": None}


_BOUNDS = ("worst", "value", "best", "n_queries_that_differ")


def _ranking(result: EvaluationResult, retriever: str, top_k: int) -> pa.Table:
    """Return the ranking that a cell was cut from, as deep as ties are looked for.

    Where it is gone or damaged, the deepest run that was cut from it.
    """
    keys = result.run_keys(retriever)
    manifests = {k: result.manifest(key) for k, key in keys.items()}
    cut_from = {k: str(run.facts.get("ranking", "")) if run else "" for k, run in manifests.items()}
    fingerprint, depth = cut_from[top_k], top_k + BELOW
    if int(fingerprint.partition(DEPTH_MARK)[2] or 0) >= depth:
        stored = read_intact(result.root.parent / OBJECTS / ASSET / short(fingerprint))
        if stored is not None and stored.manifest.fingerprint == fingerprint:
            return cut(stored.table(), depth)
    deepest = max(k for k, ranking in cut_from.items() if ranking == fingerprint)
    return cut(result.table(keys[deepest]), depth)


def tie_sheet(result: EvaluationResult, rows: Sequence[Row]) -> Sheet:
    """Return a row a retriever and measure, and why some have no bounds."""
    where = "" if result.split == ALL else f"{result.split}, "
    title = (
        f"{result.evaluation.experiment}: {where}means over all orders of units with equal scores"
    )
    columns = (
        Column("retriever", "retriever", TEXT),
        Column("metric", "metric", TEXT, is_whole=True),
        Column("worst", "worst"),
        Column("value", "value", is_required=True),
        Column("best", "best"),
        Column("n_queries_that_differ", "differ", "d"),
        Column("n_tied", "tied at the cut", "d"),
    )
    notes = [f"differ: queries of {rows[0]['n_queries']} whose value depends on the order"]
    notes += [f"{row['retriever']}: {row['why']}" for row in rows if row["why"]]
    return Sheet(title, columns, rows, notes=notes)
