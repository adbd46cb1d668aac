"""``rag-assets generate``: questions from chunks by a language model, reviewed by people."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rag_assets.chunking.stage import chunks_key
from rag_assets.cli.options import refuse_given
from rag_assets.cli.progress_bars import progress_bar
from rag_assets.cli.terminal import print_line, print_message
from rag_assets.errors import DataError, UsageError
from rag_assets.experiment import load_experiment
from rag_assets.experiment.hosts import host_notes, llm_client
from rag_assets.labels.questions import (
    QuestionOptions,
    check_free,
    read_review,
    review_sheet,
    write_folder,
)
from rag_assets.labels.questions_stage import needed_requests
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import DOCUMENTS_KEY, QUESTIONS_KEY
from rag_assets.store.atomic import write_text


def asking(path: Path, store: Path | None) -> Pipeline:
    """Open the experiment at ``path``, with documents and chunks; it needs no queries or labels.

    Without ``questions`` in its YAML it has them with their defaults.

    Raises:
        UsageError: it has no language model, several chunkings of which none is chosen, or the
            model's answers are lists of texts, of which a question is only one.
    """
    pipeline = Pipeline.open(path, store, progress_bar)
    experiment = pipeline.experiment
    names = list(experiment.chunkings)
    options = experiment.questions
    if options is None and len(names) > 1:
        problem = f"{experiment.name} has several chunkings; choose one of {', '.join(names)}"
        raise UsageError(f"{problem} (`questions: {{chunking: {names[0]}}}`)")
    options = options or QuestionOptions(chunking=names[0])
    llm = experiment.language_model(options.llm)
    if llm is None:
        raise UsageError(f"{experiment.source}: names no language model; add the key `llm`")
    if llm.sequences > 1:
        problem = f"`llm` writes {llm.sequences} `sequences`, and `generate` reads one"
        raise UsageError(f"{problem}; give `sequences: 1`")
    asking = replace(experiment, questions=options)
    pipeline = Pipeline(asking, pipeline.settings, progress_bar)
    for key in (DOCUMENTS_KEY, chunks_key(str(options.chunking))):
        pipeline.materialize(key.asset, [key])
    client = llm_client(experiment, options.llm)
    for line in host_notes([client] if client is not None and not client.is_local else []):
        print_message(f"warning: {line}")
    return pipeline


def generate(
    path: Path,
    store: Path | None,
    sheet: Path | None,
    out: Path | None,
    reviewed: Path | None,
    dry_run: bool,
) -> None:
    """Have a language model write questions, or make a dataset of reviewed ones."""
    if reviewed is not None:
        refuse_given(["dry_run"], "is of questions to ask for; --import asks nothing")
        _import(path, reviewed, sheet, out)
        return
    if not dry_run and sheet is None and out is None:
        raise UsageError("name what to write: --sheet FILE, --out FOLDER, or both")
    places = [place for place in (sheet, out) if place is not None]
    for place in places:
        check_free(place)
    pipeline = asking(path, store)
    needs = needed_requests(pipeline)
    if dry_run:
        cost = "" if needs.cost_at_most is None else f", cost at most {needs.cost_at_most:.4g}"
        print_line(f"{needs.calls} requests to send{cost}; {needs.cached} answers are known")
        return
    artifact = pipeline.materialize(QUESTIONS_KEY.asset, [QUESTIONS_KEY])[0].artifact
    questions, facts = artifact.table(), artifact.manifest.facts
    documents = pipeline.artifact(DOCUMENTS_KEY).table()
    if sheet is not None:
        check_free(sheet)
        write_text(sheet, review_sheet(questions, documents))
    if out is not None:
        write_folder(questions, documents, out)
    origin = f"{facts['n_chunks']} chunks, by {needs.calls} requests"
    print_line(f"{questions.num_rows} questions from {origin}")
    for line in facts["notes"]:
        print_line(f"  {line}")
    print_line(f"written: {', '.join(map(str, places))}")


def _import(path: Path, reviewed: Path, sheet: Path | None, out: Path | None) -> None:
    if sheet is not None or out is None:
        raise UsageError("--import reads a sheet and writes a dataset: give --out, and no --sheet")
    check_free(out)
    documents = load_experiment(path).dataset.read_documents().table
    review = read_review(reviewed, documents)
    if not review.questions.num_rows:
        raise DataError("no row says yes under `keep`; nothing is written", file=reviewed)
    write_folder(review.questions, documents, out)
    print_line(
        f"{out}: {review.questions.num_rows} questions kept, {review.n_refused} refused, "
        f"{review.n_open} without yes or no left out"
    )
