"""``rag-assets label``: give labels on a page, one passage at a time; say how they stand."""

from __future__ import annotations

import getpass
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rag_assets.cli.options import Integer, path_argument, refuse_given, store_option
from rag_assets.cli.progress_bars import progress_bar
from rag_assets.cli.terminal import messages, output, print_data, print_line
from rag_assets.errors import UsageError
from rag_assets.experiment import load_experiment
from rag_assets.labels.experiment_pool import (
    labelling_pipeline,
    question_clusters,
    readable_texts,
    sampled_pool,
)
from rag_assets.labels.generation.question_files import sheet_questions
from rag_assets.labels.generation.question_tables import dataset_questions
from rag_assets.labels.question_marks import mark_counts_text
from rag_assets.labels.sampling.label_pool import sampled_metrics
from rag_assets.labels.sampling.label_sample import label_sample
from rag_assets.labels.sampling.sample_stage import sampled_depth
from rag_assets.pipeline.evaluations import read_current, table_of
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.report.formats import as_json
from rag_assets.report.label_status import LabelStatus, status_sheets
from rag_assets.report.terminal_table import sheets_view
from rag_assets.schemas import QRELS
from rag_assets.sources.stage import QUESTIONS_KEY
from rag_assets.store.settings import StoreSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from rag_assets.labels.page.server import LabelServer


_NO_PAGE = "is of the page, which --status does not open"


@click.command("label")
@path_argument
@store_option
@click.option(
    "--depth",
    type=Integer(min=1),
    help="How many ranks of each retriever are in the pool  [default: as deep as the primary "
    "metric looks, or the runs are]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of a new sample.")
@click.option(
    "--port",
    type=Integer(min=0, max=65_535),
    default=0,
    help="Port of the page  [default: a free one]",
)
@click.option(
    "--browser/--no-browser", default=True, help="Open the page, or only print its address."
)
@click.option(
    "--review",
    is_flag=True,
    help="Decide on questions that a model wrote, instead of grading passages.",
)
@click.option(
    "--sheet",
    type=click.Path(path_type=Path),
    help="With --review: the questions of this sheet of `generate`  [default: those that the model "
    "of `questions` wrote, else those with the tag generated]",
)
@click.option("--status", is_flag=True, help="Open no page; print what the labels say so far.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to print --status.",
)
def command(
    path: Path,
    store: Path | None,
    depth: int | None,
    seed: int,
    port: int,
    browser: bool,
    review: bool,
    sheet: Path | None,
    status: bool,
    form: str,
) -> None:
    """Grade passages on a page that opens in your browser.

    The page shows one question and one passage at a time. They are drawn so that few grades tell
    which retriever is best, and you do not see which retriever found a passage. Each grade is saved
    to `labelling.jsonl`, next to the experiment, before you see the next passage. Ctrl-C ends it.

    With --review, it shows one question that a model wrote and the passage that it was made from:
    you keep it, refuse it, or word it better. Refused questions are left out of evaluations.

    With --status, it prints the estimated leaderboard, which differences are decided, and how many
    more grades would decide the rest.

    Example: rag-assets label data/handbook
    """
    if review:
        refuse_given(["depth", "seed"], "is of the sample of passages; --review draws nothing")
        pipeline = Pipeline(load_experiment(path), StoreSettings.resolve(store), progress_bar)
        _review(pipeline, sheet, port, form, browser=browser, status=status)
        return
    refuse_given(["sheet"], "belongs to --review")
    settings = StoreSettings.resolve(store)
    pipeline = labelling_pipeline(path, settings, progress_bar)
    if status:
        refuse_given(["port", "browser"], _NO_PAGE)
        _print_status(pipeline, depth, seed, form)
    else:
        refuse_given(["form"], "belongs to --status")
        _serve(pipeline, depth, seed, port, browser=browser)


