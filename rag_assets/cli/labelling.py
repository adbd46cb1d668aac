"""Questions and labels: a model's questions to review, sheets to fill in, the page for grading."""

from __future__ import annotations

import getpass
import shlex
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rag_assets.analysis.label_health import label_status, status_sheets
from rag_assets.chunking.stage import chunks_key
from rag_assets.cli.options import refuse_given
from rag_assets.cli.progress_bars import progress_bar
from rag_assets.cli.terminal import output, print_data, print_line, print_message, print_warnings
from rag_assets.engine.recipe import UNANSWERED
from rag_assets.errors import DataError, MissingArtifact, NotServed, UsageError
from rag_assets.experiment import Experiment, load_experiment
from rag_assets.experiment.hosts import host_notes, llm_client
from rag_assets.labels.experiment_pool import (
    EVIDENCE,
    evaluated_retrievers,
    is_sample_sheet,
    labelling_pipeline,
    new_judgments,
    next_units,
    read_sheet,
    run_pool,
    sampled_pool,
    sheet_text,
)
from rag_assets.labels.label_import import Added, add_judgments, read_feedback, takes_judgments
from rag_assets.labels.logs import JUDGED, append_lines, design_file, lock_file
from rag_assets.labels.pool import (
    PooledUnit,
    in_blind_order,
    merged,
    sampled_metrics,
    without_outer_blanks,
)
from rag_assets.labels.questions import (
    QuestionOptions,
    check_free,
    read_review,
    review_sheet,
    write_folder,
)
from rag_assets.labels.questions_stage import N_LATER, needed_requests
from rag_assets.labels.sampling.design import read_design
from rag_assets.labels.sampling.label_sample import valid_judgments
from rag_assets.labels.sampling.sample_stage import sampled_depth
from rag_assets.pipeline.pipeline import Outcome, Pipeline
from rag_assets.sheets.formats import as_json
from rag_assets.sheets.terminal_table import sheets_view
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY, QUESTIONS_KEY
from rag_assets.store.atomic import write_text
from rag_assets.store.locks import locked
from rag_assets.store.settings import StoreSettings


def pool(
    path: Path,
    store: Path | None,
    depth: int | None,
    seed: int,
    n_sampled: int | None,
    out: Path | None,
    sheet: Path | None,
    by: str | None,
    feedback: Path | None,
) -> None:
    """Write a sheet of what the retrievers of PATH found, for people to grade."""
    if sum(option is not None for option in (out, sheet, feedback)) > 1:
        raise UsageError("give only one of --out, --import and --feedback")
    if sheet is not None or feedback is not None:
        refuse_given(
            ["depth", "seed", "n_sampled"], "cannot be combined with --import or --feedback"
        )
    is_sample = sheet is not None and is_sample_sheet(sheet)
    if not is_sample:
        refuse_given(["by"], "is only for --import of a sample sheet")
    if sheet is not None:
        importing = partial(_import_sample, by=by) if is_sample else _import_sheet
        importing(_of_files(path), sheet)
    elif feedback is not None:
        _import_feedback(_of_files(path), feedback)
    else:
        pipeline = labelling_pipeline(path, StoreSettings.resolve(store), progress_bar)
        if n_sampled is not None:
            _write_sample(pipeline, path, n_sampled, depth, seed, out)
        else:
            depth = depth or min(10, max(pipeline.experiment.top_k))
            _write_sheet(pipeline, path, depth, seed, out)


def _of_files(path: Path) -> Experiment:
    """Return an experiment whose questions are those of its files."""
    experiment = load_experiment(path)
    if experiment.questions is not None:
        raise UsageError(
            f"{path}: its questions are generated (`questions`), but judgments need questions "
            f"in files; `rag-assets generate {shlex.quote(str(path))} --out FOLDER` writes them"
        )
    return experiment


def _write_sheet(pipeline: Pipeline, path: Path, depth: int, seed: int, out: Path | None) -> None:
    try:
        pool_units = run_pool(pipeline, depth)
    except MissingArtifact:
        pipeline.experiment.dataset.read_queries()  # where there are none, that is the reason
        raise
    documents, queries = (pipeline.artifact(key).table() for key in (DOCUMENTS_KEY, QUERIES_KEY))
    passages = without_outer_blanks(pool_units, documents)
    units = in_blind_order(merged(passages), queries.column("query_id").to_pylist(), seed)
    experiment = pipeline.experiment
    missing = ""
    if not takes_judgments(experiment.dataset):
        missing = f"a dataset of format {experiment.dataset.format} takes no judgments; convert it"
    _write_rows(experiment, path, sheet_text(units, documents, queries), units, out, missing)
    rest = [n for n in pipeline.experiment.retrievers if n not in evaluated_retrievers(pipeline)]
    if rest:
        print_message(f"not in the sheet, because they are not evaluated yet: {', '.join(rest)}")
    if len(units) < len(passages):
        print_message(
            f"they hold {len(passages)} passages, some of which overlap; where a part of a text "
            f"answers, copy it into the column {EVIDENCE}"
        )


