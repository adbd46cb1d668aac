"""Scores any run file, like trec_eval, or as another tool counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rag_assets.answers.predictions import read_answers, read_na_probs
from rag_assets.cli.data_commands import DEFAULT_METRICS, SQUAD
from rag_assets.cli.terminal import print_data, print_line, print_message, print_rows
from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.dialects import DIALECTS, squad_v2_official
from rag_assets.evaluation.dialects.tools import (
    Dialect,
    Outcome,
    ToolInput,
    repetitions,
    tool_input,
)
from rag_assets.evaluation.label_files import read_labels
from rag_assets.evaluation.metric_names import split_metrics
from rag_assets.evaluation.run_files import UNIT_COLUMNS, read_run_file, read_run_rows
from rag_assets.evaluation.score import Scores, nothing_shared, score
from rag_assets.sheets.formats import Rows, as_json, columns_of, formatted
from rag_assets.sheets.sheet import MEAN, TEXT, Column, Sheet, sheets_latex

MAX_REPETITIONS = 20


def score_files(
    run_file: Path,
    qrels_file: Path,
    metrics: str | None,
    per_query: bool,
    trec_mean: bool,
    dialect: str | None,
    na_prob_file: Path | None,
    form: str,
) -> None:
    """Score a run file against qrels."""
    if trec_mean and dialect:
        raise UsageError("--trec-mean does not apply to --dialect, which averages in its own way")
    if na_prob_file is not None and dialect != SQUAD:
        raise UsageError(f"--na-prob-file is for --dialect {SQUAD}")
    names = None if metrics is None else _names_in(metrics)
    if dialect == SQUAD:
        scored = _squad(run_file, qrels_file, na_prob_file, names)
    elif dialect:
        scored = _dialect(DIALECTS[dialect], run_file, qrels_file, names)
    else:
        scored = _scored(run_file, qrels_file, names, trec_mean=trec_mean)
    if per_query:
        print_rows(scored.rows, form, lambda: [_rows_sheet(scored.rows)])
    else:
        _print_means(scored.means, form)
    for note in scored.notes:
        print_message(note)


class _Scored(NamedTuple):
    """What is printed: means, a row a query, and on stderr what the means are over."""

    means: Mapping[str, float | None]
    rows: Rows
    notes: Sequence[str]


def _scored(
    run_file: Path, qrels_file: Path, names: Sequence[str] | None, *, trec_mean: bool
) -> _Scored:
    run, labels = read_run_file(run_file), read_labels(qrels_file)
    scores = score(run, labels.judgments, names or _names_in(DEFAULT_METRICS), trec_mean=trec_mean)
    parts = [f"{scores.n_queries} queries averaged"]
    if scores.n_unanswerable:
        parts.append(f"{scores.n_unanswerable} without a relevant document")
    nothing = nothing_shared(run, labels.judgments)
    notes = ["; ".join([*parts, *_left_out(scores)]), *([f"note: {nothing}"] if nothing else [])]
    return _Scored(scores.means, scores.per_query, notes)


def _left_out(scores: Scores) -> Iterator[str]:
    if scores.n_missing:
        yield f"{scores.n_missing} missing from the run (count 0)"
    if scores.n_unjudged_queries:
        yield f"{scores.n_unjudged_queries} of the run not in the qrels (not scored)"
    tied = [f"{n} at {k}" for k, n in scores.n_tied.items() if n]
    if tied:
        yield f"queries with ties across the cut-off: {', '.join(tied)}"


def _dialect(
    dialect: Dialect, run_file: Path, qrels_file: Path, names: Sequence[str] | None
) -> _Scored:
    """Return a tool's numbers under its own names, and what stands behind them."""
    parsed = {name: dialect.parse(name) for name in names or dialect.defaults}
    run = read_run_rows(run_file, UNIT_COLUMNS, repeats=True)
    data = tool_input(run.hits, run.listed, read_labels(qrels_file))
    outcomes = {name: dialect.outcome(data, metric) for name, metric in parsed.items()}
    rows = [
        {"query_id": query.query_id}
        | {name: outcome.per_query[query.query_id] for name, outcome in outcomes.items()}
        for query in data.judged
    ]
    means = {name: outcome.mean for name, outcome in outcomes.items()}
    return _Scored(means, rows, [*_repetitions(data), *_dialect_notes(dialect, data, outcomes)])


