"""All pairs of retrievers by the primary metric: a matrix, and a table with every figure."""

from __future__ import annotations

from rag_assets.report.page.headline import against
from rag_assets.report.page.view import Context, View
from rag_assets.statistics.detectable import ALPHA


def significance(view: View) -> Context | None:
    """Return the matrix of differences, row minus column; None where nothing was compared."""
    if not view.comparisons:
        return None
    compared = {row[side] for row in view.comparisons for side in ("retriever_a", "retriever_b")}
    names = [name for name in view.retrievers if name in compared]
    matrix = {name: [against(view, name, other) for other in names] for name in names}
    pairs = [
        {"one": name, **cell}
        for number, name in enumerate(names)
        for cell in matrix[name][number + 1 :]
        if cell is not None
    ]
    largest = max((abs(pair["difference"]) for pair in pairs), default=0.0)
    return {
        "names": names,
        "matrix": matrix,
        "pairs": pairs,
        "largest": largest or 1.0,
        "alpha": ALPHA,
        "n_pairs": view.n_pairs,
        "confidence": view.confidence,
    }
