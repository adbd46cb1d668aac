"""The leaderboard: its rows for programs, and its tables for a terminal of 80 columns.

The candidate ceiling says how much of the evidence a fusion or reranker gets to read at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rag_assets.evaluation.leaderboard import mean
from rag_assets.evaluation.metric_names import best_value, metric_columns
from rag_assets.evaluation.query_facts import ALL, TEST
from rag_assets.labels.generation.question_tables import authors_note
from rag_assets.pipeline.selection import Selection
from rag_assets.report.analyzers import likely_cause
from rag_assets.report.answerability import answerability_parts
from rag_assets.report.answers import answer_parts
from rag_assets.report.board_columns import (
    CEILING,
    CHOSEN_WEIGHTS,
    COST_TIME,
    LEADING,
    POSITION,
    RETRIEVER,
    TERMINAL,
    columns_of,
)
from rag_assets.report.formats import Row, interval_name, interval_text
from rag_assets.report.judged import judged_parts
from rag_assets.report.overlaps import similarity_parts
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sampled import sampled_parts
from rag_assets.report.terminal_table import (
    FittedTable,
    mean_cell,
    mean_of,
    title_line,
)
from rag_assets.report.view import SIGN, near_best, split_of, stored_rows
from rag_assets.statistics.t_test import ALPHA


def result_rows(result: EvaluationResult, selection: Selection, split: str) -> list[Row]:
    """Return :func:`leaderboard_rows` of an evaluation.

    At the primary cut-off a retriever that reads others has a ``ceiling`` too, see
    :func:`rag_assets.report.leaderboard.ceilings`; a cell that was timed has a ``cost_time``, and a
    tuned fusion its ``chosen_weights``.
    """
    rows = leaderboard_rows(result.leaderboard, selection, split)
    ceiling_of, times = ceilings(result, split), result.cost_times()
    rows = [_with_ceiling(row, ceiling_of, result.primary.cutoff) for row in rows]
    rows = [_with_weights(row, result.chosen_weights) for row in rows]
    return [_with_cost_time(row, times) for row in rows]


def _with_weights(row: Row, weights: Mapping[str, str]) -> Row:
    name = str(row["retriever"])
    return {**row, CHOSEN_WEIGHTS.name: weights[name]} if name in weights else row


def _with_cost_time(row: Row, times: Mapping[tuple[str, int], float]) -> Row:
    time = times.get((str(row["retriever"]), int(str(row["top_k"]))))
    return row if time is None else {**row, COST_TIME.name: time}


def _with_ceiling(row: Row, ceiling_of: Mapping[str, float], cutoff: int | None) -> Row:
    name = str(row["retriever"])
    return (
        {**row, CEILING.name: ceiling_of[name]}
        if name in ceiling_of and row["top_k"] == cutoff
        else row
    )


def leaderboard_rows(board: pa.Table, selection: Selection, split: str) -> list[Row]:
    """Return one mapping a selected cell of one split, best retriever first.

    Metric names carry no cut-off: that is ``top_k``. A metric that is not computed at a cut-off is
    left out of its row. ``position`` is None for a retriever that is not ranked.
    """
    rows: list[Row] = []
    for row in board.to_pylist():
        if row["split"] != split:
            continue
        if row["retriever"] in selection.retrievers and row["top_k"] in selection.top_k:
            lead = {name: row.pop(name) for name in LEADING}
            rows.append({**lead, **{name: v for name, v in row.items() if v is not None}})
    return rows


def ceilings(result: EvaluationResult, split: str) -> dict[str, float]:
    """Return the recall of the candidates of every retriever that reads others.

    That is the weighted mean, over the queries of a split on which it did not fail, of the share
    of the evidences that any input has as deep as it is read: no order of these candidates has a
    higher recall.

    Args:
        result: the evaluation; without attributions there is no ceiling.
        split: whose queries.

    Returns:
        Retriever -> ceiling, in [0, 1].
    """
    if not result.evaluation.entries_of("attributions"):
        return {}
    values = {
        name: _ceiling(table, result.attributed_weights(name, split))
        for name, table in result.attributions.items()
    }
    return {name: value for name, value in values.items() if value is not None}


def _ceiling(table: pa.Table, weights: Mapping[str, float]) -> float | None:
    """Return the ceiling of one retriever; None for a base retriever, or without a query."""
    columns = (table.column(name).to_pylist() for name in ("query_id", "inputs", "input_ranks"))
    in_pool: dict[str, list[bool]] = defaultdict(list)
    for query_id, inputs, ranks in zip(*columns, strict=True):
        if inputs and query_id in weights:
            in_pool[query_id].append(any(rank is not None for rank in ranks))
    shares = [sum(flags) / len(flags) for flags in in_pool.values()]
    return mean(shares, [weights[query_id] for query_id in in_pool])


MATTERS = 0.05
"""Ties are spoken of from this share of the averaged queries on."""


def leaderboard_summary(result: EvaluationResult, rows: Sequence[Row]) -> RenderableType:
    """Return one table: all metrics at the primary cut-off, and what limits them.

    Args:
        result: the evaluation.
        rows: its selected cells, best retriever first.
    """
    shown, at_cutoff = _shown_cutoff(result, rows)
    parts: list[RenderableType] = [_title(result, at_cutoff, shown), _cells(result, at_cutoff)]
    if near_best(result, rows) & {row["retriever"] for row in at_cutoff}:
        parts.append(_near_legend(result))
    return Group(*parts, *_warnings(result, at_cutoff))


def other_tables(result: EvaluationResult) -> list[str]:
    """Return what :func:`leaderboard_view` and the options of `leaderboard` show besides."""
    has = {
        "every top_k": len(set(result.leaderboard["top_k"].to_pylist())) > 1,
        "intervals": bool(result.evaluation.entries_of("intervals")),
        "answers": bool(result.answer_metrics),
        "what judges say": bool(judged_parts(result, result.chosen_split())),
        "estimates from the sample": bool(sampled_parts(result)),
        "--by tag": bool(result.slices()),
        "--latency": bool(result.milliseconds_per_query()),
    }
    return [name for name, is_there in has.items() if is_there]


def _shown_cutoff(result: EvaluationResult, rows: Sequence[Row]) -> tuple[int, list[Row]]:
    """Return the primary cut-off, else the deepest that was selected, and its rows."""
    cutoffs = {int(str(row["top_k"])) for row in rows}
    shown = result.primary.cutoff if result.primary.cutoff in cutoffs else max(cutoffs)
    return shown or 0, [row for row in rows if row["top_k"] == shown]


def _near_legend(result: EvaluationResult) -> str:
    legend = f"{SIGN} not shown to be worse than the best on {result.primary}"
    return f"{legend} (p >= {ALPHA} after Holm)"


def leaderboard_view(result: EvaluationResult, rows: Sequence[Row]) -> RenderableType:
    """Return the tables of an evaluation: one cut-off in full, then the primary metric over all.

    Args:
        result: the evaluation.
        rows: its selected cells, best retriever first.
    """
    measure = result.primary.column
    cutoffs = sorted({int(str(row["top_k"])) for row in rows})
    shown, at_cutoff = _shown_cutoff(result, rows)
    parts: list[RenderableType] = [_title(result, at_cutoff, shown), _cells(result, at_cutoff)]
    if len(cutoffs) > 1:
        parts += ["", title_line(f"{measure} by top_k"), _curve(rows, measure, cutoffs)]
    parts += [*_interval_parts(result, rows), *answerability_parts(result, at_cutoff)]
    parts += similarity_parts(result, at_cutoff)
    parts += answer_parts(result, str(rows[0]["split"]))
    parts += judged_parts(result, str(rows[0]["split"]))
    parts += sampled_parts(result)
    return Group(*parts, *(_warnings(result, at_cutoff)))


def not_averaged(row: Row) -> str:
    """Return how many queries of a row are in no mean, and why: ``24 unanswerable``; or empty.

    A row of an older evaluation lacks ``n_unlabelled``.
    """
    counts = {"unanswerable": row["n_unanswerable"], "without labels": row.get("n_unlabelled")}
    return ", ".join(f"{number} {why}" for why, number in counts.items() if number)


def _title(result: EvaluationResult, rows: Sequence[Row], top_k: int) -> Text:
    fullest = max(rows, key=lambda row: int(str(row["n_queries"])))
    n_queries, left_out = fullest["n_queries"], not_averaged(fullest)
    where = f"{fullest['split']}, " if fullest["split"] != ALL else ""
    means = "mean" if fullest["weight"] == n_queries else "weighted mean"
    name = result.evaluation.experiment
    title = f"{name}: {where}top_k {top_k}, {means} over {n_queries} queries"
    return title_line(f"{title} ({left_out} left out)" if left_out else title)


def _cells(result: EvaluationResult, rows: Sequence[Row]) -> Table:
    measures = metric_columns(rows[0])
    speed = result.milliseconds_per_query()
    # One blank between columns: six metrics, tokens and a short name fit into 80 characters.
    primary = f"{result.primary.column}*"
    table = FittedTable(required=[primary], narrow=True)
    table.number_column(POSITION.title)
    table.text_column(RETRIEVER.title)
    for name in measures:
        table.number_column(primary if name == result.primary.column else name)
    columns = columns_of(TERMINAL, rows)
    for column in columns:
        table.number_column(column.heading(rows[0]["top_k"]))
    near = near_best(result, rows)
    ranked = [row for row in rows if row["position"] is not None]
    best = {name: best_value(name, (mean_of(row, name) for row in ranked)) for name in measures}
    for row in rows:
        values = [mean_cell(mean_of(row, name), best[name]) for name in measures]
        retriever = str(row["retriever"])
        position = "-" if row["position"] is None else str(row["position"])
        sign = SIGN if retriever in near else " " if near else ""
        measured = {**row, "speed": speed.get(retriever)}
        others = [column.text(measured.get(column.name), "-") for column in columns]
        table.add_row(f"{position}{sign}", f"{retriever}{_mark(row)}", *values, *others)
    return table


def _curve(rows: Sequence[Row], measure: str, cutoffs: Sequence[int]) -> Table:
    table = FittedTable()
    table.text_column("retriever")
    for cutoff in cutoffs:
        table.number_column(f"@{cutoff}")
    cells = {(str(row["retriever"]), row["top_k"]): row for row in rows}
    for name in dict.fromkeys(str(row["retriever"]) for row in rows):
        values = []
        for cutoff in cutoffs:
            column = [
                mean_of(row, measure)
                for (_, k), row in cells.items()
                if k == cutoff and row["position"] is not None
            ]
            row = cells.get((name, cutoff), {})
            best = best_value(measure, column)
            values.append(mean_cell(mean_of(row, measure), best).append(_mark(row)))
        table.add_row(name, *values)
    return table


def _mark(row: Row) -> str:
    """Return the mark of a cell whose means leave out queries on which the retriever failed."""
    return " !" if row.get("n_failed") else ""


def _interval_parts(result: EvaluationResult, rows: Sequence[Row]) -> list[RenderableType]:
    """Return the primary metric of each shown retriever with its interval, and what the sign means.

    A retriever that reads others has its candidate ceiling beside it. Empty for an evaluation
    without intervals, or whose primary cell is not shown.
    """
    names = dict.fromkeys(str(row["retriever"]) for row in rows)
    intervals = {name: row for name in names if (row := _interval(result, name, split_of(rows)))}
    if not intervals:
        return []
    near = near_best(result, rows)
    table = FittedTable(required=[str(result.primary)])
    table.text_column("retriever")
    confidence = next(iter(intervals.values()))["confidence"]
    highest = {str(row["retriever"]): row[CEILING.name] for row in rows if CEILING.name in row}
    headers = [str(result.primary), interval_name(confidence), CEILING.title]
    for name in headers if highest else headers[:-1]:
        table.number_column(name)
    for name, row in intervals.items():
        ceiling = CEILING.text(highest.get(name))
        values = [f"{row['mean']:.4f}", interval_text(row), ceiling]
        table.add_row(Text(name), *(values if highest else values[:-1]))
    parts: list[RenderableType] = ["", table]
    if highest:
        parts.append(f"{CEILING.title}: {CEILING.help}")
    if near & names.keys():
        parts.append(_near_legend(result))
    return parts


def _interval(result: EvaluationResult, retriever: str, split: str) -> dict[str, Any] | None:
    cell = (split, result.primary.cutoff, result.primary.column)
    for row in stored_rows(result, "intervals", retriever):
        if (row["split"], row["top_k"], row["metric"]) == cell and row["mean"] is not None:
            return row
    return None


def _warnings(result: EvaluationResult, rows: Iterable[Row]) -> list[str]:
    """Return lines on what a mean does not show."""
    authors = authors_note(result.queries)
    lines = [authors] if authors is not None else []
    own_chunks = {
        entry.partition["retriever"] for entry in result.evaluation.entries_of("external_units")
    }
    for row in rows:
        if CHOSEN_WEIGHTS.name in row:
            lines.append(f"{row['retriever']}: weights chosen on dev: {row[CHOSEN_WEIGHTS.name]}")
        if row["position"] is None:
            lines.append(
                f"{row['retriever']}: not ranked, its parameters were chosen on {row['split']}; "
                f"`--split {TEST}` ranks it"
            )
        if row["n_failed"]:
            lines.append(
                f"{row['retriever']} !: failed on {row['n_failed']} of {row['n_attempted']} "
                "queries, which are in no mean"
            )
        if row["n_empty"]:
            lines.append(
                f"{row['retriever']}: nothing retrieved for {row['n_empty']} queries; "
                "those with a relevant document count 0" + likely_cause(result, *_empty(row))
            )
        tied = row.get("n_tied")
        if isinstance(tied, int) and tied > MATTERS * int(str(row["n_queries"])):
            lines.append(
                f"{row['retriever']}: equal scores on both sides of the cut in {tied} of "
                f"{row['n_queries']} queries; `leaderboard --ties` shows what their order is worth"
            )
        if row["n_unreachable"]:
            absent = row.get("n_not_in_corpus")
            of_them = f" ({absent} of them in no document of the corpus)" if absent else ""
            chunk = "chunk that it returned" if row["retriever"] in own_chunks else "chunk"
            lines.append(
                f"{row['retriever']}: {row['n_unreachable']} evidences lie in no {chunk}{of_them}, "
                "and stay in the denominator of recall"
            )
    return ["", *lines] if lines else []


def _empty(row: Row) -> tuple[str, int, int]:
    return str(row["retriever"]), int(str(row["n_empty"])), int(str(row["n_attempted"]))
