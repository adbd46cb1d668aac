"""How far the first score is above the second, where the first result is right and where not.

A gap that is large where the first result is right, and small elsewhere, tells when to trust it.
Scores are comparable within one retriever only, so each has bins of its own. Scores that are
1 / rank, and queries on which a retriever failed, tell nothing and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.answerability_stage import has_scores_of_ranks
from rag_assets.evaluation.judgments_stage import judgments_key
from rag_assets.report.page.view import Context, View

BINS = 24
KINDS = ("first result right", "first result not right", "unanswerable")


def score_gaps(view: View) -> Context | None:
    """Return a histogram a retriever; None where no query has two results."""
    if not view.result.has_metrics:
        return None
    answerable = _answerable(view)
    drawn = {name: _histogram(view, name, answerable) for name in view.retrievers}
    found = {name: bins for name, bins in drawn.items() if bins is not None}
    rows = [row for row in view.result.answerability if row["retriever"] in view.retrievers]
    rows.sort(key=lambda row: (view.retrievers.index(str(row["retriever"])), str(row["split"])))
    if not found and not rows:
        return None
    return {
        "answerability": rows,
        "has_splits": any(row["split"] != "all" for row in rows),
        "drawn": list(found),
        "data": {"kinds": KINDS, "retrievers": list(found), "histograms": list(found.values())},
    }


def _answerable(view: View) -> dict[str, bool]:
    """Return query -> whether it has a relevant judgment, for the queries of the split."""
    qrels = view.result.table_of("qrels")
    relevant = set(qrels.filter(pc.greater(qrels["grade"], 0))["query_id"].to_pylist())
    return {query_id: query_id in relevant for query_id in view.result.weights(view.split)}


def _histogram(view: View, retriever: str, answerable: Mapping[str, bool]) -> Context | None:
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
        if query_id in firsts[2] and query_id in answerable and query_id not in failed:
            wrong = 1 if answerable[query_id] else 2
            kind = 0 if (query_id, item) in right else wrong
            gaps[kind].append(score - firsts[2][query_id][1])
    return _binned(gaps)


def _at_rank(run: pa.Table, rank: int) -> dict[str, tuple[str, float]]:
    found = run.filter(pc.equal(run["rank"], rank))
    columns = (found[name].to_pylist() for name in ("query_id", "item_id", "score"))
    return {query_id: (item, score) for query_id, item, score in zip(*columns, strict=True)}


def _relevant(view: View, retriever: str) -> set[tuple[str, str]]:
    table = view.result.table(judgments_key(retriever))
    found = table.filter(pc.greater(table["grade"], 0))
    return set(zip(found["query_id"].to_pylist(), found["item_id"].to_pylist(), strict=True))


def _binned(gaps: list[list[float]]) -> Context | None:
    every = [gap for kind in gaps for gap in kind if np.isfinite(gap)]
    if not every:
        return None
    # A few huge gaps must not press all others into the first bin: they share the last one.
    top = float(np.quantile(every, 0.98)) or max(every) or 1.0
    edges = np.linspace(0.0, top, BINS + 1)
    counts = [np.histogram(np.clip(kind, 0.0, top), edges)[0].tolist() for kind in gaps]
    return {"edges": [float(f"{edge:.4g}") for edge in edges], "counts": counts}
