"""``rag-assets convert``: a dataset in the format of another tool."""

from __future__ import annotations

from pathlib import Path

import click

from rag_assets.cli.options import path_argument
from rag_assets.cli.terminal import messages, print_line, print_note
from rag_assets.experiment import load_experiment
from rag_assets.sources.writers import WRITERS, Tables, write_dataset


@click.command("convert")
@path_argument
@click.option(
    "--to", "to", required=True, type=click.Choice(list(WRITERS)), help="Format to write."
)
@click.option(
    "--out", "folder", required=True, type=click.Path(path_type=Path), help="New folder to write."
)
def command(path: Path, to: str, folder: Path) -> None:
    """Write the documents, queries and qrels of PATH in another format.

    PATH is an experiment, or any dataset folder or file. It tells you what the format cannot hold.

    Example: rag-assets convert data/handbook --to beir --out handbook_beir
    """
    experiment = load_experiment(path)
    dataset = experiment.dataset
    print_note(experiment.unread_labels)
    documents, queries = dataset.read_documents(), dataset.read_queries()
    qrels = experiment.read_qrels(documents.table, queries.table)
    tables = Tables(documents.table, queries.table, qrels.table)
    lost = write_dataset(tables, to, folder.absolute())
    read = {"documents": documents, "queries": queries, "qrels": qrels}
    odd = {name: table.notes for name, table in read.items()}
    odd["documents"] = [*experiment.unread_files, *documents.notes]
    for name, notes in odd.items():
        for note in notes:
            messages().print(f"note: {name}: {note}")
    for note in lost:
        messages().print(f"note: {to}: {note}")
    counts = ", ".join(f"{name} {table.table.num_rows}" for name, table in read.items())
    print_line(f"{folder}: {counts}")
