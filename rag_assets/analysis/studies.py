"""A metric over a parameter: what another ``k1``, chunk size or ``lambda`` does.

A study is of one option: retrievers that differ in nothing else are a line over its values. Options
of the chunking, of the query set and of the retriever that is read count as those of a retriever,
as ``chunking.max_characters`` and ``input.k1``. How an experiment was written does not matter: a
grid and retrievers that were written one by one are the same study.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag_assets.analysis.charts import (
    Theme,
    bounds_at,
    figure,
    line_trace,
    page_data,
    plain,
    style,
    whiskers,
)
from rag_assets.analysis.result import EvaluationResult, Row, grouped
from rag_assets.retrieval.base import SECTION_OF, UNCHUNKED
from rag_assets.sheets.sheet import TEXT, Column, Sheet, metric_column, of_split

if TYPE_CHECKING:
    import plotly.graph_objects as go


def studies_of(result: EvaluationResult, measure: str | None = None) -> dict[str, list[Row]]:
    """Return option -> a row a retriever, line by line and by rising value of the option.

    A row has ``parameter``, ``retriever``, ``line`` (what tells it from the others of the study;
    empty where there is one), ``value``, and ``measure`` at the primary cut-off with its interval;
    the primary metric when absent.
    """
    column, configuration = measure or result.primary.column, result.evaluation.origin.configuration
    bounds = bounds_at(result, column, result.cutoff)
    blocks = result.configured("retrievers")
    options = {n: dict(_flat("", blocks.get(n, {}), configuration)) for n in result.retrievers}
    studies: dict[str, list[Row]] = {}
    for parameter in sorted({option for each in options.values() for option in each}):
        for label, value, name in _points(parameter, options):
            row = {"parameter": parameter, "retriever": name, "line": label, "value": value}
            names = (column, f"{column}_low", f"{column}_high")
            row |= dict(zip(names, bounds[name], strict=True))
            studies.setdefault(parameter, []).append(row)
    return studies


def _flat(
    prefix: str, block: Mapping[str, Any], configuration: Mapping[str, Any]
) -> Iterable[tuple[str, Any]]:
    """Yield all options of a retriever, those of what it searches and reads too."""
    for key, value in block.items():
        section = SECTION_OF.get(key)
        named = configuration.get(section, {}).get(value) if section else value
        if isinstance(named, Mapping) and value != UNCHUNKED:
            yield from _flat(f"{prefix}{key}.", named, configuration)
        else:
            yield f"{prefix}{key.removesuffix('_')}", value  # lambda_: Python has a word lambda


def _points(
    parameter: str, options: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, float, str]]:
    """Yield line, value and retriever where at least two differ in this option alone."""
    lines: dict[str, dict[float, str]] = {}
    others: dict[str, dict[str, Any]] = {}
    for name, every in options.items():
        value = every.get(parameter)
        if isinstance(value, int | float) and not isinstance(value, bool):
            rest = {key: every[key] for key in sorted(every) if key != parameter}
            lines.setdefault(repr(rest), {})[value] = name
            others[repr(rest)] = rest
    several = {line: points for line, points in lines.items() if len(points) > 1}
    for line, points in several.items():
        label = _label(others[line], [others[each] for each in several])
        yield from ((label, value, name) for value, name in sorted(points.items()))


def _label(options: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the type where lines differ in it, and what differs among those of the type."""
    alike = [other for other in lines if other.get("type") == options.get("type")]
    kind = [str(options.get("type"))] if len(alike) < len(lines) else []
    differing = [
        f"{key} {value}"
        for key, value in options.items()
        if any(other.get(key) != value for other in alike)
    ]
    return ", ".join(kind + differing)


def _sheet(result: EvaluationResult, parameter: str, rows: Sequence[Row]) -> Sheet:
    columns = [
        Column("retriever", "retriever", TEXT),
        Column("value", parameter, "g"),
        metric_column(result.primary.column, str(result.primary), has_bounds=True),
    ]
    title = f"{result.primary} over {parameter}{of_split(result.split)}"
    return Sheet(title, columns, rows, name="study")


def study_figure(
    result: EvaluationResult, rows: Sequence[Row], column: str, theme: Theme, title: str = ""
) -> go.Figure:
    """Return a line over the values of an option, with intervals, at the primary cut-off."""
    traces: list[dict[str, Any]] = []
    for number, (label, points) in enumerate(grouped(rows, "line").items()):
        bounds = [(p[column], p[f"{column}_low"], p[f"{column}_high"]) for p in points]
        traces.append(
            {
                **line_trace(label, style(number, theme)),
                **{"x": [row["value"] for row in points], "y": [row[column] for row in points]},
                "text": [plain(row["retriever"]) for row in points],
                "error_y": whiskers(bounds, theme),
                "hovertemplate": "%{text}<br>%{x}: %{y:.4f}<extra></extra>",
            }
        )
    return figure(
        traces,
        theme,
        title,
        xaxis={"title": {"text": plain(rows[0]["parameter"])}},
        yaxis={"title": {"text": f"{plain(column)}@{result.cutoff}"}},
        showlegend=len(traces) > 1,
    )


def studies(result: EvaluationResult) -> Row | None:
    """Return the part of the page; None where no option has several values."""
    if not (every := studies_of(result) if result.ranked else {}):
        return None

    def data() -> Row:
        column = result.primary.column
        figures = (study_figure(result, rows, column, "page") for rows in every.values())
        return {f"study-{n}": {"": page_data(drawn)} for n, drawn in enumerate(figures)}

    return {"sheets": [_sheet(result, name, rows) for name, rows in every.items()], "data": data}