def _write_sample(
    pipeline: Pipeline, path: Path, n: int, depth: int | None, seed: int, out: Path | None
) -> None:
    sampled = sampled_pool(pipeline, depth or sampled_depth(pipeline.experiment), seed)
    sample = sampled.sample(sampled.lines())
    documents, queries = (pipeline.artifact(key).table() for key in (DOCUMENTS_KEY, QUERIES_KEY))
    units = next_units(sample, n, documents)
    text = sheet_text(units, documents, queries, sample)
    _write_rows(pipeline.experiment, path, text, units, out)


def hand_out(text: str, out: Path | None, imported_by: str = "") -> str:
    """Write a sheet, or print it where no file is named; return where it is, and what is next."""
    if out is None:
        print_data(text.removeprefix("\ufeff").replace("\r\n", "\n"))
        return ""
    write_text(out, text)
    then = f"; when it is filled in: {imported_by} {shlex.quote(str(out))}" if imported_by else ""
    return f", in {out}{then}"


def _write_rows(
    experiment: Experiment,
    path: Path,
    text: str,
    units: Sequence[PooledUnit],
    out: Path | None,
    missing: str = "",
) -> None:
    """Hand out a sheet; ``missing`` says what its judgments cannot be added to."""
    if experiment.questions is not None:
        missing = "generated questions take no judgments; write them as a dataset"
    command = "" if missing else f"rag-assets pool {shlex.quote(str(path))} --import"
    where = hand_out(text, out, command)
    n_queries = len({unit.query_id for unit in units})
    print_message(f"{len(units)} rows to judge for {n_queries} queries{where}")
    if missing:
        print_message(f"this sheet cannot be imported as it is: {missing} first")


def _import_sheet(experiment: Experiment, sheet: Path) -> None:
    documents = experiment.dataset.read_documents().table
    queries = experiment.dataset.read_queries().table
    graded, n_empty = read_sheet(sheet, documents, queries)
    added = add_judgments(
        experiment.dataset,
        [label for row, place in graded for label in row.judgments(place.line or 0)],
        documents,
        queries,
        judge=experiment.judge,
        sheet=sheet,
        keeps_unknown=experiment.keeps_unknown,
    )
    _say_added(added, f"{n_empty} rows still empty")


def _import_sample(experiment: Experiment, sheet: Path, by: str | None) -> None:
    log = experiment.judgments_log
    if not design_file(log).is_file():
        raise UsageError(
            f"{sheet} is a sheet of a sample, but the design of the sample, {design_file(log)}, "
            "does not exist"
        )
    documents = experiment.dataset.read_documents().table
    queries = experiment.dataset.read_queries().table
    at = datetime.now(UTC).isoformat(timespec="seconds")
    with locked(lock_file(log)):
        design = read_design(design_file(log))
        answers, n_empty = read_sheet(sheet, documents, queries, design)
        lines, _ = valid_judgments(log, documents)
        new = new_judgments(answers, lines, design, by=by, at=at)
        append_lines(log, new)
    n_without = sum(label.status != JUDGED for label in new)
    print_message(
        f"{len(new)} judgments added to {log}, {n_without} of them without a grade; "
        f"{len(answers) - len(new)} were there already; {n_empty} rows still empty"
    )


def _import_feedback(experiment: Experiment, file: Path) -> None:
    documents = experiment.dataset.read_documents().table
    queries = experiment.dataset.read_queries().table
    votes = read_feedback(file, documents, queries)
    added = add_judgments(
        experiment.dataset,
        votes.judgments,
        documents,
        queries,
        judge=experiment.judge,
        keeps_unknown=experiment.keeps_unknown,
    )
    conflicts = f"{added.n_conflicts} have another grade in the labels, which stays"
    _say_added(added, f"{conflicts}; {votes.n_undecided} undecided")


def _say_added(added: Added, rest: str) -> None:
    print_message(
        f"{added.n_added} judgments added to {added.file}; {added.n_known} were there already; "
        f"{added.n_covered} skipped, a shorter labelled span covers them; {rest}"
    )


def label(
    path: Path,
    store: Path | None,
    depth: int | None,
    seed: int,
    port: int,
    browser: bool,
    status: bool,
    form: str,
) -> None:
    """Grade passages on a page that opens in your browser."""
    pipeline = labelling_pipeline(path, StoreSettings.resolve(store), progress_bar)
    if status:
        refuse_given(["port", "browser"], "cannot be combined with --status, which opens no page")
        _print_status(pipeline, depth, seed, form)
    else:
        refuse_given(["form"], "is only for --status")
        _serve(pipeline, depth, seed, port, browser=browser)


