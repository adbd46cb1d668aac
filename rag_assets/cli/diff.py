"""``rag-assets diff``: what differs between two evaluations, and what it did to the metrics."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from rag_assets.cli.completion import complete_evaluations
from rag_assets.cli.options import format_option, path_argument, retriever_option, store_option
from rag_assets.cli.terminal import messages, output, print_data
from rag_assets.errors import UsageError, allowed_names
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.pipeline.registry import open_to_read
from rag_assets.report.diff import changes_between, partition_changes
from rag_assets.report.evaluation_pairs import Comparability, EvaluationPair, comparability
from rag_assets.report.formats import as_json, formatted
from rag_assets.report.result import EvaluationResult
from rag_assets.store.settings import StoreSettings

NOT_COMPARABLE = 1


@click.command("diff")
@path_argument
@click.argument("eval_a", shell_complete=complete_evaluations)
@click.argument("eval_b", shell_complete=complete_evaluations)
@store_option
@retriever_option
@click.option("--metric", help="This metric, such as recall@10, not the primary one.")
@click.option("--split", help="The queries of this split  [default: test where there is one]")
@click.option(
    "--intersection",
    is_flag=True,
    help="Where queries or labels differ: compare on those that are the same in both.",
)
@format_option
@click.pass_context
def command(
    ctx: click.Context,
    path: Path,
    eval_a: str,
    eval_b: str,
    store: Path | None,
    retrievers: tuple[str, ...],
    metric: str | None,
    split: str | None,
    intersection: bool,
    form: str,
) -> None:
    """Say what differs between EVAL_A and EVAL_B, and compare their metrics.

    An evaluation is `latest`, `previous`, `anchor`, or the beginning or the end of its id. Metrics
    of other queries or labels are not compared: the exit code is then 1.

    Example: rag-assets diff data/handbook previous latest
    """
    settings = StoreSettings.resolve(store)
    experiment = open_to_read(path, settings)
    names = EvaluationNames(settings.store / experiment.name, settings.locks)
    root = settings.store / experiment.name
    a, b = (EvaluationResult(root, names.find(name)) for name in (eval_a, eval_b))
    comparable = comparability(a, b) if a.has_metrics and b.has_metrics else None
    pair = None
    if comparable is not None and (intersection or not comparable.reasons):
        queries = comparable.chosen(intersection=intersection)
        pair = EvaluationPair.of(a, b, queries, metric, split)
        for name in retrievers:
            if name not in pair.new_cells:
                raise UsageError(f"unknown retriever {allowed_names(name, pair.new_cells)}")
    rows = pair.rows(retrievers) if pair is not None else []
    if form == "json":
        print_data(_json(a, b, comparable, rows))
    elif form == "table":
        _print_table(a, b, pair, rows)
    else:
        reasons = [{"what": r.what, "old": r.old, "new": r.new} for r in changes_between(a, b)]
        print_data(formatted(rows if form == "csv" else reasons, form))
        if form == "markdown" and rows:
            print_data(f"\n{formatted(rows, form)}")
    if comparable is not None and pair is None:
        messages().print(f"note: {comparable.refusal}", soft_wrap=True)
        ctx.exit(NOT_COMPARABLE)


def _print_table(
    a: EvaluationResult,
    b: EvaluationResult,
    pair: EvaluationPair | None,
    rows: list[dict[str, object]],
) -> None:
    from rag_assets.report.diff import changes_view, means_view

    output().print(changes_view(a.evaluation, b.evaluation, changes_between(a, b)))
    if pair is not None:
        output().print("")
        output().print(means_view(rows, str(pair.metric), pair.resampling.confidence))


def _json(
    a: EvaluationResult,
    b: EvaluationResult,
    found: Comparability | None,
    rows: list[dict[str, object]],
) -> str:
    content = {
        "a": a.evaluation.evaluation_id,
        "b": b.evaluation.evaluation_id,
        "changes": [asdict(reason) for reason in changes_between(a, b)],
        "partitions": partition_changes(a, b),
        "not_comparable": [asdict(reason) for reason in found.reasons] if found else [],
        "n_shared_queries": len(found.shared) if found else 0,
        "metrics": rows,
    }
    return as_json(content)
