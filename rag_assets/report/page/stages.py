"""Where relevant evidence is lost: what is left after each stage, as a flow and as a table."""

from __future__ import annotations

from rag_assets.evaluation.attribution import FOUND
from rag_assets.report.attribution_rows import attribution_rows
from rag_assets.report.page.view import Context, View

LOSSES = {
    "not_in_corpus": "no such document",
    "no_chunk": "in no chunk",
    "below_candidates": "not retrieved",
    "lost_in_fusion": "lost by the fusion",
    "lost_in_reranking": "lost by the reranker",
    "cut_at_k": "ranked below the cut",
}
"""Place -> what it is called, in the order of the stages."""

LEFT = {
    "not_in_corpus": "in the corpus",
    "no_chunk": "in a chunk",
    "below_candidates": "retrieved",
    "lost_in_fusion": "kept by the fusion",
    "lost_in_reranking": "kept by the reranker",
    "cut_at_k": "found",
}
"""Place -> what is left behind it."""


def stages(view: View) -> Context | None:
    """Return a row a retriever, and its flow; None without attributions."""
    if not view.result.evaluation.entries_of("attributions"):
        return None
    rows = attribution_rows(view.result, view.retrievers)
    if not rows:
        return None
    order = {name: number for number, name in enumerate(view.retrievers)}
    rows.sort(key=lambda row: order[str(row["retriever"])])
    used = [place for place in LOSSES if any(row[place] for row in rows)]
    return {
        "rows": rows,
        "places": [(place, LOSSES[place]) for place in used],
        "top_k": view.result.attributed_top_k,
        "data": {
            "retrievers": [row["retriever"] for row in rows],
            "flows": [_flow(row) for row in rows],
        },
    }


def _flow(row: Context) -> Context:
    """Return the number of evidences, and of each stage that loses some what it loses and leaves.

    The last stage is named as such where nothing is lost at the end.
    """
    left = row["n_evidences"]
    steps = []
    for place, name in LOSSES.items():
        if row[place]:
            left -= row[place]
            steps.append({"lost": name, "n_lost": row[place], "left": LEFT[place], "n_left": left})
    if steps:
        steps[-1]["left"] = LEFT["cut_at_k"]
    return {"n": row["n_evidences"], "found": row[FOUND], "steps": steps}
