"""Whether metrics lie below floors: declared ones, or the values that a file keeps."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.metric_names import parse_metric, refuse_lower_is_better
from rag_assets.evaluation.score import Scores
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.report.incomplete_parts import incomplete_parts
from rag_assets.report.notebook import Cell, Shown, number, table_text, words
from rag_assets.report.view import View
from rag_assets.statistics.units import SAME
from rag_assets.store.atomic import write_text


class Value(NamedTuple):
    """A mean, with its interval where it is known."""

    value: float
    interval: str = ""


class MetricFile:
    """The kept values: test -> metric -> mean, in one JSON file."""

    def __init__(self, path: Path) -> None:
        """Keep them at ``path``; it is read at once, if it is there."""
        self.path = path
        self._kept: dict[str, dict[str, float]] = {}
        if path.exists():
            try:
                self._kept = json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise UsageError(f"{path}: is not JSON: {error}") from error

    def floors(self, test: str, metrics: Iterable[str]) -> dict[str, float]:
        """Return the kept values of a test.

        Raises:
            UsageError: one is not kept; says how it gets there.
        """
        kept = self._kept.get(test, {})
        missing = [name for name in metrics if name not in kept]
        if missing:
            problem = f"{self.path}: keeps no {', '.join(missing)} of {test}"
            raise UsageError(f"{problem}; run pytest --rag-assets-store-metrics once")
        return {name: kept[name] for name in metrics}

    def keep(self, test: str, values: Mapping[str, Value]) -> None:
        """Keep the values of a test in place of its last ones."""
        means = {name: one.value for name, one in values.items()}
        self._kept[test] = {**self._kept.get(test, {}), **means}
        write_text(self.path, json.dumps(self._kept, indent=1, sort_keys=True) + "\n")


def values_of(
    result: EvaluationTable | Scores, metrics: Iterable[str], retriever: str | None
) -> dict[str, Value]:
    """Return the means of one retriever.

    Args:
        result: of ``rag_assets.evaluate``, or of ``rag_assets.metrics`` and ``score``.
        metrics: names with a cut-off, such as ``ndcg@10``.
        retriever: its name; None where there is one alone.

    Raises:
        UsageError: the retriever or a metric is unknown, or has no value.
    """
    if isinstance(metrics, str):
        raise UsageError(f"metrics is a text, {metrics!r:.60}; expected a list or a dict of names")
    for name in metrics:
        refuse_lower_is_better(name, "a floor is what a mean must reach")
    if isinstance(result, Scores):
        means = {name: (result.means.get(name), "") for name in metrics}
        return _known(means, result.means)
    if not isinstance(result, EvaluationTable):
        problem = f"the result is {type(result).__name__} {result!r:.60}"
        raise UsageError(f"{problem}; expected what evaluate, metrics or score returns")
    result.check_labels()
    view = View(result)
    if retriever is None and len(view.retrievers) == 1:
        retriever = view.retrievers[0]
    if retriever is None or retriever not in view.retrievers:
        raise UsageError(f"unknown retriever {allowed_names(str(retriever), view.retrievers)}")
    means = {name: _mean(view, retriever, name) for name in metrics}
    available = [f"{name}@{k}" for k in view.cutoffs for name in view.measures]
    return _known(means, available)


def _mean(view: View, retriever: str, name: str) -> tuple[float | None, str]:
    metric = parse_metric(name)
    rows = [r for r in view.rows if (r["retriever"], r["top_k"]) == (retriever, metric.cutoff)]
    interval = view.intervals.get((retriever, metric.cutoff or 0, metric.column), {})
    low, high = interval.get("low"), interval.get("high")
    shown = "" if low is None or high is None else f"{low:.3f} to {high:.3f}"
    return (rows[0].get(metric.column) if rows else None), shown


def _known(
    means: Mapping[str, tuple[float | None, str]], available: Iterable[str]
) -> dict[str, Value]:
    found = {}
    for name, (value, interval) in means.items():
        if value is None:
            raise UsageError(f"no value of the metric {allowed_names(name, available)}")
        found[name] = Value(value, interval)
    return found


def drop_report(
    result: EvaluationTable | Scores,
    values: Mapping[str, Value],
    floors: Mapping[str, float],
    tolerance: float,
    retriever: str | None,
) -> str | None:
    """Return what is below its floor, as tables; None: nothing is.

    Args:
        result: the values are of.
        values: metric -> mean.
        floors: metric -> what it must reach.
        tolerance: how far below its floor a mean may lie.
        retriever: its name, for the title.

    Raises:
        UsageError: a floor or the tolerance is no number.
    """
    given: dict[str, object] = {**floors, "tolerance": tolerance}
    for name, floor in given.items():
        if not isinstance(floor, int | float) or math.isnan(floor):
            raise UsageError(f"the floor of {name} is {floor!r:.40}; expected a number")
    below = [name for name in floors if values[name].value < floors[name] - tolerance - SAME]
    whose = f" of {retriever}" if retriever is not None else ""
    incomplete = incomplete_parts(result) if isinstance(result, EvaluationTable) else []
    if not below and not incomplete:
        return None
    title = f"below the floor{whose}: {', '.join(below)}" if below else "not all queries count"
    rows = [_row(name, values[name], floors[name], below=name in below) for name in floors]
    tolerated = [f"{tolerance:g} less is tolerated"] if tolerance else []
    headings = ["metric", "mean", "floor", "difference", ""]
    table = table_text(Shown(title, headings, rows, incomplete, tolerated))
    return f"{table}\n\n{result!r}"


def _row(name: str, value: Value, floor: float, *, below: bool) -> list[Cell]:
    difference = Cell(f"{value.value - floor:+.4f}")
    mark = words("below" if below else "ok")
    return [words(name), number(value.value, value.interval), number(floor), difference, mark]
