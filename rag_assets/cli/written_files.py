"""What is written as a file: the page, a run for other tools, a dataset in another format."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.cli.terminal import print_line, print_note, shown_path
from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.evaluation.query_facts import DEV, TEST
from rag_assets.evaluation.run_files import write_run
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.evaluation_names import open_evaluations
from rag_assets.pipeline.selection import Selection
from rag_assets.report.result import EvaluationResult
from rag_assets.sources.writers import Tables, write_dataset


def write_page(path: Path, out: Path | None, explorer: bool, store: Path | None) -> None:
    """Write the last evaluation of PATH as one HTML page, and print where it is."""
    from rag_assets.report.html import write_report

    if out is not None and out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file, such as {out / 'report.html'}")
    _, names = open_evaluations(path, store)
    result = EvaluationResult.current(names.root)
    print_line(shown_path(write_report(result, out, has_explorer=explorer)))


def write_run_file(
    path: Path, retriever: str, top_k: int | None, split: str | None, out: Path, store: Path | None
) -> None:
    """Write what a retriever returned in the last evaluation of PATH."""
    experiment, names = open_evaluations(path, store)
    Selection.of(experiment, (retriever,))
    result = EvaluationResult.current(names.root, split)
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
        weights = result.weights(result.split)
        run = run.filter(pc.is_in(run["query_id"], pa.array(list(weights), pa.string())))
        failures = {name: reason for name, reason in failures.items() if name in weights}
    for note_on_file in write_run(run, out, tag=retriever, failures=failures):
        print_note(f"{out}: {note_on_file}")
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


def convert(path: Path, to: str, folder: Path) -> None:
    """Write the documents, queries and qrels of PATH in another format."""
    experiment = load_experiment(path)
    dataset = experiment.dataset
    for line in experiment.unread_files:
        print_note(f"documents: {line}")
    documents, queries = dataset.read_documents(), dataset.read_queries()
    qrels = experiment.read_qrels(documents.table, queries.table)
    tables = Tables(documents.table, queries.table, qrels.table)
    lost = write_dataset(tables, to, folder.absolute())
    read = {"documents": documents, "queries": queries, "qrels": qrels}
    odd = {name: table.notes for name, table in read.items()}
    for name, notes in odd.items():
        for note in notes:
            print_note(f"{name}: {note}")
    for note in lost:
        print_note(f"{to}: {note}")
    counts = ", ".join(f"{name} {table.table.num_rows}" for name, table in read.items())
    print_line(f"{folder}: {counts}")
