"""Scores any run file, like trec_eval, or as another tool counts; compares several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rag_assets.answers.prediction_files import read_answers, read_na_probs
from rag_assets.cli.commands_files import DEFAULT_METRICS, SQUAD
from rag_assets.cli.options import refuse_given
from rag_assets.cli.terminal import messages, output, print_data, print_line, print_note
from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.dialects import DIALECTS, squad_v2_official
from rag_assets.evaluation.dialects.tools import (
    Dialect,
    Outcome,
    ToolInput,
    repetitions,
    tool_input,
)
from rag_assets.evaluation.label_files import Labels, read_labels
from rag_assets.evaluation.metric_names import split_metrics
from rag_assets.evaluation.run_files import UNIT_COLUMNS, read_run_file, read_run_rows
from rag_assets.evaluation.score import (
    RunScores,
    Scores,
    checked_metric,
    nothing_shared,
    score,
    score_runs,
    tie_rows,
)
from rag_assets.evaluation.ties import BOUNDED
from rag_assets.report.formats import Rows, as_json, columns_of, formatted
from rag_assets.report.sheet import P_VALUE, SIGNED, TEXT, Column, Sheet
from rag_assets.report.terminal_table import rows_view, sheets_view
from rag_assets.statistics.comparisons import is_significant
from rag_assets.statistics.paired_tests import ALPHA

SHOWN_REPETITIONS = 20


def score_files(
    run_files: tuple[str, ...],
    qrels_file: Path,
    metrics: str | None,
    per_query: bool,
    trec_mean: bool,
    dialect: str | None,
    na_prob_file: Path | None,
    ties: bool,
    form: str,
) -> None:
    """Score one run file against qrels, or compare several and test their differences."""
    named = _named_runs(run_files)
    if len(named) > 1:
        alone = ["trec_mean", "dialect", "na_prob_file", "ties"]
        refuse_given(alone, "is of one run; give one --run")
        names = _names_in(metrics or DEFAULT_METRICS)
        labels = read_labels(qrels_file)
        if per_query:
            _print_rows(
                [
                    {"run": name, **row}
                    for name, file in named.items()
                    for row in score(read_run_file(file), labels.judgments, names).per_query
                ],
                form,
            )
        else:
            _print_runs(named, labels, names, form)
        return
    run_file = next(iter(named.values()))
    if trec_mean and dialect:
        raise UsageError("--trec-mean is our own mean; a dialect has another one")
    if ties and (per_query or trec_mean or dialect):
        raise UsageError("--ties shows means over answerable queries; leave out the other flag")
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
    if ties or per_query:
        _print_rows(tie_rows(run, labels.judgments, names) if ties else scores.per_query, form)
    else:
        _print_means(scores.means, form)
    _print_accounting(scores, [*_left_out(scores)])
    if ties:
        print_note(_without_bounds(names))
    print_note(nothing_shared(run, labels.judgments))


def _without_bounds(names: Sequence[str]) -> str | None:
    """Say which metrics `--ties` has no row for; None: it has one for each."""
    unbounded = [name for name in names if checked_metric(name).measure not in BOUNDED]
    if not unbounded:
        return None
    return (
        f"no bounds over ties for {', '.join(unbounded)}; there are some for {', '.join(BOUNDED)}"
    )


def _print_accounting(scores: Scores | RunScores, more: Sequence[str]) -> None:
    """Say what the means are over; on stderr, so that stdout holds nothing but the numbers."""
    parts = [f"{scores.n_queries} queries averaged"]
    if scores.n_unanswerable:
        parts.append(f"{scores.n_unanswerable} without a relevant document")
    messages().print("; ".join([*parts, *more]))


def _left_out(scores: Scores) -> Iterator[str]:
    if scores.n_missing:
        yield f"{scores.n_missing} missing from the run (count 0)"
    if scores.n_unjudged_queries:
        yield f"{scores.n_unjudged_queries} of the run not in the qrels (not scored)"
    tied = [f"{n} at {k}" for k, n in scores.n_tied.items() if n]
    if tied:
        yield f"queries with ties across the cut-off: {', '.join(tied)} (see --ties)"


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
    messages().print("; ".join(parts), soft_wrap=True)


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
    if form != "table":
        print_data(formatted([means], form))
        return
    width = max(len(name) for name in means)
    for name, value in means.items():
        print_line(f"{name:<{width}}  {'-' if value is None else format(value, '.4f')}")


def _print_rows(rows: Rows, form: str) -> None:
    """Print rows, as a table for a terminal or in another form."""
    if form == "table" and rows:
        output().print(rows_view(rows, columns_of(rows)))
    else:
        print_data(formatted(rows, form))


def _print_repetitions(data: ToolInput) -> None:
    repeated = list(repetitions(data))
    for query_id, item, count in repeated[:SHOWN_REPETITIONS]:
        say = f"query '{query_id}': document '{item}' stands {count} times"
        messages().print(say, soft_wrap=True)
    if len(repeated) > SHOWN_REPETITIONS:
        more = len(repeated) - SHOWN_REPETITIONS
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
    messages().print("; ".join(parts))
    if dialect.warning is not None:
        messages().print(f"{dialect.name}: {dialect.warning}", soft_wrap=True)


def _has(outcome: Outcome, query_id: str) -> bool:
    return outcome.per_query[query_id] is not None


ENDINGS = {".gz", ".json", ".jsonl", ".parquet", ".run", ".trec", ".tsv", ".txt"}


def _named_runs(given: Sequence[str]) -> dict[str, Path]:
    """Return name -> file of each ``[NAME=]FILE``; a file that is there may have ``=`` in its name.

    Raises:
        UsageError: two runs have one name, or a name is empty.
    """
    runs: dict[str, Path] = {}
    for text in given:
        name, sign, file = text.partition("=")
        if not sign or Path(text).exists():
            name, file = _name_of(Path(text)), text
        if not name.strip() or not file:
            raise UsageError(f"--run takes FILE or NAME=FILE; found {text!r}")
        if name in runs:
            raise UsageError(f"two runs are called {name!r}; name them: --run NAME=FILE")
        runs[name] = Path(file)
    return runs


def _name_of(file: Path) -> str:
    """Return a file's name without the endings of runs."""
    while file.suffix in ENDINGS and file.stem:
        file = file.with_suffix("")
    return file.name


