"""The primary metric by query tag."""

from __future__ import annotations

from rag_assets.evaluation.leaderboard import TIE
from rag_assets.report.page.excerpts import shortened
from rag_assets.report.page.view import Context, View

MOST = 200
"""Tags that are shown; where there are more, those with the most queries."""


def slices(view: View) -> Context | None:
    """Return a row a tag; None where no answerable query has one."""
    found = view.result.slices() if view.result.has_metrics else []
    if not found:
        return None
    largest = sorted(found, key=lambda one: -one.n_queries)[:MOST]
    kept = {one.value for one in largest}
    names = [name for name in view.retrievers if any(name in one.means for one in found)]
    return {
        "names": names,
        "n_tags": len(found),
        "rows": [
            {"tag": shortened(one.value), "n_queries": one.n_queries}
            | {"cells": [_cell(one.means.get(name), one.best) for name in names]}
            for one in found
            if one.value in kept
        ],
    }


def _cell(value: float | None, best: float) -> Context | None:
    return None if value is None else {"value": value, "best": value >= best - TIE}
