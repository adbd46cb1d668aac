"""``rag-assets export-run``: a run of the last evaluation as a file for other tools."""

from __future__ import annotations

from pathlib import Path

import click
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.cli.options import Integer, path_argument, store_option
from rag_assets.cli.terminal import messages, print_line, print_note
from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.evaluation.query_facts import DEV, TEST
from rag_assets.evaluation.run_files import write_run
from rag_assets.pipeline.evaluation_names import open_to_read
from rag_assets.pipeline.selection import Selection
from rag_assets.report.result import EvaluationResult
from rag_assets.store.settings import StoreSettings


@click.command("export-run")
@path_argument
@click.option(
    "--retriever",
    required=True,
    metavar="NAME",
    help="Write the run of this retriever.",
)
@click.option(
    "--top-k",
    type=Integer(min=1),
    metavar="K",
    help="The run at this cut-off  [default: the largest]",
)
@click.option(
    "--split",
    type=click.Choice([DEV, TEST]),
    help="Only the queries for choosing (dev) or for reporting (test)  [default: all]",
)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write: .jsonl, .parquet, or TREC for any other ending.",
)
@store_option
def command(
    path: Path, retriever: str, top_k: int | None, split: str | None, out: Path, store: Path | None
) -> None:
    """Write what a retriever returned in the last evaluation of PATH.

    `type: run_file` reads such a file back, and `rag-assets score` scores it.

    Example: rag-assets export-run data/handbook --retriever bm25 --out b.trec
    """
    settings = StoreSettings.resolve(store)
    experiment = open_to_read(path, settings)
    Selection.of(experiment, (retriever,))
    result = EvaluationResult.current(settings.store / experiment.name)
    keys = result.run_keys(retriever)
    if not keys:
        raise NotEvaluated(f"the last evaluation of {experiment.name} has no run of {retriever}")
    chosen = max(keys) if top_k is None else top_k
    if chosen not in keys:
        known = ", ".join(map(str, sorted(keys)))
        raise UsageError(f"--top-k {chosen}: {retriever} has runs at {known}")
    run, failures = result.table(keys[chosen]), result.failures(keys[chosen])
    note = _note_on_splits(result) if split is None and result.has_metrics else None
    if split is not None:
        weights = result.weights(result.chosen_split(split))
        run = run.filter(pc.is_in(run["query_id"], pa.array(list(weights), pa.string())))
        failures = {name: reason for name, reason in failures.items() if name in weights}
    for note_on_file in write_run(run, out, tag=retriever, failures=failures):
        messages().print(f"note: {out}: {note_on_file}")
    n_queries = len(run.column("query_id").unique())
    print_line(f"{out}: {n_queries} queries, {run.num_rows} rows, top_k {chosen}")
    print_note(note)


def _note_on_splits(result: EvaluationResult) -> str | None:
    """Return that the queries of several splits are in; None: there is one."""
    counts = {name: n for name in (DEV, TEST) if (n := len(result.weights(name)))}
    if not counts:
        return None
    parts = " and ".join(f"{n} {name}" for name, n in counts.items())
    return f"it holds {parts} queries; the leaderboard shows test alone, as --split test does"
