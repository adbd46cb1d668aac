"""The leaderboard: its rows for programs, and its sheets for every face."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from rag_assets.evaluation.query_facts import ALL, TEST
from rag_assets.labels.question_tables import authors_note
from rag_assets.pipeline.selection import Selection
from rag_assets.report.answers import answer_sheets
from rag_assets.report.formats import interval_name
from rag_assets.report.judged import headline_sheets
from rag_assets.report.overlaps import similarity_sheet
from rag_assets.report.page.environment import meaning
from rag_assets.report.result import EvaluationResult, Row
from rag_assets.report.sampled import sampled_sheets
from rag_assets.report.sheet import TEXT, Column, Sheet, better_of, metric_column
from rag_assets.report.view import Context, View
from rag_assets.schemas import LEADERBOARD
from rag_assets.statistics.paired_tests import ALPHA

MEANINGS = {column.name: column.meaning for column in LEADERBOARD.columns}

LEADING = ("retriever", "split", "top_k", "position")
"""The columns of a row that stand before its metrics."""

COST_TIME = Column(
    "cost_time",
    "cost_time",
    ".2f",
    help="mean ms of a query at this top_k, from text to hits, rewriting included",
    is_page_only=True,
)
"""In rows for programs too, where it was measured."""

CHOSEN_WEIGHTS = Column(
    "chosen_weights",
    "chosen weights",
    TEXT,
    help="of a tuned fusion: the weights of its inputs that were chosen on dev",
    is_page_only=True,
    is_sparse=True,
)
"""In rows for programs too, and in a line below the table of a terminal."""

POSITION = Column("position", "#", "d", help=MEANINGS["position"], mark="near")
RETRIEVER = Column("retriever", "retriever", TEXT, help=MEANINGS["retriever"], mark="failed_mark")


def measured_columns(top_k: int) -> tuple[Column, ...]:
    """Return what stands behind the metrics at a cut-off."""
    return (
        Column("tokens", f"tokens@{top_k}", ".0f", help=MEANINGS["tokens"], is_sparse=True),
        Column(
            "speed",
            "ms/query",
            ".2f",
            help="median of single queries, from text to hits, with all that they need",
        ),
        COST_TIME,
        CHOSEN_WEIGHTS,
        Column(
            "n_failed",
            "failed",
            "d",
            help=MEANINGS["n_failed"],
            is_page_only=True,
            is_sparse=True,
        ),
    )


NEAR = "~"
"""Marks a retriever that is not shown to be worse than the best."""

FAILED = " !"
"""Marks one whose means leave out queries on which it failed."""


def result_rows(result: EvaluationResult, selection: Selection, split: str) -> list[Row]:
    """Return :func:`leaderboard_rows` of an evaluation.

    A cell that was timed has a ``cost_time`` too, and a tuned fusion its ``chosen_weights``.
    """
    times = result.cost_times()
    rows = leaderboard_rows(result.leaderboard, selection, split)
    for row in rows:
        name = row["retriever"]
        if name in result.chosen_weights:
            row[CHOSEN_WEIGHTS.name] = result.chosen_weights[name]
        if (name, row["top_k"]) in times:
            row[COST_TIME.name] = times[name, row["top_k"]]
    return rows


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


def board_sheet(view: View, rows: Sequence[Row], at: str | None = None) -> Sheet:
    """Return all metrics of rows of one cut-off, with their intervals.

    Args:
        view: the evaluation.
        rows: cells of its leaderboard, best retriever first.
        at: stands behind the names of metrics; None: a star behind the primary one.
    """
    top_k = rows[0]["top_k"]
    measures = [name for name in view.measures if any(name in row for row in rows)]
    columns = (
        POSITION,
        RETRIEVER,
        *(
            metric_column(
                name,
                "" if at is None else f"{name}{at}",
                meaning(name),
                is_primary=name == view.measure,
                has_bounds=True,
            )
            for name in measures
        ),
        *measured_columns(top_k),
    )
    lines = [_line(view, row, measures) for row in rows]
    notes = [near_legend(view)] if any(row["near"] for row in lines) else []
    # One blank between columns: six metrics, tokens and a short name fit into 80 characters.
    return Sheet(_title(view, rows), columns, lines, notes=notes, is_narrow=True, name="board")


def _line(view: View, row: Row, measures: Iterable[str]) -> Row:
    name, top_k = row["retriever"], row["top_k"]
    bounds = {
        f"{measure}_{bound}": interval[bound]
        for measure in measures
        if (interval := view.intervals.get((name, top_k, measure))) is not None
        for bound in ("low", "high")
    }
    return {
        **row,
        **bounds,
        "position": row.get("position"),
        "near": NEAR if name in view.near else "",
        "failed_mark": FAILED if row.get("n_failed") else "",
        "speed": view.speed.get(name),
        COST_TIME.name: view.cost_times.get((name, top_k)),
        CHOSEN_WEIGHTS.name: view.result.chosen_weights.get(name),
    }


def near_legend(view: View) -> str:
    """Return what the sign behind a position says."""
    legend = f"{NEAR} not shown to be worse than the best on {view.result.primary}"
    return f"{legend} (p >= {ALPHA} after Holm)"


def _title(view: View, rows: Sequence[Row]) -> str:
    fullest = max(rows, key=lambda row: int(row["n_queries"]))
    n_queries, left_out = fullest["n_queries"], not_averaged(fullest)
    where = f"{fullest['split']}, " if fullest["split"] != ALL else ""
    means = "mean" if fullest["weight"] == n_queries else "weighted mean"
    name = view.result.evaluation.experiment
    title = f"{name}: {where}top_k {fullest['top_k']}, {means} over {n_queries} queries"
    return f"{title} ({left_out} left out)" if left_out else title


def not_averaged(row: Row) -> str:
    """Return how many queries of a row are in no mean, and why: ``24 unanswerable``; or empty.

    A row of an older evaluation lacks ``n_unlabelled``.
    """
    counts = {"unanswerable": row["n_unanswerable"], "without labels": row.get("n_unlabelled")}
    return ", ".join(f"{number} {why}" for why, number in counts.items() if number)


def _curve(view: View, rows: Sequence[Row], cutoffs: Sequence[int]) -> Sheet:
    """Return the primary metric over all cut-offs."""
    lines: dict[str, Row] = {}
    for row in rows:
        name = row["retriever"]
        line = lines.setdefault(name, {"retriever": name, "position": row["position"]})
        line[f"@{row['top_k']}"] = row.get(view.measure)
        line[f"@{row['top_k']} mark"] = FAILED if row.get("n_failed") else ""
    columns = (
        Column("retriever", "retriever", TEXT),
        *(
            Column(f"@{k}", f"@{k}", mark=f"@{k} mark", better=better_of(view.measure))
            for k in cutoffs
        ),
    )
    return Sheet(f"{view.measure} by top_k", columns, list(lines.values()))


def interval_sheet(view: View, rows: Sequence[Row]) -> Sheet | None:
    """Return the primary metric of each retriever with its interval.

    None for an evaluation without intervals, or whose primary cell is not among the rows.
    """
    lines = [
        {**interval, "retriever": name}
        for name in dict.fromkeys(row["retriever"] for row in rows)
        if (interval := view.intervals.get((name, view.cutoff, view.measure)))
        and interval["mean"] is not None
    ]
    if not lines:
        return None
    title, name = str(view.result.primary), interval_name(view.confidence or 0.95)
    mean = Column("mean", title, bounds=("low", "high"), interval=name, is_required=True)
    return Sheet("", (Column("retriever", "retriever", TEXT), mean), lines)


MIN_TIED_SHARE = 0.05
"""Ties are spoken of from this share of the averaged queries on."""


def summary_sheet(result: EvaluationResult, rows: Sequence[Row]) -> Sheet:
    """Return one table: all metrics at the primary cut-off, and what limits them."""
    view = View(result, _split_of(rows))
    at_cutoff = _shown_cutoff(view, rows)
    sheet = board_sheet(view, at_cutoff)
    notes = [*sheet.notes, *_warnings(result, at_cutoff)]
    return Sheet(sheet.title, sheet.columns, sheet.rows, (), notes, is_narrow=True)


def leaderboard_sheets(result: EvaluationResult, rows: Sequence[Row]) -> list[Sheet]:
    """Return the tables of an evaluation: one cut-off in full, then the primary metric over all."""
    view = View(result, _split_of(rows))
    at_cutoff = _shown_cutoff(view, rows)
    cutoffs = sorted({row["top_k"] for row in rows})
    names = [row["retriever"] for row in at_cutoff]
    sheets = [
        summary_sheet(result, rows),
        _curve(view, rows, cutoffs) if len(cutoffs) > 1 else None,
        interval_sheet(view, rows),
        answerability_sheet(result, names),
        similarity_sheet(result, at_cutoff),
        *answer_sheets(result, view.split),
        *headline_sheets(result, view.split),
        *sampled_sheets(result)[:1],
    ]
    return [sheet for sheet in sheets if sheet is not None]


def _split_of(rows: Sequence[Row]) -> str | None:
    """Return the split that rows are of, as it is asked for; None: queries are not split."""
    return None if rows[0]["split"] == ALL else str(rows[0]["split"])


def _shown_cutoff(view: View, rows: Sequence[Row]) -> list[Row]:
    """Return the rows at the primary cut-off, else at the deepest that was selected."""
    cutoffs = {row["top_k"] for row in rows}
    top_k = view.cutoff if view.cutoff in cutoffs else max(cutoffs)
    return [row for row in rows if row["top_k"] == top_k]


def _warnings(result: EvaluationResult, rows: Iterable[Row]) -> Iterator[str]:
    """Yield lines on what a mean does not show."""
    authors = authors_note(result.queries)
    if authors is not None:
        yield authors
    entries = result.evaluation.entries_of("external_units")
    own_chunks = {entry.partition["retriever"] for entry in entries}
    for row in rows:
        name = row["retriever"]
        if CHOSEN_WEIGHTS.name in row:
            yield f"{name}: weights chosen on dev: {row[CHOSEN_WEIGHTS.name]}"
        if row["position"] is None:
            yield (
                f"{name}: not ranked, its parameters were chosen on {row['split']}; "
                f"`--split {TEST}` ranks it"
            )
        if row["n_failed"]:
            yield (
                f"{name} !: failed on {row['n_failed']} of {row['n_attempted']} queries, which are "
                "in no mean"
            )
        if row["n_empty"]:
            yield (
                f"{name}: nothing retrieved for {row['n_empty']} queries; those with a relevant "
                "document count 0"
            )
        if (row.get("n_tied") or 0) > MIN_TIED_SHARE * row["n_queries"]:
            yield (
                f"{name}: equal scores on both sides of the cut in {row['n_tied']} of "
                f"{row['n_queries']} queries; `leaderboard --ties` shows what their order is worth"
            )
        if row["n_unreachable"]:
            absent = row.get("n_not_in_corpus")
            of_them = f" ({absent} of them in no document of the corpus)" if absent else ""
            chunk = "chunk that it returned" if name in own_chunks else "chunk"
            yield (
                f"{name}: {row['n_unreachable']} evidences lie in no {chunk}{of_them}, and stay in "
                "the denominator of recall"
            )


def answerability_sheet(result: EvaluationResult, retrievers: Sequence[str]) -> Sheet | None:
    """Return a row a retriever and split; None where no query is said to be unanswerable."""
    rows = [row for row in result.rows_of("answerability") if row["retriever"] in retrievers]
    if not rows:
        return None
    rows.sort(key=lambda row: (retrievers.index(str(row["retriever"])), str(row["split"])))
    has_splits = any(row["split"] != "all" for row in rows)
    columns = (
        Column("retriever", "retriever", TEXT),
        *([Column("split", "split", TEXT, is_whole=True)] if has_splits else []),
        Column("auroc", "auroc", help="how well the best score tells the two apart; 0.5: not"),
        Column("threshold", "threshold", help="queries at or above it are answered"),
        Column("coverage", "coverage", help="of the answerable queries, those answered"),
        Column("rejected", "rejected", help="of the unanswerable queries, those not answered"),
    )
    counts = f"{rows[0]['n_answerable']} answerable, {rows[0]['n_unanswerable']} not"
    title = "unanswerable queries, told by the best score"
    title = title if has_splits else f"{title} ({counts})"
    return Sheet(title, columns, rows, name="answerability")


def answerability(view: View) -> Context | None:
    """Return the section of the page; None where no query is said to be unanswerable."""
    sheet = answerability_sheet(view.result, view.retrievers) if view.result.has_metrics else None
    return None if sheet is None else {"sheet": sheet}
