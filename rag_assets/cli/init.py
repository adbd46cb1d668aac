"""``rag-assets init``: a first ``experiment.yaml``, what lies there, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa

from rag_assets.cli.options import path_argument, store_option
from rag_assets.cli.progress_bars import rate_text, work_board
from rag_assets.cli.terminal import messages, print_line, print_note, shown_path
from rag_assets.engine.measurements import (
    MEASUREMENTS,
    Measurements,
    duration_text,
    seconds_per_text,
)
from rag_assets.errors import UsageError
from rag_assets.experiment import Experiment, load_experiment
from rag_assets.experiment.load import EXPERIMENT_FILE, default_experiment
from rag_assets.experiment.starter import DataSummary, starter_yaml
from rag_assets.labels.health.corpus_summary import (
    MIN_CHUNKS_TO_TIME,
    CorpusSummary,
    seconds_a_text,
    summarise,
)
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model
from rag_assets.models.token_counts import TOO_MANY_UNKNOWN, unknown_share
from rag_assets.sources.formats import question_like
from rag_assets.sources.labelled_folder import (
    N_EXAMPLES,
    QUERIES_FILE,
    LabelledFolder,
    template_text,
)
from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import fingerprint
from rag_assets.store.settings import StoreSettings

SHOWN_PAIRS = 3


@click.command("init")
@path_argument
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"File to write  [default: {EXPERIMENT_FILE} in or beside PATH]",
)
@store_option
def command(path: Path, out: Path | None, store: Path | None) -> None:
    """Write a commented experiment.yaml for the data at PATH.

    The data may have any format that `evaluate` reads. The file holds the defaults, for you to
    change. A file that exists already is left alone. A folder without questions gets a
    queries.jsonl with examples to replace, beside its documents also with --out: questions are
    read there.

    It says what it found, how long an evaluation takes, and what to do next.

    Example: rag-assets init data/handbook --out handbook.yaml
    """
    experiment = default_experiment(path.absolute())
    file = (out or (path if path.is_dir() else path.parent) / EXPERIMENT_FILE).absolute()
    if file.exists():
        raise UsageError(f"{file}: already exists; name another with --out")
    dataset = experiment.dataset
    lacks_questions = isinstance(dataset, LabelledFolder) and not dataset.has_questions
    with work_board(lambda: "reading the documents"):
        documents = dataset.read_documents().table
        data = _found(experiment, documents, lacks_questions)
    write_text(file, starter_yaml(experiment, _seen_from(file.parent, path.absolute()), data))
    load_experiment(file)
    print_line(f"{shown_path(file)}: {_counted(data)}")
    if lacks_questions:
        examples = dataset.root / QUERIES_FILE
        write_text(examples, template_text())
        print_line(f"{shown_path(examples)}: {N_EXAMPLES} example questions to replace")
    chunker = next(iter(experiment.chunkings.values()))
    with work_board(lambda: "looking for near-duplicates, cutting, timing the model"):
        summary = summarise(documents, chunker)
        for what, text in _said(experiment, documents, summary, data, store):
            print_line(f"{what:<17}{text}")
    for line in question_like(experiment.dataset, experiment.named_files.values()):
        print_note(line)
    print_note(experiment.unread_labels)
    place = shlex.quote(str(out or (path if lacks_questions else shown_path(file))))
    if lacks_questions:
        written = shlex.quote(str(shown_path(dataset.root / QUERIES_FILE)))
        messages().print(f'next: rag-assets ask {place} "your question"', soft_wrap=True)
        messages().print(
            f"then: replace the examples in {written}, and rag-assets evaluate {place}",
            soft_wrap=True,
        )
    else:
        messages().print(f"next: rag-assets evaluate {place}", soft_wrap=True)


def _seen_from(folder: Path, path: Path) -> str:
    """Return ``path`` relative to ``folder`` where it lies below, so that both can be moved."""
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def _found(experiment: Experiment, documents: pa.Table, lacks_questions: bool) -> DataSummary:
    """Read what is there; what the readers note is for `evaluate` to show."""
    texts = documents.column("text").to_pylist()
    n_queries = judgments = 0
    if not lacks_questions:
        queries = experiment.dataset.read_queries().table
        texts += queries.column("text").to_pylist()
        n_queries = queries.num_rows
        if experiment.has_qrels:
            judgments = experiment.read_qrels(documents, queries).table.num_rows
    share = unknown_share(texts, resolve_model(DEFAULT_MODEL)) or 0.0
    unread = share if share > TOO_MANY_UNKNOWN else 0.0
    return DataSummary(documents.num_rows, n_queries, judgments, unread)


def _counted(data: DataSummary) -> str:
    return f"{data.documents} documents, {data.queries} queries, {data.judgments} judgments"


def _said(
    experiment: Experiment,
    documents: pa.Table,
    summary: CorpusSummary,
    data: DataSummary,
    store: Path | None,
) -> Iterator[tuple[str, str]]:
    lengths = summary.lengths
    yield (
        "characters",
        f"{summary.characters:,}; a document has {lengths[0]:,} to {lengths[-1]:,}, median "
        f"{summary.median_length:,}",
    )
    yield "language", f"{summary.language} (BM25 splits text into words by it)"
    yield "near-duplicates", _pairs(documents, summary)
    about = "" if summary.is_exact else "about "
    yield "chunks", f"{about}{summary.chunks:,} ({next(iter(experiment.chunkings))})"
    yield "evaluate takes", _time(experiment, summary, data, store)


def _pairs(documents: pa.Table, summary: CorpusSummary) -> str:
    if summary.pairs is None:
        return "not looked for in so many documents; `rag-assets validate` does"
    if not summary.pairs:
        return "none"
    ids = documents.column("document_id").to_pylist()
    shown = [
        f"{ids[one.first]} and {ids[one.second]} ({one.similarity:.2f})"
        for one in summary.pairs[:SHOWN_PAIRS]
    ]
    more = len(summary.pairs) - len(shown)
    return f"{len(summary.pairs)}: {', '.join(shown)}{f' and {more} more' if more else ''}"


def _time(
    experiment: Experiment, summary: CorpusSummary, data: DataSummary, store: Path | None
) -> str:
    """Say how long the default experiment takes: nearly all of it is embedding the chunks."""
    if data.unread or summary.chunks < MIN_CHUNKS_TO_TIME:
        return "less than a minute"
    folder = StoreSettings.resolve(store).store / MEASUREMENTS
    known = seconds_per_text(folder, DEFAULT_MODEL)
    each = seconds_a_text(summary.sample) if known is None else known
    if known is None:
        n, asked = len(summary.sample), fingerprint([DEFAULT_MODEL, *summary.sample])
        kept = Measurements(folder, experiment.name)
        kept.add("embed", asked, each * n, n, model=DEFAULT_MODEL, cached=False)
    candidates = 20 * max(data.queries, N_EXAMPLES)
    seconds = each * (summary.chunks + min(candidates, summary.chunks))
    by = "measured before" if known is not None else f"measured on {len(summary.sample)} of them"
    return (
        f"{duration_text(seconds)}, nearly all to embed the chunks ({rate_text(1 / each)}, {by})"
        "; --retriever bm25 takes seconds"
    )
