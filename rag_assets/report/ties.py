"""What the order of equal scores is worth: rows for programs, and a sheet.

A mean lies between a worst and a best value over all orders of units with equal scores.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa

from rag_assets.engine.rankings import ASSET
from rag_assets.errors import DataError, NotEvaluated
from rag_assets.evaluation.leaderboard import mean
from rag_assets.evaluation.metric_names import Metric, metric_columns, parse_metric
from rag_assets.evaluation.query_facts import ALL
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.evaluation.ties import BELOW, BOUNDED, tie_bounds
from rag_assets.evaluation.units import cut
from rag_assets.report.formats import Row
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sheet import TEXT, Column, Sheet
from rag_assets.store.artifacts import (
    DEPTH_MARK,
    OBJECTS,
    Artifact,
    ArtifactKey,
    read_intact,
    short,
)


def tie_rows(
    result: EvaluationResult, retrievers: Collection[str], top_k: int, split: str
) -> list[Row]:
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
            rows += [_row(result, name, ranking, metric, split) for metric in bounded]
    if not rows:
        name, allowed = result.evaluation.experiment, ", ".join(BOUNDED)
        problem = f"has no cell at top_k {top_k} of these retrievers with one of {allowed}"
        raise NotEvaluated(f"the last evaluation of {name} {problem}")
    return rows


def _row(
    result: EvaluationResult, retriever: str, ranking: pa.Table, metric: Metric, split: str
) -> Row:
    weights = result.weights(split)
    cell = result.query_metrics(metric.cutoff or 0)[retriever]
    counted = {
        row["query_id"]: row["ties_at_cut"]
        for row in cell.select(["query_id", "n_relevant", "failed", "ties_at_cut"]).to_pylist()
        if row["n_relevant"] > 0 and not row["failed"] and row["query_id"] in weights
    }
    n_tied = None if None in counted.values() else sum(n > 0 for n in counted.values())
    lead: Row = {"retriever": retriever, "metric": str(metric), "n_queries": len(counted)}
    lead["n_tied"] = n_tied
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
    fingerprint = _fingerprint(result, keys[top_k])
    stored = _stored(result.root, fingerprint, top_k + BELOW)
    if stored is not None:
        return cut(stored.table(), top_k + BELOW)
    same = [k for k, key in keys.items() if _fingerprint(result, key) == fingerprint]
    return cut(result.table(keys[max(same)]), top_k + BELOW)


def _fingerprint(result: EvaluationResult, run: ArtifactKey) -> str:
    manifest = result.manifest(run)
    return str(manifest.facts.get("ranking", "")) if manifest is not None else ""


def _stored(root: Path, fingerprint: str, depth: int) -> Artifact | None:
    """Return a ranking that is deep enough."""
    if int(fingerprint.partition(DEPTH_MARK)[2] or 0) < depth:
        return None
    artifact = read_intact(root.parent / OBJECTS / ASSET / short(fingerprint))
    is_it = artifact is not None and artifact.manifest.fingerprint == fingerprint
    return artifact if is_it else None


def tie_sheet(experiment: str, rows: Sequence[Row], split: str) -> Sheet:
    """Return a row a retriever and measure, and why some have no bounds."""
    where = "" if split == ALL else f"{split}, "
    title = f"{experiment}: {where}means over all orders of units with equal scores"
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