def _print_status(pipeline: Pipeline, depth: int | None, seed: int, form: str) -> None:
    """Print what the labels so far say; nothing is asked."""
    depth = depth or sampled_depth(pipeline.experiment)
    sampled = sampled_pool(pipeline, depth, seed, is_asked=False)
    lines = sampled.lines()
    status = label_status(
        pipeline.experiment, sampled.sample(lines), lines, depth, sampled.clusters
    )
    if form == "json":
        print_data(as_json(status))
    else:
        output().print(sheets_view(status_sheets(pipeline.experiment.name, status)))


def _serve(pipeline: Pipeline, depth: int | None, seed: int, port: int, *, browser: bool) -> None:
    """Answer the page's requests until the process is interrupted."""
    from rag_assets.labels.page.server import LabelServer
    from rag_assets.labels.page.session import LabelSession, Passages

    experiment = pipeline.experiment
    depth = depth or sampled_depth(experiment)
    sampled = sampled_pool(pipeline, depth, seed)
    passages = Passages(*(pipeline.artifact(key).table() for key in (DOCUMENTS_KEY, QUERIES_KEY)))
    metric, *_ = sampled_metrics(experiment.primary, depth)
    session = LabelSession(sampled, passages, metric, experiment.statistics.confidence)
    server = LabelServer(session, getpass.getuser(), port)
    print_line(server.address)
    where = f"{len(sampled.pool.items)} passages in the pool; judgments go to {sampled.log}"
    print_message(f"{where}; Ctrl-C ends it")
    if browser:
        webbrowser.open(server.address)
    with suppress(KeyboardInterrupt):
        server.run()


def _asking(path: Path, store: Path | None) -> Pipeline:
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
        raise UsageError(f"{experiment.source}: has no language model; add the key `llm`")
    if llm.sequences > 1:
        problem = f"`llm` writes {llm.sequences} `sequences`, but `generate` reads one"
        raise UsageError(f"{problem}; give `sequences: 1`")
    pipeline = Pipeline(replace(experiment, questions=options), pipeline.settings, progress_bar)
    for key in (DOCUMENTS_KEY, chunks_key(str(options.chunking))):
        pipeline.materialize(key.asset, [key])
    client = llm_client(experiment, options.llm)
    print_warnings(host_notes([client] if client is not None and not client.is_local else []))
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
        refuse_given(["dry_run"], "does not apply to --import, which sends no requests")
        _import_questions(path, reviewed, sheet, out)
        return
    if not dry_run and sheet is None and out is None:
        raise UsageError("say what to write: --sheet FILE, --out FOLDER, or both")
    places = [place for place in (sheet, out) if place is not None]
    for place in places:
        check_free(place)
    pipeline = _asking(path, store)
    needs = needed_requests(pipeline)
    if dry_run:
        cost = "" if needs.cost_at_most is None else f", cost at most {needs.cost_at_most:.4g}"
        print_line(f"{needs.calls} requests to send{cost}; {needs.cached} replies are in the cache")
        return
    outcome = _generated(pipeline)
    questions, facts = outcome.artifact.table(), outcome.artifact.manifest.facts
    documents = pipeline.artifact(DOCUMENTS_KEY).table()
    if sheet is not None:
        check_free(sheet)
        write_text(sheet, review_sheet(questions, documents))
    if out is not None:
        write_folder(questions, documents, out)
    origin = f"{facts['n_chunks']} chunks; requests sent: {0 if outcome.reused else needs.calls}"
    print_line(f"{questions.num_rows} questions from {origin}")
    for line in facts["notes"]:
        print_line(f"  {line}")
    print_line(f"written: {', '.join(map(str, places))}")


def _generated(pipeline: Pipeline) -> Outcome:
    """Return the questions of all chunks; what was not answered before is asked for again."""
    stored, recipe = pipeline.current(QUESTIONS_KEY), pipeline.recipe(QUESTIONS_KEY)
    if stored is not None and recipe is not None and UNANSWERED in stored.manifest.facts:
        pipeline.attempts.add(recipe)
        pipeline.forget()
    (outcome,) = pipeline.materialize(QUESTIONS_KEY.asset, [QUESTIONS_KEY])
    if n_open := (facts := outcome.artifact.manifest.facts).get(N_LATER):
        print_message("; ".join(facts["notes"]))
        problem = f"chunks that the model has not answered: {n_open} of {facts['n_chunks']}"
        raise NotServed(f"{problem}; nothing is written; run again to ask for these only")
    return outcome


def _import_questions(path: Path, reviewed: Path, sheet: Path | None, out: Path | None) -> None:
    if sheet is not None or out is None:
        raise UsageError("--import reads a sheet and writes a dataset: give --out, not --sheet")
    check_free(out)
    documents = load_experiment(path).dataset.read_documents().table
    review = read_review(reviewed, documents)
    if not review.questions.num_rows:
        raise DataError("no row has yes in the column `keep`; nothing is written", file=reviewed)
    write_folder(review.questions, documents, out)
    print_line(
        f"{out}: {review.questions.num_rows} questions kept, {review.n_refused} refused, "
        f"{review.n_open} left out because `keep` is empty"
    )