def _repetitions(data: ToolInput) -> Iterator[str]:
    repeated = list(repetitions(data))
    for query_id, item, count in repeated[:MAX_REPETITIONS]:
        yield f"query '{query_id}': document '{item}' occurs {count} times"
    if len(repeated) > MAX_REPETITIONS:
        yield f"... and {len(repeated) - MAX_REPETITIONS} more repeated documents"


def _dialect_notes(
    dialect: Dialect, data: ToolInput, outcomes: Mapping[str, Outcome]
) -> Iterator[str]:
    for name, outcome in outcomes.items():
        if outcome.mean is None:
            yield f"{name} has no value: {outcome.problem or 'no query has a value'}"
    ids, counts = [query.query_id for query in data.judged], dict[str, int]()
    for name, outcome in outcomes.items():
        counts[name] = sum(outcome.per_query[query_id] is not None for query_id in ids)
    text = f"{max(counts.values())} of {len(ids)} queries have a value"
    if len(set(counts.values())) > 1:
        each = ", ".join(f"{count} in {name}" for name, count in counts.items())
        text = f"queries with a value, of {len(ids)}: {each}"
    parts = [f"as {dialect.package}", text]
    if data.strangers:
        parts.append(f"{len(data.strangers)} of the run not in the qrels")
    yield "; ".join(parts)
    if dialect.warning is not None:
        yield f"{dialect.name}: {dialect.warning}"


def _squad(
    answers_file: Path, golds_file: Path, na_prob_file: Path | None, names: Sequence[str] | None
) -> _Scored:
    """Return what SQuAD's script prints, and for which questions there is no answer."""
    golds = squad_v2_official.read_golds(golds_file)
    rows = read_answers(answers_file)
    answers = {query_id: row["answer"] for query_id, row in rows.items() if "answer" in row}
    probs = read_na_probs(na_prob_file) if na_prob_file is not None else None
    scores = squad_v2_official.official_scores(golds, answers, probs)
    for name in names or ():
        if name not in scores.values:
            allowed = allowed_names(name, scores.values)
            raise UsageError(f"dialect {SQUAD}: unknown metric {allowed}")
    values = {query_id: scores.per_question.get(query_id, (None, None)) for query_id in golds}
    parts = [f"as evaluate-v2.0.py; {len(golds) - len(scores.missing)} of {len(golds)} questions"]
    if scores.missing:
        named = ", ".join(scores.missing[:MAX_REPETITIONS])
        parts.append(f"without a prediction, and in no mean of all: {named}")
    return _Scored(
        {name: scores.values[name] for name in names or scores.values},
        [{"query_id": query, "exact": exact, "f1": f1} for query, (exact, f1) in values.items()],
        ["; ".join(parts)],
    )


def _names_in(metrics: str) -> Sequence[str]:
    """Return the names of a comma-separated list.

    Raises:
        UsageError: there is none.
    """
    names = split_metrics(metrics)
    if not names:
        raise UsageError("--metrics names no metric")
    return names


def _rows_sheet(rows: Rows) -> Sheet:
    """Return all columns of rows; counts and numbers stand to the right."""

    def form(name: str) -> str:
        values = [row[name] for row in rows]
        if any(isinstance(value, float) for value in values):
            return MEAN
        return "d" if any(isinstance(value, int) for value in values) else TEXT

    return Sheet("", [Column(name, name, form(name)) for name in columns_of(rows)], rows)


def _print_means(means: Mapping[str, float | None], form: str) -> None:
    """Print a line for each metric, or the one object or row that they are."""
    if form == "json":
        print_data(as_json(means))
        return
    if form == "latex":
        columns = (Column("metric", "metric", TEXT), Column("mean", "mean"))
        rows = [{"metric": name, "mean": value} for name, value in means.items()]
        print_data(sheets_latex([Sheet("", columns, rows)]))
        return
    if form != "table":
        print_data(formatted([means], form))
        return
    width = max(len(name) for name in means)
    for name, value in means.items():
        print_line(f"{name:<{width}}  {'-' if value is None else format(value, '.4f')}")
