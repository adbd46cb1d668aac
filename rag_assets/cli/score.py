"""``rag-assets score``: score any run file, like trec_eval, or as another tool counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.prediction_files import read_answers, read_na_probs
from rag_assets.cli.options import format_option, refuse_given, store_option
from rag_assets.cli.score_runs import named_runs, print_runs
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
from rag_assets.evaluation.query_facts import DEV, TEST
from rag_assets.evaluation.run_files import UNIT_COLUMNS, read_run_file, read_run_rows
from rag_assets.evaluation.score import Scores, checked_metric, nothing_shared, score, tie_rows
from rag_assets.evaluation.ties import BOUNDED
from rag_assets.pipeline.evaluation_names import open_to_read
from rag_assets.report.formats import Rows, as_json, columns_of, formatted
from rag_assets.report.result import EvaluationResult
from rag_assets.report.terminal_table import rows_view
from rag_assets.store.settings import StoreSettings

SHOWN_REPETITIONS = 20
DEFAULT_METRICS = "ndcg@10,recall@100,map@100,mrr@100,precision@10,hit_rate@10"


@click.command("score")
@click.option(
    "--run",
    "run_files",
    required=True,
    multiple=True,
    metavar="[NAME=]FILE",
    help="TREC run, MS MARCO's three columns, or JSON lines with `retrieved_ids`, all .gz too; or "
    ".parquet, as export-run writes it. Several are compared; NAME is how one is shown, else its "
    "file's name.",
)
@click.option(
    "--qrels",
    "qrels_file",
    required=True,
    type=click.Path(path_type=Path),
    help="TREC qrels, BEIR qrels (.tsv, .jsonl, .parquet), judgments as .jsonl, or AutoRAG's "
    "qa.parquet.",
)
@click.option(
    "--metrics",
    help="Metrics, with commas between, by our names or those of ir_measures or trec_eval; with "
    f"--dialect, by those of that tool.  [default: {DEFAULT_METRICS}]",
)
@click.option("--per-query", is_flag=True, help="One row for each query of the qrels.")
@click.option(
    "--trec-mean",
    is_flag=True,
    help="Average over all queries of the qrels, as trec_eval -c does; without it, over "
    "those with a relevant document.",
)
@click.option(
    "--split",
    type=click.Choice([DEV, TEST]),
    help="Only the queries of this split of --experiment; without it, all of the qrels.",
)
@click.option(
    "--experiment",
    type=click.Path(path_type=Path),
    help="With --split: the experiment whose last evaluation says which queries are in it.",
)
@store_option
@click.option(
    "--dialect",
    type=click.Choice([*DIALECTS, squad_v2_official.NAME]),
    metavar="TOOL",
    help=f"Print that tool's numbers under its names: {', '.join(DIALECTS)} or "
    f"{squad_v2_official.NAME}. With squad_v2_official, --run is a file of "
    "answers and --qrels a SQuAD file.",
)
@click.option(
    "--na-prob-file",
    type=click.Path(path_type=Path),
    help="With squad_v2_official: probability that a question has no answer, as JSON.",
)
@click.option(
    "--ties",
    is_flag=True,
    help="Show how far each mean could move if tied documents were ordered otherwise.",
)
@format_option
def command(
    run_files: tuple[str, ...],
    qrels_file: Path,
    metrics: str | None,
    per_query: bool,
    trec_mean: bool,
    split: str | None,
    experiment: Path | None,
    store: Path | None,
    dialect: str | None,
    na_prob_file: Path | None,
    ties: bool,
    form: str,
) -> None:
    """Score one run file against qrels, or compare several and test their differences.

    Example: rag-assets score --run run.trec --qrels qrels.txt --metrics ndcg@10
    """
    named = named_runs(run_files)
    if split is None:
        refuse_given(["experiment", "store"], "goes with --split")
    else:
        refuse_given(["dialect"], "scores all queries; leave out --split")
    queries = None if split is None else _queries_of(split, experiment, store)
    if len(named) > 1:
        alone = ["trec_mean", "dialect", "na_prob_file", "ties"]
        refuse_given(alone, "is of one run; give one --run")
        names = _names_in(metrics or DEFAULT_METRICS)
        labels = _labels_of(qrels_file, queries)
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
            print_runs(named, labels, names, form)
        return
    run_file = next(iter(named.values()))
    _check_flags(trec_mean, per_query, dialect, ties)
    if dialect == squad_v2_official.NAME:
        _print_squad(run_file, qrels_file, na_prob_file, metrics, per_query, form)
        return
    if na_prob_file is not None:
        raise UsageError(f"--na-prob-file is for --dialect {squad_v2_official.NAME}")
    if dialect:
        _print_dialect(dialect, run_file, qrels_file, metrics, per_query, form)
        return
    names = _names_in(metrics if metrics is not None else DEFAULT_METRICS)
    run, labels = read_run_file(run_file), _labels_of(qrels_file, queries)
    scores = score(run, labels.judgments, names, trec_mean=trec_mean)
    if ties or per_query:
        _print_rows(tie_rows(run, labels.judgments, names) if ties else scores.per_query, form)
    else:
        _print_means(scores.means, form)
    _print_accounting(scores)
    if ties:
        print_note(_without_bounds(names))
    print_note(nothing_shared(run, labels.judgments))


def _queries_of(split: str, path: Path | None, store: Path | None) -> set[str]:
    """Return the ids of the queries of a split, as the last evaluation of an experiment has it."""
    if path is None:
        raise UsageError("--split needs --experiment: its last evaluation knows the splits")
    settings = StoreSettings.resolve(store)
    experiment = open_to_read(path, settings)
    result = EvaluationResult.current(settings.store / experiment.name)
    return set(result.weights(result.chosen_split(split)))


def _labels_of(qrels_file: Path, queries: set[str] | None) -> Labels:
    """Return the judgments of a file; of these queries alone where some are given."""
    labels = read_labels(qrels_file)
    if queries is None:
        return labels
    wanted = pa.array(sorted(queries), pa.string())
    chosen = pc.is_in(labels.judgments["query_id"], wanted)
    if not pc.any(chosen).as_py():
        raise UsageError(f"{qrels_file} has no judgment of a query of the split")
    return labels._replace(judgments=labels.judgments.filter(chosen))


def _without_bounds(names: Sequence[str]) -> str | None:
    """Say which metrics `--ties` has no row for; None: it has one for each."""
    unbounded = [name for name in names if checked_metric(name).measure not in BOUNDED]
    if not unbounded:
        return None
    return (
        f"no bounds over ties for {', '.join(unbounded)}; there are some for {', '.join(BOUNDED)}"
    )


def _check_flags(trec_mean: bool, per_query: bool, dialect: str | None, ties: bool) -> None:
    """Refuse flags that do not go together."""
    if trec_mean and dialect:
        raise UsageError("--trec-mean is our own mean; a dialect has another one")
    if ties and (per_query or trec_mean or dialect):
        raise UsageError("--ties shows means over answerable queries; leave out the other flag")


def _print_accounting(scores: Scores) -> None:
    """Say what the means are over; on stderr, so that stdout holds nothing but the numbers."""
    parts = [f"{scores.n_queries} queries averaged"]
    if scores.n_unanswerable:
        parts.append(f"{scores.n_unanswerable} without a relevant document")
    if scores.n_missing:
        parts.append(f"{scores.n_missing} missing from the run (count 0)")
    if scores.n_unjudged_queries:
        parts.append(f"{scores.n_unjudged_queries} of the run not in the qrels (not scored)")
    tied = [f"{n} at {k}" for k, n in scores.n_tied.items() if n]
    if tied:
        parts.append(f"queries with ties across the cut-off: {', '.join(tied)} (see --ties)")
    messages().print("; ".join(parts))


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
            raise UsageError(f"dialect {squad_v2_official.NAME}: unknown metric {allowed}")
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