def _print_runs(
    named: Mapping[str, Path], labels: Labels, metrics: Sequence[str], form: str
) -> None:
    """Print means with intervals, and all pairs with their tests."""
    runs = {name: read_run_file(file) for name, file in named.items()}
    scores = score_runs(runs, labels.judgments, metrics)
    if form == "table":
        output().print(sheets_view(_sheets(scores)))
    elif form == "json":
        print_data(as_json({"means": scores.means, "pairs": scores.pairs}))
    elif form == "csv":
        print_data(formatted(scores.means, form))
        print_note("one CSV is one table, that of the means; --format json has the tests too")
    else:
        print_data(f"{formatted(scores.means, form)}\n{formatted(scores.pairs, form)}")
    missing = {name: n for name, n in scores.n_missing.items() if n}
    _print_accounting(scores, [f"{n} missing from {name} (count 0)" for name, n in missing.items()])
    print_note(scores.caveat)
    for name, run in runs.items():
        strange = nothing_shared(run, labels.judgments)
        print_note(None if strange is None else f"{name}: {strange}")


def _sheets(scores: RunScores) -> Iterator[Sheet]:
    """Yield a table of means and one of pairs for each metric."""
    ends, interval = ("low", "high"), "95 % interval"
    pairs = (
        Column("pair", "pair", TEXT),
        Column(
            *("difference", "difference", SIGNED),
            bounds=ends,
            interval=interval,
            mark="mark",
            is_required=True,
        ),
        Column("p_randomisation", "p", P_VALUE),
        Column("p_adjusted", "Holm", P_VALUE),
        Column("won", "won", "d"),
        Column("lost", "lost", "d"),
    )
    for metric in scores.metrics:
        means = [row for row in scores.means if row["metric"] == metric]
        mean = Column("mean", metric, bounds=ends, interval=interval, is_required=True)
        columns = (Column("run", "run", TEXT), mean)
        yield Sheet(f"{metric}, {scores.n_queries} queries", columns, means)
        lines = [
            {**row, "pair": f"{row['run_b']} - {row['run_a']}", "mark": "*" * is_significant(row)}
            for row in scores.pairs
            if row["metric"] == metric
        ]
        yield Sheet("", pairs, lines)
    yield Sheet("", (), (), notes=[f"* p < {ALPHA} after Holm over the pairs of a metric"])
