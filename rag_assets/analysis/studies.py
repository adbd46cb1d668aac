"""A metric over a parameter: what another ``k1``, chunk size or ``lambda`` does.

A study is of one option: retrievers that differ in nothing else are a line over its values. Options
of the chunking, of the query set and of the retriever that is read count as those of a retriever,
as ``chunking.max_characters`` and ``input.k1``. How an experiment was written does not matter: a
grid and retrievers that were written one by one are the same study.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag_assets.analysis.charts import Theme, bounds_at, figure, page_data, plain, style, whiskers
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.retrieval.base import SECTION_OF, UNCHUNKED
from rag_assets.sheets.sheet import TEXT, Column, Sheet, metric_column, of_split

if TYPE_CHECKING:
    import plotly.graph_objects as go

Number = int | float


@dataclass(frozen=True)
class Line:
    """Retrievers that differ only in one option.

    Attributes:
        label: what tells this line from the others of its study; empty where there is one.
        points: value of the option, rising, and retriever.
    """

    label: str
    points: Sequence[tuple[Number, str]]


@dataclass(frozen=True)
class Study:
    """One option that several retrievers have with different values."""

    parameter: str
    lines: Sequence[Line]


def studies_of(result: EvaluationResult) -> list[Study]:
    """Return the studies of an evaluation, by the name of the option."""
    configuration = result.evaluation.origin.configuration
    options = {name: _options(configuration, name) for name in result.retrievers}
    parameters = sorted({option for each in options.values() for option in each})
    studies = ((parameter, _lines(parameter, options)) for parameter in parameters)
    return [Study(parameter, lines) for parameter, lines in studies if lines]


def _options(configuration: Mapping[str, Any], retriever: str) -> dict[str, Any]:
    """Return all options of a retriever, those of what it searches and reads too."""
    block: Mapping[str, Any] = configuration.get("retrievers", {}).get(retriever, {})
    return dict(_flat("", block, configuration))


def _flat(
    prefix: str, block: Mapping[str, Any], configuration: Mapping[str, Any]
) -> Iterable[tuple[str, Any]]:
    for key, value in block.items():
        section = SECTION_OF.get(key)
        named = configuration.get(section, {}).get(value) if section else value
        if isinstance(named, Mapping) and value != UNCHUNKED:
            yield from _flat(f"{prefix}{key}.", named, configuration)
        else:
            yield f"{prefix}{key.removesuffix('_')}", value  # lambda_: Python has a word lambda


def _lines(parameter: str, options: Mapping[str, Mapping[str, Any]]) -> list[Line]:
    """Return the lines of one option; none where no two retrievers differ in it alone."""
    groups: dict[str, dict[Number, str]] = {}
    others: dict[str, dict[str, Any]] = {}
    for name, of_retriever in options.items():
        value = of_retriever.get(parameter)
        if isinstance(value, int | float) and not isinstance(value, bool):
            rest = {key: each for key, each in of_retriever.items() if key != parameter}
            identity = repr(sorted(rest.items(), key=lambda pair: pair[0]))
            groups.setdefault(identity, {})[value] = name
            others[identity] = rest
    several = {identity: points for identity, points in groups.items() if len(points) > 1}
    lines = [others[identity] for identity in several]
    return [
        Line(_label(others[identity], lines), sorted(points.items()))
        for identity, points in several.items()
    ]


def _label(options: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the type where lines differ in it, and what differs among those of the type."""
    alike = [other for other in lines if other.get("type") == options.get("type")]
    label = [str(options.get("type"))] if len(alike) < len(lines) else []
    return ", ".join(
        label
        + [
            f"{key} {value}"
            for key, value in sorted(options.items())
            if any(other.get(key) != value for other in alike)
        ]
    )


def study_rows(result: EvaluationResult, study: Study) -> list[Row]:
    """Return a row a value: the primary metric at its cut-off, with its interval."""
    column = result.primary.column
    bounds = bounds_at(result, column, result.cutoff)
    rows: list[Row] = []
    for line in study.lines:
        for value, name in line.points:
            mean, low, high = bounds[name]
            rows.append(
                {
                    "parameter": study.parameter,
                    "retriever": name,
                    "line": line.label,
                    "value": value,
                    column: mean,
                    f"{column}_low": low,
                    f"{column}_high": high,
                }
            )
    return rows


def study_sheet(result: EvaluationResult, study: Study) -> Sheet:
    """Return the table of a study."""
    columns = [
        Column("retriever", "retriever", TEXT),
        Column("value", study.parameter, "g"),
        metric_column(result.primary.column, str(result.primary), has_bounds=True),
    ]
    title = f"{result.primary} over {study.parameter}{of_split(result.split)}"
    return Sheet(title, columns, study_rows(result, study), name="study")


def study_figure(
    result: EvaluationResult, study: Study, measure: str, theme: Theme, title: str = ""
) -> go.Figure:
    """Return a line over the values of an option, with intervals, at the primary cut-off."""
    at_cutoff = bounds_at(result, measure, result.cutoff)
    traces: list[dict[str, Any]] = []
    for number, line in enumerate(study.lines):
        drawn = style(number, theme)
        bounds = [at_cutoff[name] for _, name in line.points]
        traces.append(
            {
                **{"type": "scatter", "mode": "lines+markers", "name": plain(line.label)},
                "x": [value for value, _ in line.points],
                "y": [mean for mean, _, _ in bounds],
                "text": [plain(name) for _, name in line.points],
                "error_y": whiskers(bounds, theme),
                "line": {"color": drawn["colour"], "dash": drawn["dash"], "width": 2},
                "marker": {"color": drawn["colour"], "symbol": drawn["symbol"], "size": 8},
                "hovertemplate": "%{text}<br>%{x}: %{y:.4f}<extra></extra>",
            }
        )
    return figure(
        traces,
        theme,
        title,
        xaxis={"title": {"text": plain(study.parameter)}},
        yaxis={"title": {"text": f"{plain(measure)}@{result.cutoff}"}},
        showlegend=len(traces) > 1,
    )


def studies(result: EvaluationResult) -> Row | None:
    """Return the part of the page; None where no option has several values."""
    every = studies_of(result) if result.ranked else []
    if not every:
        return None

    def data() -> Row:
        measure = result.primary.column
        figures = (study_figure(result, study, measure, "page") for study in every)
        return {f"study-{n}": {"": page_data(drawn)} for n, drawn in enumerate(figures)}

    return {"sheets": [study_sheet(result, study) for study in every], "data": data}
