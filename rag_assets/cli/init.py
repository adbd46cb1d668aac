"""``rag-assets init``: a first ``experiment.yaml`` for the data that is there."""

from __future__ import annotations

from pathlib import Path

import click

from rag_assets.cli.options import path_argument
from rag_assets.cli.terminal import messages, print_line, print_note
from rag_assets.errors import UsageError
from rag_assets.experiment import Experiment, load_experiment
from rag_assets.experiment.load import EXPERIMENT_FILE, default_experiment
from rag_assets.experiment.starter import Found, starter_yaml
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model
from rag_assets.models.token_counts import TOO_MANY_UNKNOWN, unknown_share
from rag_assets.store.atomic import write_text


@click.command("init")
@path_argument
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"File to write  [default: {EXPERIMENT_FILE} in or beside PATH]",
)
def command(path: Path, out: Path | None) -> None:
    """Write a commented experiment.yaml for the data at PATH.

    The data may have any format that `evaluate` reads. The file means what no file would
    mean, and is ready to be changed. One that is there is left alone.

    Example: rag-assets init data/handbook --out handbook.yaml
    """
    experiment = default_experiment(path.absolute())
    file = (out or (path if path.is_dir() else path.parent) / EXPERIMENT_FILE).absolute()
    if file.exists():
        raise UsageError(f"{file}: is there already; name another with --out")
    data = _found(experiment)
    write_text(file, starter_yaml(experiment, _seen_from(file.parent, path.absolute()), data))
    load_experiment(file)
    print_line(f"{out or file}: {_counted(data)}")
    print_note(experiment.unread_labels)
    messages().print(f"next: rag-assets evaluate {out or file}", soft_wrap=True)


def _seen_from(folder: Path, path: Path) -> str:
    """Return ``path`` relative to ``folder`` where it lies below, so that both can be moved."""
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def _found(experiment: Experiment) -> Found:
    """Read what is there; what the readers note is for `evaluate` to show."""
    documents = experiment.dataset.read_documents().table
    queries = experiment.dataset.read_queries().table
    judgments = 0
    if experiment.has_qrels:
        judgments = experiment.read_qrels(documents, queries).table.num_rows
    texts = [*documents.column("text").to_pylist(), *queries.column("text").to_pylist()]
    share = unknown_share(texts, resolve_model(DEFAULT_MODEL)) or 0.0
    unread = share if share > TOO_MANY_UNKNOWN else 0.0
    return Found(documents.num_rows, queries.num_rows, judgments, unread)


def _counted(data: Found) -> str:
    return f"{data.documents} documents, {data.queries} queries, {data.judgments} judgments"
