"""``rag-assets score --dialect`` and ``--explain-dialects``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rag_assets.cli.terminal import messages, output, print_data, print_line
from rag_assets.errors import UsageError
from rag_assets.evaluation.dialects import DIALECTS
from rag_assets.evaluation.dialects.dialect import (
    Dialect,
    Outcome,
    ToolInput,
    repetitions,
    tool_input,
)
from rag_assets.evaluation.dialects.explain import explain
from rag_assets.evaluation.dialects.ranx import LARGEST_STABLE
from rag_assets.evaluation.label_files import read_labels
from rag_assets.evaluation.metric_names import split_metrics
from rag_assets.evaluation.run_files import read_hits
from rag_assets.report.formats import Rows, as_json, columns_of, formatted
from rag_assets.report.rows_view import rows_view

SHOWN_REPETITIONS = 20


def print_dialect(
    name: str, run_file: Path, qrels_file: Path, metrics: str | None, per_query: bool, form: str
) -> None:
    """Print a tool's numbers under its own names, and on stderr what stands behind them."""
    dialect = DIALECTS[name]
    asked = names_in(metrics) if metrics is not None else dialect.defaults
    parsed = {name: dialect.parse(name) for name in asked}
    hits, listed = read_hits(run_file)
    data = tool_input(hits, listed, read_labels(qrels_file))
    outcomes = {name: dialect.outcome(data, metric) for name, metric in parsed.items()}
    means = {name: outcome.mean for name, outcome in outcomes.items()}
    if per_query:
        rows = [
            {"query_id": query.query_id}
            | {name: outcome.per_query[query.query_id] for name, outcome in outcomes.items()}
            for query in data.judged
        ]
        print_rows(rows, form)
    else:
        print_means(means, form)
    _print_repetitions(data)
    _print_notes(dialect, data, outcomes)


def print_explanation(run_file: Path, qrels_file: Path, metrics: str, form: str) -> None:
    """Print each query for which a tool's value is not ours, with the reason."""
    labels = read_labels(qrels_file)
    hits, listed = read_hits(run_file)
    data = tool_input(hits, listed, labels)
    rows = explain(data, labels.judgments, names_in(metrics))
    print_rows(rows, form)
    _print_repetitions(data)
    queries = len({row["query_id"] for row in rows})
    total = len(data.judged)
    say = f"{len(rows)} values of {queries} queries differ from ours; {total} queries compared"
    messages().print(say)


def names_in(metrics: str) -> Sequence[str]:
    """Return the names of a comma-separated list.

    Raises:
        UsageError: there is none.
    """
    names = split_metrics(metrics)
    if not names:
        raise UsageError("--metrics names no metric")
    return names


def print_means(means: dict[str, float | None], form: str) -> None:
    """Print a line for each metric, or the one object or row that they are."""
    if form == "json":
        print_data(as_json(means))
        return
    if form != "table":
        print_data(formatted([means], form))
        return
    width = max(len(name) for name in means)
    for name, value in means.items():
        print_line(f"{name:<{width}}  {'-' if value is None else format(value, '.4f')}")


def print_rows(rows: Rows, form: str) -> None:
    """Print rows, as a table for a terminal or in another form."""
    if form == "table" and rows:
        output().print(rows_view(rows, columns_of(rows)))
    else:
        print_data(formatted(rows, form))


def _print_repetitions(data: ToolInput) -> None:
    found = list(repetitions(data))
    for query_id, item, count in found[:SHOWN_REPETITIONS]:
        say = f"query '{query_id}': document '{item}' stands {count} times"
        messages().print(say, soft_wrap=True)
    if len(found) > SHOWN_REPETITIONS:
        more = len(found) - SHOWN_REPETITIONS
        messages().print(f"... and {more} more repeated documents")


def _print_notes(dialect: Dialect, data: ToolInput, outcomes: dict[str, Outcome]) -> None:
    for name, outcome in outcomes.items():
        if outcome.mean is None:
            problem = outcome.problem or "no query has a value"
            messages().print(f"{name} has no value: {problem}", soft_wrap=True)
    averaged = sum(any(_has(o, q.query_id) for o in outcomes.values()) for q in data.judged)
    parts = [f"as {dialect.package}", f"{averaged} of {len(data.judged)} queries have a value"]
    if data.strangers:
        parts.append(f"{len(data.strangers)} of the run not in the qrels")
    if dialect.name == "ranx" and (open_order := _long_ties(data)):
        parts.append(f"ranx's own order of equal scores is not stable in {open_order} queries")
    messages().print("; ".join(parts))


def _has(outcome: Outcome, query_id: str) -> bool:
    return outcome.per_query[query_id] is not None


def _long_ties(data: ToolInput) -> int:
    """Return how many lists are longer than ranx sorts in a stable way, and hold equal scores."""
    scores = [list(query.scores.values()) for query in data.judged]
    return sum(len(each) > LARGEST_STABLE and len(set(each)) < len(each) for each in scores)
