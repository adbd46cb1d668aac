"""Scores any run file, like trec_eval, or as another tool counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rag_assets.answers.prediction_files import read_answers, read_na_probs
from rag_assets.cli.data_commands import DEFAULT_METRICS, SQUAD
from rag_assets.cli.terminal import print_data, print_line, print_message, print_note, print_rows
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
from rag_assets.evaluation.score import (
    Scores,
    nothing_shared,
    score,
)
from rag_assets.report.formats import Rows, as_json, columns_of, formatted
from rag_assets.report.latex import sheets_latex
from rag_assets.report.sheet import TEXT, Column, Sheet
from rag_assets.report.terminal_table import rows_sheet

SHOWN_REPETITIONS = 20


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
        raise UsageError("--trec-mean is our own mean; a dialect has another one")
    if dialect == SQUAD:
        _print_squad(run_file, qrels_file, na_prob_file, metrics, per_query, form)
        return
    if na_prob_file is not None:
        raise UsageError(f"--na-prob-file is for --dialect {SQUAD}")
    if dialect:
        _print_dialect(dialect, run_file, qrels_file, metrics, per_query, form)
        return
    names = _names_in(metrics if metrics is not None else DEFAULT_METRICS)
    run, labels = read_run_file(run_file), read_labels(qrels_file)
    scores = score(run, labels.judgments, names, trec_mean=trec_mean)
    if per_query:
        _print_rows(scores.per_query, form)
    else:
        _print_means(scores.means, form)
    _print_accounting(scores, [*_left_out(scores)])
    print_note(nothing_shared(run, labels.judgments))


def _print_accounting(scores: Scores, more: Sequence[str]) -> None:
    """Say what the means are over; on stderr, so that stdout holds nothing but the numbers."""
    parts = [f"{scores.n_queries} queries averaged"]
    if scores.n_unanswerable:
        parts.append(f"{scores.n_unanswerable} without a relevant document")
    print_message("; ".join([*parts, *more]))


def _left_out(scores: Scores) -> Iterator[str]:
    if scores.n_missing:
        yield f"{scores.n_missing} missing from the run (count 0)"
    if scores.n_unjudged_queries:
        yield f"{scores.n_unjudged_queries} of the run not in the qrels (not scored)"
    tied = [f"{n} at {k}" for k, n in scores.n_tied.items() if n]
    if tied:
        yield f"queries with ties across the cut-off: {', '.join(tied)}"


def _print_dialect(
    name: str, run_file: Path, qrels_file: Path, metrics: str | None, per_query: bool, form: str
) -> None:
    """Print a tool's numbers under its own names, and on stderr what stands behind them."""
    dialect = DIALECTS[name]
    asked = _names_in(metrics) if metrics is not None else dialect.defaults
    parsed = {name: dialect.parse(name) for name in asked}
    run = read_run_rows(run_file, UNIT_COLUMNS, repeats=True)
    data = tool_input(run.hits, run.listed, read_labels(qrels_file))
    outcomes = {name: dialect.outcome(data, metric) for name, metric in parsed.items()}
    means = {name: outcome.mean for name, outcome in outcomes.items()}
    if per_query:
        rows = [
            {"query_id": query.query_id}
            | {name: outcome.per_query[query.query_id] for name, outcome in outcomes.items()}
            for query in data.judged
        ]
        _print_rows(rows, form)
    else:
        _print_means(means, form)
    _print_repetitions(data)
    _print_notes(dialect, data, outcomes)


def _print_squad(
    answers_file: Path,
    golds_file: Path,
    na_prob_file: Path | None,
    metrics: str | None,
    per_query: bool,
    form: str,
) -> None:
    """Print what SQuAD's script prints, and on stderr for which questions there is no answer."""
    golds = squad_v2_official.read_golds(golds_file)
    rows = read_answers(answers_file)
    answers = {query_id: row["answer"] for query_id, row in rows.items() if "answer" in row}
    probs = read_na_probs(na_prob_file) if na_prob_file is not None else None
    scores = squad_v2_official.official_scores(golds, answers, probs)
    names = _names_in(metrics) if metrics is not None else list(scores.values)
    for name in names:
        if name not in scores.values:
            allowed = allowed_names(name, scores.values)
            raise UsageError(f"dialect {SQUAD}: unknown metric {allowed}")
    if per_query:
        values = {query_id: scores.per_question.get(query_id, (None, None)) for query_id in golds}
        _print_rows([{"query_id": q, "exact": e, "f1": f} for q, (e, f) in values.items()], form)
    else:
        _print_means({name: scores.values[name] for name in names}, form)
    parts = [f"as evaluate-v2.0.py; {len(golds) - len(scores.missing)} of {len(golds)} questions"]
    if scores.missing:
        named = ", ".join(scores.missing[:SHOWN_REPETITIONS])
        parts.append(f"without a prediction, and in no mean of all: {named}")
    print_message("; ".join(parts))


def _names_in(metrics: str) -> Sequence[str]:
    """Return the names of a comma-separated list.

    Raises:
        UsageError: there is none.
    """
    names = split_metrics(metrics)
    if not names:
        raise UsageError("--metrics names no metric")
    return names


def _print_means(means: dict[str, float | None], form: str) -> None:
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


def _print_rows(rows: Rows, form: str) -> None:
    """Print a row a query."""
    print_rows(rows, form, lambda: [rows_sheet(rows, columns_of(rows))])


def _print_repetitions(data: ToolInput) -> None:
    repeated = list(repetitions(data))
    for query_id, item, count in repeated[:SHOWN_REPETITIONS]:
        say = f"query '{query_id}': document '{item}' stands {count} times"
        print_message(say)
    if len(repeated) > SHOWN_REPETITIONS:
        more = len(repeated) - SHOWN_REPETITIONS
        print_message(f"... and {more} more repeated documents")


def _print_notes(dialect: Dialect, data: ToolInput, outcomes: dict[str, Outcome]) -> None:
    for name, outcome in outcomes.items():
        if outcome.mean is None:
            problem = outcome.problem or "no query has a value"
            print_message(f"{name} has no value: {problem}")
    averaged = sum(any(_has(o, q.query_id) for o in outcomes.values()) for q in data.judged)
    parts = [f"as {dialect.package}", f"{averaged} of {len(data.judged)} queries have a value"]
    if data.strangers:
        parts.append(f"{len(data.strangers)} of the run not in the qrels")
    print_message("; ".join(parts))
    if dialect.warning is not None:
        print_message(f"{dialect.name}: {dialect.warning}")


def _has(outcome: Outcome, query_id: str) -> bool:
    return outcome.per_query[query_id] is not None
