"""First looks at data: an ``experiment.yaml`` for it, and what is found for one question."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NoReturn

import pyarrow as pa
from rich.console import Group

from rag_assets.analysis.question_hits import QuestionHits
from rag_assets.chunking.chunker import cut_documents
from rag_assets.chunking.index_texts import indexed_texts
from rag_assets.cli.progress_bars import progress_bar, rate_text, work_board
from rag_assets.cli.terminal import (
    output,
    print_data,
    print_line,
    print_message,
    print_note,
    print_warnings,
    shown_path,
)
from rag_assets.engine.measurements import (
    MEASUREMENTS,
    Measurements,
    duration_text,
    seconds_per_text,
)
from rag_assets.errors import UsageError
from rag_assets.experiment import Experiment, load_experiment
from rag_assets.experiment.hosts import clients, host_notes
from rag_assets.experiment.load import EXPERIMENT_FILE, YAML_SUFFIXES, default_experiment
from rag_assets.experiment.starter import DataSummary, starter_yaml
from rag_assets.labels.duplicates import near_duplicates
from rag_assets.models.encoder import Encoder
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model
from rag_assets.models.token_counts import TOO_MANY_UNKNOWN, unknown_share
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.ask import ask
from rag_assets.retrieval.lexical.analyzers import AUTO, resolve_analyzer
from rag_assets.sheets.formats import formatted
from rag_assets.sheets.terminal_table import sheet_view
from rag_assets.sources.labelled_folder import (
    N_EXAMPLES,
    QUERIES_FILE,
    LabelledFolder,
    look_alikes,
    template_text,
)
from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import fingerprint
from rag_assets.store.settings import StoreSettings

CUT_CHARACTERS = 4_000_000
"""At most this many characters are cut; the number of chunks of a larger corpus is scaled up."""

MAX_COMPARED_DOCUMENTS = 20_000
"""Near-duplicates are searched for among at most this many documents: it is the slowest step."""

TIMED_CHUNKS = 32
"""Number of chunks that are embedded to measure the time of one."""

MIN_CHUNKS_TO_TIME = 200
"""Embedding fewer chunks takes too little time to be worth a measurement."""

MAX_PAIRS = 3


def init(path: Path, out: Path | None, store: Path | None) -> None:
    """Write a commented experiment.yaml for the data at PATH."""
    if out is not None and out.suffix not in YAML_SUFFIXES:
        raise UsageError(f"--out {out}: must end in .yaml, such as {out / EXPERIMENT_FILE}")
    experiment = default_experiment(path.absolute())
    file = (out or (path if path.is_dir() else path.parent) / EXPERIMENT_FILE).absolute()
    if file.exists():
        raise UsageError(f"{file}: already exists; name another with --out")
    dataset = experiment.dataset
    lacks_questions = isinstance(dataset, LabelledFolder) and not dataset.has_questions
    with work_board(lambda: "reading the documents"):
        documents = dataset.read_documents().table
        data = _data_facts(experiment, documents, lacks_questions)
    # Relative where the data lies below, so that both can be moved.
    place = path.absolute()
    place = place.relative_to(file.parent) if place.is_relative_to(file.parent) else place
    write_text(file, starter_yaml(experiment, str(place), data))
    load_experiment(file)
    counts = f"{data.documents} documents, {data.queries} queries, {data.judgments} judgments"
    print_line(f"{shown_path(file)}: {counts}")
    if lacks_questions:
        examples = dataset.root / QUERIES_FILE
        write_text(examples, template_text())
        print_line(f"{shown_path(examples)}: {N_EXAMPLES} example questions to replace")
    with work_board(lambda: "looking for near-duplicates, chunking, timing the model"):
        for what, text in _summary(experiment, documents, data, store):
            print_line(f"{what:<17}{text}")
    for line in look_alikes(experiment.dataset, experiment.named_files.values()):
        print_note(line)
    named = shlex.quote(str(out or (path if lacks_questions else shown_path(file))))
    if lacks_questions:
        written = shlex.quote(str(shown_path(dataset.root / QUERIES_FILE)))
        print_message(f'next: rag-assets ask {named} "your question"')
        print_message(f"then: replace the examples in {written}, and rag-assets evaluate {named}")
    else:
        print_message(f"next: rag-assets evaluate {named}")


def _data_facts(experiment: Experiment, documents: pa.Table, lacks_questions: bool) -> DataSummary:
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


def _summary(
    experiment: Experiment, documents: pa.Table, data: DataSummary, store: Path | None
) -> Iterator[tuple[str, str]]:
    """Yield what documents hold, cut without a model, and how long an evaluation takes."""
    texts = documents.column("text").to_pylist()
    lengths = [len(text) for text in texts]
    total, middle = sum(lengths), round(median(lengths))
    yield (
        "characters",
        f"{total:,}; a document has {min(lengths):,} to {max(lengths):,}, median {middle:,}",
    )
    yield "language", f"{resolve_analyzer(AUTO, texts)} (used by BM25 to split text into words)"
    yield "near-duplicates", _pairs(documents)
    ((name, chunker),) = experiment.chunkings.items()
    step = max(1, -(-total // CUT_CHARACTERS))
    part = documents.take(list(range(0, documents.num_rows, step)))
    chunks = cut_documents(part, chunker.cutter(_no_model), whole=chunker.whole_documents)
    n_chunks = round(chunks.num_rows * total / (sum(lengths[::step]) or total or 1))
    yield "chunks", f"{'about ' if step > 1 else ''}{n_chunks:,} ({name})"
    indexed = indexed_texts(chunks).to_pylist()
    sample = indexed[:: max(1, -(-len(indexed) // TIMED_CHUNKS))]
    yield "evaluate takes", _time(experiment, n_chunks, sample, data, store)


def _no_model(model: str) -> NoReturn:
    raise ValueError(f"a chunking that needs {model} is not counted")


def _pairs(documents: pa.Table) -> str:
    if documents.num_rows > MAX_COMPARED_DOCUMENTS:
        return "not searched for in so many documents; `rag-assets validate PATH` does that"
    pairs = sorted(near_duplicates(documents.column("text")), key=lambda pair: -pair.similarity)
    if not pairs:
        return "none"
    ids = documents.column("document_id").to_pylist()
    nearest = [
        f"{ids[pair.first]} and {ids[pair.second]} ({pair.similarity:.2f})"
        for pair in pairs[:MAX_PAIRS]
    ]
    more = len(pairs) - len(nearest)
    return f"{len(pairs)}: {', '.join(nearest)}{f' and {more} more' if more else ''}"


def _time(
    experiment: Experiment,
    n_chunks: int,
    sample: Sequence[str],
    data: DataSummary,
    store: Path | None,
) -> str:
    """Say how long the default experiment takes: nearly all of it is embedding the chunks."""
    if data.unread or n_chunks < MIN_CHUNKS_TO_TIME:
        return "less than a minute"
    folder = StoreSettings.resolve(store).store / MEASUREMENTS
    each, by = seconds_per_text(folder, DEFAULT_MODEL), "measured before"
    if each is None:
        encoder = Encoder(DEFAULT_MODEL)
        encoder.encode_now(sample[:1], kind="document")
        started = time.perf_counter()
        encoder.encode_now(sample, kind="document")
        seconds = time.perf_counter() - started
        each, by = seconds / len(sample), f"measured on {len(sample)} of them"
        key, measured = fingerprint([DEFAULT_MODEL, *sample]), Measurements(folder, experiment.name)
        measured.add("embed", key, seconds, len(sample), model=DEFAULT_MODEL, cached=False)
    took = duration_text(each * (n_chunks + min(20 * max(data.queries, N_EXAMPLES), n_chunks)))
    speed = f"{rate_text(1 / each)}, {by}"
    return f"{took}, nearly all to embed the chunks ({speed}); --retriever bm25 takes seconds"


def ask_retrievers(
    path: Path,
    question: str,
    store: Path | None,
    retrievers: tuple[str, ...],
    top_k: int,
    form: str,
) -> None:
    """Show what each retriever of PATH finds for one question."""
    pipeline = Pipeline.open(path, store, progress_bar)
    experiment = pipeline.experiment
    print_warnings(host_notes(clients(experiment)))
    for line in look_alikes(experiment.dataset, experiment.named_files.values()):
        print_note(line)
    hits = QuestionHits(question)
    console = output()
    with work_board(lambda: pipeline.at_work):
        for answer in ask(pipeline, question, retrievers, top_k):
            hits.add(answer)
            if form == "table":
                console.print(Group(*hits.lines(answer, styled=console.is_terminal)))
                console.print("")
    if form != "table":
        print_data(formatted(hits.rows(), form))
    elif len(hits.found) > 1:
        console.print(sheet_view(replace(hits.side_by_side(), title="", lead=())))
