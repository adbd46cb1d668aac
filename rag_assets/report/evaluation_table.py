"""An evaluation as a table, for Python and for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.analysis.answers import answer_rows, evidence_rows, evidence_sheets
from rag_assets.analysis.attribution import waterfall_rows, waterfall_sheet
from rag_assets.analysis.charts import Theme, bars_figure, plain
from rag_assets.analysis.findings import incomplete_parts
from rag_assets.analysis.judged import how, judged_rows
from rag_assets.analysis.leaderboard import board_sheet
from rag_assets.analysis.metric_sources import named_source
from rag_assets.analysis.online import online_tables
from rag_assets.analysis.overlaps import overlap_rows, overlap_sheets
from rag_assets.analysis.result import EvaluationResult
from rag_assets.analysis.sampled import required
from rag_assets.analysis.slices import TAG, Slice, slices_of
from rag_assets.analysis.studies import studies_of, study_figure
from rag_assets.analysis.winner import winner_of
from rag_assets.answers.summary_stage import GROUPS
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import metric_columns
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.evaluation.score import Named, score
from rag_assets.labels.sampling.sample_stage import SAMPLED_ESTIMATES_KEY
from rag_assets.report.page.page import sheets_below
from rag_assets.sheets.formats import interval_name
from rag_assets.sheets.notebook import Tabular
from rag_assets.sheets.sheet import Sheet

if TYPE_CHECKING:
    import plotly.graph_objects as go


class EvaluationTable(EvaluationResult, Tabular):
    """An evaluation as a table: its leaderboard, or without labels how alike retrievers rank."""

    def to_arrow(self) -> pa.Table:
        """Return the leaderboard of all splits and cut-offs; without labels the overlaps.

        Raises:
            NotEvaluated: there are neither labels nor two retrievers.
        """
        if self.has_metrics:
            table = self.leaderboard
            cells = zip(table["retriever"].to_pylist(), table["top_k"].to_pylist(), strict=True)
            times = pa.array(map(self.cost_times.get, cells), pa.float64())
            return table.append_column("cost_time", times)
        tables = [
            table.append_column("top_k", pa.array([top_k] * table.num_rows, pa.int32()))
            for top_k, table in self.overlaps.items()
        ]
        if not tables:
            problem = f"{self.evaluation.experiment} has neither labels nor two retrievers"
            raise NotEvaluated(f"{problem} to compare")
        return pa.concat_tables(tables)

    @property
    def answers(self) -> pa.Table:
        """A row an answerer at a cut-off, a split and a group of questions: means with intervals.

        Raises:
            NotEvaluated: there are no answers.
        """
        splits = dict.fromkeys(self.answer_summary["split"].to_pylist())
        cells = [(split, group) for split in splits for group in GROUPS]
        rows = [
            {**row, "questions": group}
            for split, group in cells
            for row in answer_rows(self, group, split)
        ]
        if not rows:
            raise self.lacks("has no answers")
        names = dict.fromkeys(name for row in rows for name in row)
        return pa.table({name: [row.get(name) for row in rows] for name in names})

    @property
    def evidence(self) -> pa.Table:
        """Metrics of answers given complete, partial and no evidence in the context.

        Raises:
            NotEvaluated: there are no answers, or no labelled evidence.
        """
        rows = evidence_rows(self)
        if not rows:
            raise self.lacks("has no answers to questions with labelled evidence")
        return pa.Table.from_pylist(rows)

    @property
    def judged(self) -> pa.Table:
        """A row a judge, an answerer and a split: judge, calibrated, interval, labels.

        Raises:
            NotEvaluated: there is no judge of answers, or no label.
        """
        rows = judged_rows(self)
        if not rows:
            raise self.lacks(f"has no calibrated verdicts; {how(self)}")
        return pa.Table.from_pylist(rows)

    @property
    def sampled(self) -> pa.Table:
        """What a sample of labels estimates: :data:`rag_assets.schemas.SAMPLED_ESTIMATES`.

        Raises:
            NotEvaluated: there is no sample of labels.
        """
        return required(self, SAMPLED_ESTIMATES_KEY)

    @property
    def online(self) -> dict[str, pa.Table]:
        """Tables of what users of a production search did, by name; see :mod:`.report.online`."""
        tables = online_tables(self).items()
        return {name: pa.Table.from_pylist(rows) for name, rows in tables if rows}

    def slices(
        self, by: str = TAG, metric: str | None = None, split: str | None = None
    ) -> list[Slice]:
        """Return a metric by query tag or by a field, see :func:`.slices.slices_of`."""
        result = EvaluationResult(self.root, self.evaluation, split)
        return slices_of(result, named_source(metric, self.primary), None, by)

    def scores(self, metrics: Sequence[Named]) -> pa.Table:
        """Return means of any metrics of :func:`rag_assets.score`, a row a retriever and cut-off.

        They are over the answerable queries of the split on which the retriever did not fail, each
        of which counts once; nothing is searched again.

        Args:
            metrics: names, those of trec_eval too, and functions of (grades of the ranked units,
                None: not judged; number of relevant ones).

        Raises:
            NotEvaluated: there are no labels.
            UsageError: a metric is unknown, or a function fails.
        """
        self.check_labels()
        rows = []
        for retriever in self.run_retrievers:
            labels = self.table(relevant_units_key(retriever))
            counted = [q for q, weight in self.attributed_weights(retriever).items() if weight]
            judgments = labels.filter(pc.is_in(labels["query_id"], pa.array(counted, pa.string())))
            for top_k, key in self.run_keys(retriever).items():
                scored = score(self.table(key), judgments, metrics)
                row = {"retriever": retriever, "top_k": top_k, "n_queries": scored.n_queries}
                rows.append(row | scored.means)
        return pa.Table.from_pylist(rows)

    def plot(
        self, metric: str | None = None, *, over: str | None = None, dark: bool = False
    ) -> go.Figure:
        """Return bars of a metric by retriever and top_k, with intervals.

        Args:
            metric: without a cut-off; the primary metric when absent.
            over: an option that several retrievers have with different values, such as ``k1`` or
                ``chunking.max_characters``: lines over its values at the primary cut-off, in place
                of bars.
            dark: for a dark page.

        Raises:
            NotEvaluated: there are no labels, so no metric.
            UsageError: the leaderboard has no such metric, or no retrievers differ in the option.
        """
        measures = metric_columns(self.leaderboard.column_names)
        chosen = metric or self.primary.column
        if chosen not in measures:
            raise UsageError(f"unknown metric {allowed_names(chosen, measures)}; without a cut-off")
        theme: Theme = "dark" if dark else "light"
        title = f"{plain(self.evaluation.experiment)}: {plain(chosen)}"
        if over is None:
            return bars_figure(self, chosen, theme, title)
        studies = studies_of(self, chosen)
        if over not in studies:
            raise UsageError(f"no retrievers differ in one option {allowed_names(over, studies)}")
        title = f"{title} over {plain(over)}"
        return study_figure(self, studies[over], chosen, theme, title)

    def _sheets(self) -> list[Sheet]:
        classes = waterfall_rows(self)
        return [
            *([_board(self)] if self.has_metrics else overlap_sheets(self, overlap_rows(self))),
            *sheets_below(self),
            *([waterfall_sheet("From corpus to answer", classes)] if classes else []),
            *(evidence_sheets(self) if classes else []),
        ]


def _board(result: EvaluationResult) -> Sheet:
    """Return the headline and the leaderboard at the primary cut-off."""
    rows = result.at_cutoff or [row for row in result.rows if row["top_k"] == result.cutoffs[0]]
    sheet = board_sheet(result, rows, f"@{rows[0]['top_k']}")
    notes, columns = [*sheet.notes], sheet.columns
    if result.confidence:
        interval = interval_name(result.confidence)
        columns = [replace(col, interval=interval if col.is_required else "") for col in columns]
        notes.append(f"low to high: {interval}s")
    others = [str(k) for k in result.cutoffs if k != rows[0]["top_k"]]
    if others:
        notes.append(f"to_arrow(), to_pandas() and to_polars() also have top_k {', '.join(others)}")
    answer = winner_of(result)
    sentences = [] if answer is None else [f"{answer.title}.", *answer.sentences]
    lead = [*incomplete_parts(result), *sentences]
    return replace(sheet, columns=columns, lead=lead, notes=notes)
