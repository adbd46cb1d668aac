"""What the charts draw: every mean with its interval, times, and the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping

from rag_assets.report.page.view import Context, View


def charts(view: View) -> Context | None:
    """Return the data of the three charts; None where there is no value to draw."""
    if not view.ranked:
        return None
    quality = {row["retriever"]: row[view.measure] for row in view.ranked}
    times = {name: ms for name, ms in view.speed.items() if name in quality}
    front = pareto_front(quality, times)
    return {
        "front": front,
        "has_curves": len(view.cutoffs) > 1,
        "has_times": bool(times),
        "unmeasured": [name for name in quality if name not in times],
        "data": {
            "retrievers": view.retrievers,
            "cutoffs": view.cutoffs,
            "measures": view.measures,
            "primary": {"measure": view.measure, "cutoff": view.cutoff},
            "confidence": view.confidence,
            "values": {name: _values(view, name) for name in view.measures},
            "times": {name: round(ms, 4) for name, ms in times.items()},
            "front": front,
        },
    }


def _values(view: View, measure: str) -> list[list[list[float | None] | None]]:
    """Return for each retriever and cut-off mean, low and high; null where there is no mean."""
    means = {(row["retriever"], row["top_k"]): row.get(measure) for row in view.rows}
    return [
        [_bounds(view, name, k, measure, means.get((name, k))) for k in view.cutoffs]
        for name in view.retrievers
    ]


def _bounds(
    view: View, name: str, k: int, measure: str, mean: float | None
) -> list[float | None] | None:
    if mean is None:
        return None
    row = view.intervals.get((name, k, measure), {})
    return [_rounded(value) for value in (mean, row.get("low"), row.get("high"))]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def pareto_front(quality: Mapping[str, float], cost: Mapping[str, float]) -> list[str]:
    """Return the names that no other one beats, cheapest first.

    One is beaten by another that is at least as good and at most as costly, and better in one of
    the two. A name without a cost is not on the front.
    """
    known = [name for name in quality if name in cost]

    def beaten(name: str) -> bool:
        return any(
            quality[other] >= quality[name]
            and cost[other] <= cost[name]
            and (quality[other], cost[other]) != (quality[name], cost[name])
            for other in known
        )

    return sorted((name for name in known if not beaten(name)), key=lambda name: cost[name])
