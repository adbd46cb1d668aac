"""What scores tell before labels do: whether a query is answerable, and when to trust a result.

The sheet says how well best scores tell unanswerable queries. The section of the page draws how far
the first score is above the second, where the first result is right and where not: a gap that is
large where it is right, and small elsewhere, tells when to trust it. Scores are comparable within
one retriever only, so each has bins of its own. Scores that are 1 / rank, and queries on which a
retriever failed, tell nothing and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.answerability_stage import has_scores_of_ranks
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sheet import TEXT, Column, Sheet
from rag_assets.report.view import Context, View


def answerability_sheet(result: EvaluationResult, retrievers: Sequence[str]) -> Sheet | None:
    """Return a row a retriever and split; None where no query is said to be unanswerable."""
    rows = [row for row in result.answerability if row["retriever"] in retrievers]
    if not rows:
        return None
    rows.sort(key=lambda row: (retrievers.index(str(row["retriever"])), str(row["split"])))
    has_splits = any(row["split"] != "all" for row in rows)
    columns = (
        Column("retriever", "retriever", TEXT),
        *([Column("split", "split", TEXT, is_whole=True)] if has_splits else []),
        Column("auroc", "auroc", help="how well the best score tells the two apart; 0.5: not"),
        Column("threshold", "threshold", help="queries at or above it are answered"),
        Column("coverage", "coverage", help="of the answerable queries, those answered"),
        Column("rejected", "rejected", help="of the unanswerable queries, those not answered"),
    )
    counts = f"{rows[0]['n_answerable']} answerable, {rows[0]['n_unanswerable']} not"
    title = "unanswerable queries, told by the best score"
    title = title if has_splits else f"{title} ({counts})"
    return Sheet(title, columns, rows, name="answerability")


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
    sheet = answerability_sheet(view.result, view.retrievers)
    if not histograms and sheet is None:
        return None
    return {
        "sheet": sheet,
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
    first, second = (_at_rank(run, rank) for rank in (1, 2))
    units = view.result.table(relevant_units_key(retriever))
    units = units.filter(pc.greater(units["grade"], 0))
    right = set(zip(units["query_id"].to_pylist(), units["unit_id"].to_pylist(), strict=True))
    gaps: list[list[float]] = [[], [], []]
    failed = view.result.failures(key)
    for query_id, (item, score) in first.items():
        has_answer = answerable.get(query_id)
        if query_id in second and has_answer is not None and query_id not in failed:
            kind = 0 if (query_id, item) in right else 1 if has_answer else 2
            gaps[kind].append(score - second[query_id][1])
    return _binned(gaps)


def _at_rank(run: pa.Table, rank: int) -> dict[str, tuple[str, float]]:
    hits = run.filter(pc.equal(run["rank"], rank))
    columns = (hits[name].to_pylist() for name in ("query_id", "unit_id", "score"))
    return {query_id: (item, score) for query_id, item, score in zip(*columns, strict=True)}


def _binned(gaps: list[list[float]]) -> Context | None:
    every = [gap for kind in gaps for gap in kind if np.isfinite(gap)]
    if not every:
        return None
    # A few huge gaps must not press all others into the first bin: they share the last one.
    top = float(np.quantile(every, 0.98)) or max(every) or 1.0
    edges = np.linspace(0.0, top, BINS + 1)
    counts = [np.histogram(np.clip(kind, 0.0, top), edges)[0].tolist() for kind in gaps]
    return {"edges": [float(f"{edge:.4g}") for edge in edges], "counts": counts}