def _review(
    pipeline: Pipeline,
    sheet: Path | None,
    port: int,
    form: str,
    *,
    browser: bool,
    status: bool,
) -> None:
    from rag_assets.labels.page.question_review import QuestionReview
    from rag_assets.labels.page.server import LabelServer, ReviewPage

    experiment = pipeline.experiment
    documents = experiment.dataset.read_documents().table
    questions = (
        _generated(pipeline, documents) if sheet is None else sheet_questions(sheet, documents)
    )
    if not questions.num_rows:
        raise UsageError(
            f"{sheet or experiment.source}: there is no question to review; --sheet names a sheet "
            "of `rag-assets generate`"
        )
    review = QuestionReview(questions, documents, experiment.judgments_log)
    if status:
        refuse_given(["port", "browser"], _NO_PAGE)
        _print_review(experiment.name, questions.num_rows, review.counts(), form)
        return
    refuse_given(["form"], "belongs to --status")
    server = LabelServer(ReviewPage(review, getpass.getuser()), port)
    where = f"{questions.num_rows} questions; decisions go to {experiment.question_marks_file}"
    _run(server, where, browser=browser)


def _generated(pipeline: Pipeline, documents: pa.Table) -> pa.Table:
    """Return the questions that a model wrote: in the last evaluation, or for the dataset."""
    experiment = pipeline.experiment
    if experiment.questions is not None:
        evaluation = read_current(pipeline.root)
        (entry,) = evaluation.entries_of(QUESTIONS_KEY.asset)
        return table_of(pipeline.root, evaluation, entry)
    queries = experiment.dataset.read_queries().table
    has_labels = experiment.has_qrels
    qrels = experiment.read_qrels(documents, queries).table if has_labels else QRELS.empty()
    return dataset_questions(queries, qrels, documents)


def _print_review(name: str, n_questions: int, counts: dict[str, int], form: str) -> None:
    if form == "json":
        print_data(as_json({"n_questions": n_questions, "question_marks": counts}))
        return
    n_decided = sum(counts.values())
    rest = f": {mark_counts_text(counts)}" if counts else ""
    print_line(f"{name}: {n_decided} of {n_questions} questions decided{rest}")


def _run(server: LabelServer, where: str, *, browser: bool) -> None:
    """Answer the page's requests until the process is interrupted."""
    print_line(server.address)
    messages().print(f"{where}; Ctrl-C ends it", soft_wrap=True)
    if browser:
        webbrowser.open(server.address)
    with suppress(KeyboardInterrupt):
        server.run()


def _print_status(pipeline: Pipeline, depth: int | None, seed: int, form: str) -> None:
    """Print what the labels so far say; nothing is asked."""
    depth = depth or sampled_depth(pipeline.experiment)
    sampled = sampled_pool(pipeline, depth, seed)
    lines = sampled.lines()
    sample = label_sample(sampled.pool, sampled.design, lines, sampled.earlier)
    status = LabelStatus.of(
        pipeline.experiment, sample, lines, depth, question_clusters(pipeline, sampled.pool)
    )
    if form == "json":
        print_data(as_json(status.as_row()))
    else:
        output().print(sheets_view(status_sheets(pipeline.experiment.name, status)))


def _serve(pipeline: Pipeline, depth: int | None, seed: int, port: int, *, browser: bool) -> None:
    from rag_assets.labels.page.server import LabelPage, LabelServer
    from rag_assets.labels.page.session import LabelSession

    experiment = pipeline.experiment
    depth = depth or sampled_depth(experiment)
    pool, design, earlier, log = sampled_pool(pipeline, depth, seed)
    passages, search = readable_texts(pipeline)
    session = LabelSession(pool, design, log, passages, earlier)
    metric, *_ = sampled_metrics(experiment.primary, depth)
    level = experiment.statistics.confidence
    clusters = question_clusters(pipeline, pool)
    page = LabelPage(session, search, metric, getpass.getuser(), clusters, level)
    where = f"{len(pool.items)} passages in the pool; judgments go to {log}"
    _run(LabelServer(page, port), where, browser=browser)
