"""``rag-assets score``: score any run file, like trec_eval."""

from __future__ import annotations

from pathlib import Path

import click

from rag_assets.cli.options import format_option
from rag_assets.cli.score_dialects import (
    names_in,
    print_dialect,
    print_explanation,
    print_means,
    print_rows,
)
from rag_assets.cli.terminal import messages
from rag_assets.errors import UsageError
from rag_assets.evaluation.dialects import DIALECTS
from rag_assets.evaluation.label_files import read_labels
from rag_assets.evaluation.metrics import WHOLE_RANKING
from rag_assets.evaluation.run_files import read_run_file
from rag_assets.evaluation.score import Scores, score, tie_rows

DEFAULT_METRICS = "ndcg@10,recall@100,map@100,mrr@100,precision@10,hit_rate@10"


@click.command("score")
@click.option(
    "--run",
    "run_file",
    required=True,
    type=click.Path(path_type=Path),
    help="TREC run, MS MARCO's three columns, JSON lines with `retrieved_ids`, or ranx .json, all "
    ".gz too; or .parquet, as export-run and ranx write it.",
)
@click.option(
    "--qrels",
    "qrels_file",
    required=True,
    type=click.Path(path_type=Path),
    help="TREC qrels, BEIR qrels (.tsv, .jsonl, .parquet), judgments as .jsonl, ranx .json or "
    ".parquet, or AutoRAG's qa.parquet.",
)
@click.option(
    "--metrics",
    help="Names of ours, of ir_measures or of trec_eval, with commas between; with --dialect, of "
    f"that tool.  [default: {DEFAULT_METRICS}]",
)
@click.option("--per-query", is_flag=True, help="One row a query of the qrels.")
@click.option(
    "--trec-mean",
    is_flag=True,
    help="Average over all queries of the qrels, as trec_eval -c does; without it, over "
    "those with a relevant document.",
)
@click.option(
    "--dialect",
    type=click.Choice(list(DIALECTS)),
    help="Print that tool's numbers under its names.",
)
@click.option(
    "--explain-dialects",
    is_flag=True,
    help="Where the tools' numbers differ from ours, query by query, and why.",
)
@click.option(
    "--ties",
    is_flag=True,
    help="Show between which values each mean lies over all orders of tied documents.",
)
@format_option
def command(
    run_file: Path,
    qrels_file: Path,
    metrics: str | None,
    per_query: bool,
    trec_mean: bool,
    dialect: str | None,
    explain_dialects: bool,
    ties: bool,
    form: str,
) -> None:
    """Score a run file against qrels.

    Example: rag-assets score --run run.trec --qrels qrels.txt --metrics ndcg@10
    """
    if trec_mean and (dialect or explain_dialects):
        raise UsageError("--trec-mean is a mean of ours; a dialect has its own")
    if dialect and explain_dialects:
        raise UsageError("--explain-dialects compares all dialects; leave out --dialect")
    if explain_dialects and per_query:
        raise UsageError("--explain-dialects goes query by query; leave out --per-query")
    if ties and (per_query or trec_mean or dialect or explain_dialects):
        raise UsageError("--ties shows means over answerable queries; leave out the other flag")
    if dialect:
        print_dialect(dialect, run_file, qrels_file, metrics, per_query, form)
        return
    wanted = metrics if metrics is not None else DEFAULT_METRICS
    if explain_dialects:
        print_explanation(run_file, qrels_file, wanted, form)
        return
    names = names_in(wanted)
    run, labels = read_run_file(run_file), read_labels(qrels_file)
    scores = score(run, labels.judgments, names, trec_mean=trec_mean)
    if ties or per_query:
        print_rows(tie_rows(run, labels.judgments, names) if ties else scores.per_query, form)
    else:
        print_means(scores.means, form)
    _print_accounting(scores)


def _print_accounting(scores: Scores) -> None:
    """Say what the means are over; on stderr, so that stdout holds nothing but the numbers."""
    parts = [f"{scores.n_queries} queries averaged"]
    if scores.n_unanswerable:
        parts.append(f"{scores.n_unanswerable} without a relevant document")
    if scores.n_missing:
        parts.append(f"{scores.n_missing} missing from the run (count 0)")
    if scores.n_unjudged_queries:
        parts.append(f"{scores.n_unjudged_queries} of the run not in the qrels (not scored)")
    tied = [f"{n} at {k}" for k, n in scores.n_tied.items() if n and k != WHOLE_RANKING]
    if tied:
        parts.append(f"queries with ties across the cut-off: {', '.join(tied)} (see --ties)")
    messages().print("; ".join(parts))
