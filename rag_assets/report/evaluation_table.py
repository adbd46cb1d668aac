"""An evaluation as a table, for Python and for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import metric_columns
from rag_assets.report.answer_table import AnswerTable
from rag_assets.report.board_columns import NOTEBOOK, POSITION, RETRIEVER, BoardColumn, columns_of
from rag_assets.report.incomplete_parts import incomplete_parts
from rag_assets.report.judged import judged_rows
from rag_assets.report.judged_table import JudgedTable
from rag_assets.report.notebook import (
    Cell,
    Shown,
    Tabular,
    colours,
    figure,
    look,
    number,
    of_sheet,
    plain,
    whiskers,
    words,
)
from rag_assets.report.overlaps import overlap_rows
from rag_assets.report.page.answers import answers, answers_said
from rag_assets.report.page.leaderboard import leaderboard
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sampled import sampled_sheets, sampled_table
from rag_assets.report.shown_names import shown
from rag_assets.report.view import Context, View
from rag_assets.report.winner import winner_of

if TYPE_CHECKING:
    import plotly.graph_objects as go


class EvaluationTable(EvaluationResult, Tabular):
    """An evaluation as a table: its leaderboard, or without labels how alike retrievers rank."""

    def to_arrow(self) -> pa.Table:
        """Return the leaderboard of all splits and cut-offs; without labels the overlaps.

        Raises:
            NotEvaluated: there are neither labels nor two retrievers.
        """
        return _table(self)

    @property
    def answers(self) -> AnswerTable:
        """The answerers as a table of their own.

        Raises:
            NotEvaluated: there are none.
        """
        return AnswerTable(self)

    @property
    def judged(self) -> JudgedTable:
        """What judges say of the answerers, calibrated with labels of people.

        Raises:
            NotEvaluated: there is no judge of answers, or no label.
        """
        return JudgedTable(self)

    @property
    def sampled(self) -> pa.Table:
        """What a sample of labels estimates: :data:`rag_assets.schemas.SAMPLED_ESTIMATES`.

        Raises:
            NotEvaluated: there is no sample of labels.
        """
        return sampled_table(self)

    def plot(self, metric: str | None = None, *, dark: bool = False) -> go.Figure:
        """Return bars of a metric by retriever and top_k, with intervals.

        Args:
            metric: without a cut-off; the primary metric when absent.
            dark: for a dark page.

        Raises:
            NotEvaluated: there are no labels, so no metric.
            UsageError: the leaderboard has no such metric.
        """
        return _figure(self, metric, dark)

    def _shown(self) -> list[Shown]:
        judged = self.judged._shown() if judged_rows(self) else []
        named = shown(self)
        sampled = map(of_sheet, sampled_sheets(self)[:1])
        return [_board(named), *sampled, *_answers(View(named)), *judged]


def _table(result: EvaluationResult) -> pa.Table:
    if result.has_metrics:
        return result.leaderboard
    tables = [
        table.append_column("top_k", pa.array([top_k] * table.num_rows, pa.int32()))
        for top_k, table in result.overlaps.items()
    ]
    if not tables:
        name = result.evaluation.experiment
        problem = f"{name} has neither labels nor two retrievers to compare"
        raise NotEvaluated("; ".join(filter(None, (problem, result.evaluation.unread_labels))))
    return pa.concat_tables(tables)


def _board(result: EvaluationResult) -> Shown:
    """Return the headline and the leaderboard at the primary cut-off."""
    view = View(result)
    board = leaderboard(view)
    labels = "labels of a sample" if result.sampled_primary else "no labels"
    what = result.evaluation.primary if board else labels
    title = f"{result.evaluation.experiment}: {what}"
    if not result.evaluation.complete:
        title += " (incomplete)"
    if result.evaluation.unread_labels is not None:
        title += f"; {result.evaluation.unread_labels}"
    if board is None:
        return _overlaps(result, title)
    one = board["boards"][0]
    measures = board["measures"]
    columns = columns_of(NOTEBOOK, one["rows"])
    headings = [POSITION.title, RETRIEVER.title, *(f"{name}@{one['k']}" for name in measures)]
    headings += [column.heading(one["k"]) for column in columns]
    notes = []
    if board["has_near"]:
        notes.append(f"~ not shown to be worse than the best on {result.evaluation.primary}")
    if view.confidence:
        notes.append(f"low to high: {100 * view.confidence:g} % intervals")
    if len(board["boards"]) > 1:
        others = ", ".join(str(other["k"]) for other in board["boards"][1:])
        notes.append(f"to_arrow(), to_pandas() and to_polars() also have top_k {others}")
    rows = [_row(row, columns) for row in one["rows"]]
    said = [*incomplete_parts(result), *_said(view)]
    return Shown(title, headings, rows, said, notes)


def _answers(view: View) -> list[Shown]:
    """Return the answerers, and from corpus to answer; nothing where nothing was answered."""
    section = answers(view)
    if section is None:
        return []
    sheet = section["groups"][0][2]
    board = of_sheet(replace(sheet, lead=answers_said(section["head"])))
    if not section["answerers"]:
        return [board]
    classes = [
        [words(row["name"]), *(_share(cell) for cell in row["cells"])] for row in section["classes"]
    ]
    return [board, Shown("From corpus to answer", ["class", *section["answerers"]], classes)]


def _share(row: Context | None) -> Cell:
    return Cell("0") if row is None else Cell(str(row["n"]), f"{100 * row['share']:.1f} %")


def _bounds(cell: Context) -> str:
    return "" if cell["low"] is None else f"{cell['low']:.3f} to {cell['high']:.3f}"


def _said(view: View) -> list[str]:
    """Return the headline of the report in a few sentences."""
    answer = winner_of(view)
    return [] if answer is None else [f"{answer.title}.", *answer.sentences]


def _row(row: Context, columns: Sequence[BoardColumn]) -> list[Cell]:
    place = "-" if row["position"] is None else str(row["position"])
    cells = [Cell(f"{place}{'~' if row['near'] else ''}"), words(row["retriever"])]
    for cell in row["cells"]:
        if cell is None:
            cells.append(number(None))
            continue
        cells.append(number(cell["value"], _bounds(cell), best=cell["best"]))
    return [*cells, *(Cell(column.text(row.get(column.name), "")) for column in columns)]


def _overlaps(result: EvaluationResult, title: str) -> Shown:
    rows = [
        [
            words(f"{row['retriever_a']}, {row['retriever_b']}"),
            Cell(str(row["top_k"])),
            *(Cell("" if row[name] is None else f"{row[name]:.4f}") for name in ("overlap", "rbo")),
        ]
        for row in overlap_rows(result)
    ]
    alike = "this is how alike the retrievers rank" if rows else "one retriever is alone"
    without = "Labels of a sample" if result.sampled_primary else "Without labels"
    means = "estimate some metrics, see `sampled`" if result.sampled_primary else "no metric exists"
    sentences = [f"{without} {means}; {alike}."]
    return Shown(title, ["retrievers", "top_k", "overlap", "RBO"], rows, sentences)


def _figure(result: EvaluationResult, metric: str | None, dark: bool) -> go.Figure:
    view = View(result)
    measures = metric_columns(result.leaderboard.column_names)
    chosen = metric or view.measure
    if chosen not in measures:
        raise UsageError(f"unknown metric {allowed_names(chosen, measures)}; without a cut-off")
    traces = [_bars(view, chosen, number, dark) for number in range(len(view.retrievers))]
    return figure(
        traces,
        dark,
        title=f"{plain(result.evaluation.experiment)}: {plain(chosen)}",
        barmode="group",
        xaxis={"type": "category"},
        yaxis={"title": {"text": plain(chosen)}, "rangemode": "tozero"},
    )


def _bars(view: View, measure: str, number: int, dark: bool) -> dict[str, Any]:
    name = view.retrievers[number]
    means = {row["top_k"]: row.get(measure) for row in view.rows if row["retriever"] == name}
    drawn = look(number, dark)
    values = [means.get(k) for k in view.cutoffs]
    bounds = [view.intervals.get((name, k, measure), {}) for k in view.cutoffs]
    return {
        "type": "bar",
        "name": plain(name),
        "x": [f"@{k}" for k in view.cutoffs],
        "y": values,
        "error_y": whiskers(
            values, [b.get("low") for b in bounds], [b.get("high") for b in bounds], dark
        ),
        "marker": {
            "color": drawn["colour"],
            "pattern": {
                "shape": drawn["pattern"],
                "bgcolor": drawn["colour"],
                "fgcolor": colours(dark)["page"],
            },
        },
        "hovertemplate": "%{fullData.name}<br>%{x}: %{y:.4f}<extra></extra>",
    }
