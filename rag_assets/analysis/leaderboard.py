"""The leaderboard: its rows for programs, and its sheets for every face."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rag_assets.analysis.findings import chosen_analyzers, inputs_of, mean_name, read_by
from rag_assets.analysis.overlaps import similarity_sheet
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.evaluation.query_facts import ALL, TEST
from rag_assets.labels.questions import authors_note
from rag_assets.pipeline.selection import Selection
from rag_assets.schemas import LEADERBOARD
from rag_assets.sheets.environment import meaning
from rag_assets.sheets.formats import interval_name
from rag_assets.sheets.sheet import TEXT, VALUE, Column, Sheet, better_of, form_of, metric_column
from rag_assets.statistics.paired_tests import ALPHA

MEANINGS = {column.name: column.meaning for column in LEADERBOARD.columns}

COST_TIME = Column(
    "cost_time",
    "cost_time",
    ".2f",
    help="mean ms per query at this top_k, from text to hits, with rewriting included",
    is_page_only=True,
)

CHOSEN_WEIGHTS = Column(
    "chosen_weights",
    "chosen weights",
    TEXT,
    help="weights of the inputs of a tuned fusion, chosen on dev",
    is_page_only=True,
    is_sparse=True,
)
"""In a line below the table of a terminal too."""

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
            help="median time of a single query, from text to hits, with every step included",
        ),
        COST_TIME,
        CHOSEN_WEIGHTS,
        Column(
            "n_failed", "failed", "d", help=MEANINGS["n_failed"], is_page_only=True, is_sparse=True
        ),
    )


NEAR = "~"
"""Marks a retriever that is not shown to be worse than the best."""

FAILED = " !"
"""Marks one whose means leave out queries on which it failed."""


def selected_rows(result: EvaluationResult, selection: Selection) -> list[Row]:
    """Return the rows of the leaderboard of the selected cells, best retriever first."""
    return [
        row
        for row in result.rows
        if row["retriever"] in selection.retrievers and row["top_k"] in selection.top_k
    ]


def board_sheet(result: EvaluationResult, rows: Sequence[Row], at: str | None = None) -> Sheet:
    """Return all metrics of rows of one cut-off, with their intervals.

    Args:
        result: the evaluation.
        rows: cells of its leaderboard, best retriever first.
        at: stands behind the names of metrics; None: a star behind the primary one.
    """
    top_k = rows[0]["top_k"]
    measures = [name for name in result.measures if any(name in row for row in rows)]
    columns = (
        POSITION,
        RETRIEVER,
        *(
            metric_column(
                name,
                "" if at is None else f"{name}{at}",
                meaning(name),
                is_primary=name == result.primary.column,
                has_bounds=True,
            )
            for name in measures
        ),
        *measured_columns(top_k),
    )
    lines = [_line(result, row, measures) for row in rows]
    legend = f"{NEAR} not shown to be worse than the best on {result.primary}"
    notes = [f"{legend} (p >= {ALPHA} after Holm)"] if any(row["near"] for row in lines) else []
    # One blank between columns: six metrics, tokens and a short name fit into 80 characters.
    return Sheet(_title(result, rows), columns, lines, notes=notes, is_narrow=True, name="board")


def _line(result: EvaluationResult, row: Row, measures: Iterable[str]) -> Row:
    name, top_k = row["retriever"], row["top_k"]
    bounds = {
        f"{measure}_{bound}": interval[bound]
        for measure in measures
        if (interval := result.intervals.get((name, top_k, measure))) is not None
        for bound in ("low", "high")
    }
    return {
        **row,
        **bounds,
        "near": NEAR if name in result.near else "",
        "failed_mark": FAILED if row.get("n_failed") else "",
        "speed": result.speed.get(name),
    }


def _title(result: EvaluationResult, rows: Sequence[Row]) -> str:
    fullest = max(rows, key=lambda row: int(row["n_queries"]))
    n_queries, left_out = fullest["n_queries"], not_averaged(fullest)
    where = f"{fullest['split']}, " if fullest["split"] != ALL else ""
    name = result.evaluation.experiment
    title = f"{name}: {where}top_k {fullest['top_k']}, {mean_name(result)} over {n_queries} queries"
    title = f"{title} ({left_out} left out)" if left_out else title
    return title + result.of_sample


def not_averaged(row: Row) -> str:
    """Return how many queries of a row are in no mean, and why: ``24 unanswerable``; or empty.

    A row of an older evaluation lacks ``n_unlabelled``.
    """
    counts = {"unanswerable": row["n_unanswerable"], "without labels": row.get("n_unlabelled")}
    return ", ".join(f"{number} {why}" for why, number in counts.items() if number)


def _curve(result: EvaluationResult, rows: Sequence[Row], cutoffs: Sequence[int]) -> Sheet:
    """Return the primary metric over all cut-offs."""
    lines: dict[str, Row] = {}
    for row in rows:
        name = row["retriever"]
        line = lines.setdefault(name, {"retriever": name, "position": row["position"]})
        line[f"@{row['top_k']}"] = row.get(result.primary.column)
        line[f"@{row['top_k']} mark"] = FAILED if row.get("n_failed") else ""
    form, better = form_of(result.primary.column), better_of(result.primary.column)
    columns = (
        Column("retriever", "retriever", TEXT),
        *(Column(f"@{k}", f"@{k}", form, mark=f"@{k} mark", better=better) for k in cutoffs),
    )
    return Sheet(f"{result.primary.column} by top_k", columns, list(lines.values()))


def interval_sheet(result: EvaluationResult, rows: Sequence[Row]) -> Sheet | None:
    """Return the primary metric of each retriever with its interval.

    None for an evaluation without intervals, or whose primary cell is not among the rows.
    """
    lines = [
        {**interval, "retriever": name}
        for name in dict.fromkeys(row["retriever"] for row in rows)
        if (interval := result.intervals.get((name, result.cutoff, result.primary.column)))
        and interval["mean"] is not None
    ]
    if not lines:
        return None
    title, name = str(result.primary), interval_name(result.confidence or 0.95)
    mean = Column("mean", title, bounds=("low", "high"), interval=name, is_required=True)
    return Sheet("", (Column("retriever", "retriever", TEXT), mean), lines)


MIN_EMPTY_SHARE = 0.1
"""Of so many queries without a hit the analyzer is named."""

MIN_TIED_SHARE = 0.05
"""Ties are spoken of from this share of the averaged queries on."""


def summary_sheet(result: EvaluationResult, rows: Sequence[Row]) -> Sheet:
    """Return one table: all metrics at the primary cut-off, and what limits them."""
    at_cutoff = _shown_cutoff(result, rows)
    sheet = board_sheet(result, at_cutoff)
    notes = [*sheet.notes, *_warnings(result, at_cutoff)]
    return Sheet(sheet.title, sheet.columns, sheet.rows, (), notes, is_narrow=True)


def leaderboard_sheets(result: EvaluationResult, rows: Sequence[Row]) -> list[Sheet]:
    """Return the tables of an evaluation: one cut-off in full, then the primary metric over all."""
    at_cutoff = _shown_cutoff(result, rows)
    cutoffs = sorted({row["top_k"] for row in rows})
    sheets = [
        summary_sheet(result, rows),
        _curve(result, rows, cutoffs) if len(cutoffs) > 1 else None,
        interval_sheet(result, rows),
        answerability_sheet(result, [row["retriever"] for row in at_cutoff]),
        similarity_sheet(result, at_cutoff),
    ]
    return [sheet for sheet in sheets if sheet is not None]


def _shown_cutoff(result: EvaluationResult, rows: Sequence[Row]) -> list[Row]:
    """Return the rows at the primary cut-off, else at the deepest that was selected."""
    cutoffs = {row["top_k"] for row in rows}
    top_k = result.cutoff if result.cutoff in cutoffs else max(cutoffs)
    return [row for row in rows if row["top_k"] == top_k]


def _warnings(result: EvaluationResult, rows: Sequence[Row]) -> Iterator[str]:
    """Yield lines on what a mean does not show."""
    if (authors := authors_note(result.queries)) is not None:
        yield authors
    perturbed = ", ".join(row["retriever"] for row in rows if row["retriever"] in result.perturbed)
    if perturbed:
        yield f"not ranked, because they search perturbed queries: {perturbed}"
    named: dict[str, list[str]] = {}
    for name, text in _limits(result, rows):
        named.setdefault(text, []).append(name)
    yield from (f"{', '.join(names)}: {text}" for text, names in named.items())
    tied = [row for row in rows if (row.get("n_tied") or 0) > MIN_TIED_SHARE * row["n_queries"]]
    if tied:
        most = max(tied, key=lambda row: int(row["n_tied"]))
        up_to = "up to " * any(row["n_tied"] < most["n_tied"] for row in tied)
        yield (
            f"{', '.join(row['retriever'] for row in tied)}: equal scores on both sides of the cut "
            f"in {up_to}{most['n_tied']} of {most['n_queries']} queries; `rag-assets leaderboard "
            "PATH --ties` shows how much their order matters"
        )


def _limits(result: EvaluationResult, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield a retriever and what its means do not show; the same of several is said once."""
    entries = result.evaluation.entries_of("external_hits")
    searches = {entry.partition["retriever"]: result.manifest_of(entry) for entry in entries}
    own_chunks = {name for name, hits in searches.items() if hits and "own" not in hits.config}
    analyzers = chosen_analyzers(result)
    for row in rows:
        name, n_attempted = row["retriever"], row["n_attempted"]
        if CHOSEN_WEIGHTS.name in row:
            yield name, f"weights chosen on dev: {row[CHOSEN_WEIGHTS.name]}"
        if row["position"] is None and name not in result.perturbed:
            chosen = f"not ranked, its parameters were chosen on {row['split']}"
            yield name, f"{chosen}; `--split {TEST}` ranks it"
        if n := row["n_failed"]:
            yield f"{name} !", f"failed on {n} of {n_attempted} queries, which count in no mean"
        if n := row["n_empty"]:
            is_part = n >= MIN_EMPTY_SHARE * n_attempted
            by = f" (analyzer {analyzers[name]})" if is_part and name in analyzers else ""
            nothing = f"nothing retrieved for {n} of {n_attempted} queries{by}"
            yield name, f"{nothing}; those with a relevant document count as 0"
        if n := row["n_unreachable"]:
            absent = row.get("n_not_in_corpus")
            of_them = f" ({absent} of them in no document of the corpus)" if absent else ""
            asked = [source for source in read_by(result, name) if not inputs_of(result, source)]
            by = "it" if name in asked else ", ".join(dict.fromkeys(asked))
            chunk = f"chunk that {by} returned" if own_chunks.issuperset(asked) else "chunk"
            counts = "they still count in the denominator of recall"
            yield name, f"evidences in no {chunk}: {n}{of_them}; {counts}"


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
        Column("auroc", "auroc", help="how well the best score separates the two; 0.5: not at all"),
        Column("threshold", "threshold", VALUE, help="queries of this score or more are answered"),
        Column("coverage", "coverage", help="share of answerable queries that are answered"),
        Column("rejected", "rejected", help="share of unanswerable queries that are not answered"),
    )
    counts = f"{rows[0]['n_answerable']} answerable, {rows[0]['n_unanswerable']} not"
    title = "unanswerable queries, detected by the best score"
    title = title if has_splits else f"{title} ({counts})"
    return Sheet(title, columns, rows, name="answerability")


def answerability(result: EvaluationResult) -> Row | None:
    """Return the section of the page; None where no query is said to be unanswerable."""
    sheet = answerability_sheet(result, result.retrievers) if result.has_metrics else None
    return None if sheet is None else {"sheet": sheet}
