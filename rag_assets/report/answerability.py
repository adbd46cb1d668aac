"""What scores tell before labels do: whether a query is answerable, and when to trust a result.

The table for a terminal says how well best scores tell unanswerable queries. The section of the
page draws how far the first score is above the second, where the first result is right and where
not: a gap that is large where it is right, and small elsewhere, tells when to trust it. Scores are
comparable within one retriever only, so each has bins of its own. Scores that are 1 / rank, and
queries on which a retriever failed, tell nothing and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import RenderableType

from rag_assets.evaluation.answerability_stage import has_scores_of_ranks
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.report.formats import Row
from rag_assets.report.result import EvaluationResult
from rag_assets.report.terminal_table import FittedTable, number_cell, title_line
from rag_assets.report.view import Context, View

_COLUMNS = ("auroc", "threshold", "coverage", "rejected")


def answerability_parts(result: EvaluationResult, shown: Sequence[Row]) -> list[RenderableType]:
    """Return a heading and a table, a row a retriever that is shown and split.

    Nothing where no query is said to be unanswerable.
    """
    names = [row["retriever"] for row in shown]
    rows = [row for row in result.answerability if row["retriever"] in names]
    if not rows:
        return []
    rows.sort(key=lambda row: (names.index(row["retriever"]), str(row["split"])))
    has_splits = any(row["split"] != "all" for row in rows)
    table = FittedTable()
    table.text_column("retriever")
    if has_splits:
        table.add_column("split", no_wrap=True)
    for name in _COLUMNS:
        table.number_column(name)
    for row in rows:
        split = [str(row["split"])] if has_splits else []
        table.add_row(str(row["retriever"]), *split, *[number_cell(row[name]) for name in _COLUMNS])
    counts = f"{rows[0]['n_answerable']} answerable, {rows[0]['n_unanswerable']} not"
    title = "unanswerable queries, told by the best score"
    return ["", title_line(title if has_splits else f"{title} ({counts})"), table]


BINS = 24
KINDS = ("first result right", "first result not right", "unanswerable")


def score_gaps(view: View) -> Context | None:
    """Return a histogram a retriever; None where no query has two results."""
    if not view.result.has_metrics:
        return None
    said = view.result.answerable
    answerable = {query_id: said[query_id] for query_id in view.result.weights(view.split)}
    drawn = {name: _histogram(view, name, answerable) for name in view.retrievers}
    histograms = {name: bins for name, bins in drawn.items() if bins is not None}
    rows = [row for row in view.result.answerability if row["retriever"] in view.retrievers]
    rows.sort(key=lambda row: (view.retrievers.index(str(row["retriever"])), str(row["split"])))
    if not histograms and not rows:
        return None
    return {
        "answerability": rows,
        "has_splits": any(row["split"] != "all" for row in rows),
        "drawn": list(histograms),
        "data": {
            "kinds": KINDS,
            "retrievers": list(histograms),
            "histograms": list(histograms.values()),
        },
    }


def _histogram(view: View, retriever: str, answerable: Mapping[str, bool | None]) -> Context | None:
    keys = view.result.run_keys(retriever)
    deep = [k for k in keys if k > 1]
    if not deep:
        return None
    key = keys[view.cutoff if view.cutoff in deep else min(deep)]
    run = view.result.table(key)
    if has_scores_of_ranks(run):
        return None
    firsts = {rank: _at_rank(run, rank) for rank in (1, 2)}
    right = _relevant(view, retriever)
    gaps: list[list[float]] = [[], [], []]
    failed = view.result.failures(key)
    for query_id, (item, score) in firsts[1].items():
        said = answerable.get(query_id)
        if query_id in firsts[2] and said is not None and query_id not in failed:
            wrong = 1 if said else 2
            kind = 0 if (query_id, item) in right else wrong
            gaps[kind].append(score - firsts[2][query_id][1])
    return _binned(gaps)


def _at_rank(run: pa.Table, rank: int) -> dict[str, tuple[str, float]]:
    hits = run.filter(pc.equal(run["rank"], rank))
    columns = (hits[name].to_pylist() for name in ("query_id", "unit_id", "score"))
    return {query_id: (item, score) for query_id, item, score in zip(*columns, strict=True)}


def _relevant(view: View, retriever: str) -> set[tuple[str, str]]:
    table = view.result.table(relevant_units_key(retriever))
    relevant = table.filter(pc.greater(table["grade"], 0))
    return set(zip(relevant["query_id"].to_pylist(), relevant["unit_id"].to_pylist(), strict=True))


def _binned(gaps: list[list[float]]) -> Context | None:
    every = [gap for kind in gaps for gap in kind if np.isfinite(gap)]
    if not every:
        return None
    # A few huge gaps must not press all others into the first bin: they share the last one.
    top = float(np.quantile(every, 0.98)) or max(every) or 1.0
    edges = np.linspace(0.0, top, BINS + 1)
    counts = [np.histogram(np.clip(kind, 0.0, top), edges)[0].tolist() for kind in gaps]
    return {"edges": [float(f"{edge:.4g}") for edge in edges], "counts": counts}
