"""The Python interface: the same as the command line, without printing.

Everything is imported where it is used, so that ``import rag_assets`` loads neither Dagster nor a
model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_assets.evaluation.score import Scores
    from rag_assets.experiment import Experiment
    from rag_assets.labels.generation.question_files import Reviewed
    from rag_assets.llm.completions import Estimate
    from rag_assets.pipeline.pipeline import Pipeline
    from rag_assets.pipeline.plan import Plan
    from rag_assets.pipeline.question_generation import Asking, Generation
    from rag_assets.progress import Progress
    from rag_assets.report.comparison_views import Comparison
    from rag_assets.report.evaluation_table import EvaluationTable
    from rag_assets.report.metric_history import MetricHistory


def load_experiment(path: Path | str) -> Experiment:
    """Load the experiment at ``path``; nothing is computed.

    Args:
        path: a folder with an ``experiment.yaml``, such a file itself, or any dataset folder or
            file, which gets the default experiment.

    Raises:
        UsageError: there is nothing at ``path``.
        ConfigError: the YAML is not valid; names file, line and key.
        DataError: the dataset's format is not recognised.
    """
    from rag_assets.experiment import load_experiment as load

    return load(path)


def evaluate(
    path: Path | str,
    store: Path | str | None = None,
    retrievers: Sequence[str] = (),
    top_k: Sequence[int] = (),
    *,
    take_over: bool = False,
) -> EvaluationTable:
    """Bring the experiment at ``path`` up to date, as ``rag-assets evaluate`` does.

    What is not current is computed through Dagster in this process; where that changes anything,
    the HTML report and the warehouse are written again.

    Args:
        path: as for :func:`load_experiment`.
        store: folder for artifacts and state; ``RAG_ASSETS_STORE``, else ``data/store``, if absent.
        retrievers: names of those to evaluate; all if empty.
        top_k: the cut-offs to evaluate; all if empty.
        take_over: go on with the evaluations of another experiment that has this name in the store:
            this one is a copy of it.

    Returns:
        The evaluation: ``result.leaderboard`` is a table of
        :data:`rag_assets.schemas.LEADERBOARD`, all means in [0, 1]. Without labels there is none,
        and ``result.overlaps`` compares the retrievers at each top_k. A notebook shows headline and
        leaderboard; ``to_arrow()``, ``to_pandas()``, ``to_polars()`` and ``plot()`` are for more.
        ``result.answers`` is the same of answerers, and ``result.judged`` is what judges say of
        their answers, calibrated with labels of people.

    Raises:
        UsageError: nothing at ``path``, a retriever or cut-off is not the experiment's, or another
            experiment has its name in the store.
        RagAssetsError: invalid configuration or data, a model that cannot be had, or a store that
            cannot be written.
    """
    from rag_assets.assets.evaluate import as_in_a_script
    from rag_assets.assets.evaluate import evaluate as bring_up_to_date
    from rag_assets.compute.compute import release_workers
    from rag_assets.pipeline.pipeline import Pipeline
    from rag_assets.pipeline.registry import open_experiment
    from rag_assets.pipeline.selection import Selection
    from rag_assets.report.evaluation_table import EvaluationTable
    from rag_assets.report.html import write_report
    from rag_assets.store.settings import StoreSettings

    settings = StoreSettings.resolve(store)
    experiment = open_experiment(path, settings, take_over=take_over)
    selection = Selection.of(experiment, retrievers, top_k)
    pipeline = Pipeline(experiment, settings)
    try:
        with as_in_a_script():
            work = bring_up_to_date(pipeline, selection, trigger="Python")
    finally:
        release_workers()
    result = EvaluationTable(pipeline.root, work.evaluation)
    write_report(result)
    return result


def leaderboard(path: Path | str, store: Path | str | None = None) -> EvaluationTable:
    """Open the last evaluation of the experiment at ``path``; nothing is computed.

    Args:
        path: as for :func:`load_experiment`.
        store: as for :func:`evaluate`.

    Raises:
        NotEvaluated: there is none.
        UsageError: another experiment has its name in the store.
        RagAssetsError: invalid configuration, or a store that cannot be read.
    """
    from rag_assets.pipeline.registry import open_to_read
    from rag_assets.report.evaluation_table import EvaluationTable
    from rag_assets.store.settings import StoreSettings

    settings = StoreSettings.resolve(store)
    return EvaluationTable.current(settings.store / open_to_read(path, settings).name)


def compare(
    path: Path | str,
    *retrievers: str,
    store: Path | str | None = None,
    metric: str | None = None,
    split: str | None = None,
) -> Comparison:
    """Compare two retrievers on the same queries, or all pairs, as ``rag-assets compare`` does.

    The last evaluation is read; nothing is searched again.

    Args:
        path: as for :func:`load_experiment`.
        retrievers: two names: the second is compared with the first; none for all pairs. An
            answerer is named with its cut-off, as ``plain@5``.
        store: as for :func:`evaluate`.
        metric: such as ``recall@10`` or ``answer_f1``; the primary metric when absent, of
            answerers F1 where there are right answers.
        split: whose queries; the one to show when absent.

    Raises:
        NotEvaluated: no evaluation, no labels, or no such cell.
        UsageError: not two retrievers, or an unknown retriever, metric or split.
    """
    from rag_assets.pipeline.selection import check_cell_names
    from rag_assets.report.comparison_views import Comparison

    check_cell_names(load_experiment(path), retrievers)
    return Comparison.of(leaderboard(path, store), retrievers, metric, split)


def history(
    path: Path | str,
    metric: str | None = None,
    *,
    store: Path | str | None = None,
    retrievers: Sequence[str] = (),
    split: str | None = None,
    last: int = 10,
) -> MetricHistory:
    """Return a metric over evaluations, and what changed, as ``rag-assets history`` prints it.

    Args:
        path: as for :func:`load_experiment`.
        metric: such as ``recall@10`` or ``answer_f1``; the primary metric when absent.
        store: as for :func:`evaluate`.
        retrievers: whose values, answerers as ``plain@5``; all when empty.
        split: whose queries; ``test`` where there is one when absent.
        last: so many of the newest evaluations.

    Raises:
        NotEvaluated: no evaluation, or none with the metric.
        UsageError: an unknown metric or retriever.
    """
    from rag_assets.pipeline.history import History
    from rag_assets.pipeline.registry import open_to_read
    from rag_assets.report.metric_history import MetricHistory
    from rag_assets.store.settings import StoreSettings

    settings = StoreSettings.resolve(store)
    found = History(settings.store / open_to_read(path, settings).name, settings.locks)
    return MetricHistory.of(found, metric, retrievers, split, last)


def plan(
    path: Path | str,
    store: Path | str | None = None,
    retrievers: Sequence[str] = (),
    top_k: Sequence[int] = (),
) -> Plan:
    """Say what :func:`evaluate` would do now, and why, as ``rag-assets plan`` does.

    Nothing is computed or written but the digests of source files that are remembered.

    Args:
        path: as for :func:`load_experiment`.
        store: as for :func:`evaluate`; so are the next two.
        retrievers: names of those to evaluate; all if empty.
        top_k: the cut-offs to evaluate; all if empty.

    Raises:
        UsageError: nothing at ``path``, or a retriever or cut-off is not the experiment's.
        RagAssetsError: invalid configuration or data, or a model that cannot be had.
    """
    from rag_assets.pipeline.pipeline import Pipeline
    from rag_assets.pipeline.plan import plan as plan_of
    from rag_assets.pipeline.registry import open_experiment
    from rag_assets.pipeline.selection import Selection
    from rag_assets.store.settings import StoreSettings

    settings = StoreSettings.resolve(store)
    experiment = open_experiment(path, settings)
    selection = Selection.of(experiment, retrievers, top_k)
    return plan_of(Pipeline(experiment, settings), selection)


def score(
    run_path: Path | str,
    qrels_path: Path | str,
    metrics: Sequence[str],
    trec_mean: bool = False,
) -> Scores:
    """Score a run file against labels, as ``rag-assets score`` does.

    Args:
        run_path: TREC run file, or JSON lines with ``retrieved_ids``, also gzipped (``.gz``).
        qrels_path: TREC qrels file, a BEIR qrels table, judgments as ``.jsonl``, or the
            ``qa.parquet`` of AutoRAG.
        metrics: names in our vocabulary, that of ir_measures or that of trec_eval; echoed.
        trec_mean: average over every query of the qrels, as ``trec_eval -c`` does; without it, over
            those with a relevant document.

    Raises:
        DataError: a file cannot be read or breaks its format; names file and line.
        UsageError: a metric is unknown, or ``precision`` has no cut-off.
    """
    from rag_assets.evaluation.label_files import read_labels
    from rag_assets.evaluation.run_files import read_run_file
    from rag_assets.evaluation.score import score as score_tables

    run, labels = read_run_file(Path(run_path)), read_labels(Path(qrels_path))
    return score_tables(run, labels.judgments, metrics, trec_mean=trec_mean)


def generate(
    path: Path | str,
    sheet: Path | str | None = None,
    out: Path | str | None = None,
    asking: Asking | None = None,
    *,
    store: Path | str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Generation:
    """Have a language model ask questions about the chunks at ``path``, as ``generate`` does.

    Args:
        path: as for :func:`load_experiment`; needs neither queries nor labels.
        sheet: a CSV file to write, on which people say which questions to keep.
        out: a dataset folder to write, with every question that was kept.
        asking: what is asked, of whom, and how much may be spent.
        store: folder for artifacts and state; ``RAG_ASSETS_STORE``, else ``data/store``, if absent.
        force: replace a sheet or a generated dataset that is there.
        progress: shows how far it is.

    Raises:
        UsageError: something is at ``sheet`` or ``out``, or no model is configured.
        DataError: no question was kept; says why.
        BudgetReached: the limits allow no more; a second call asks only for the rest.
        ModelUnavailable: the endpoint does not serve; likewise.
    """
    from rag_assets.labels.generation.question_files import (
        check_free,
        check_new_file,
        review_sheet,
        write_folder,
    )
    from rag_assets.pipeline.question_generation import (
        Asking,
        generate_from_chunks,
        require_questions,
    )
    from rag_assets.store.atomic import write_text

    if sheet is not None:
        check_new_file(Path(sheet), force=force)
    if out is not None:
        check_free(Path(out), force=force)
    found = generate_from_chunks(_opened(path, store, progress), asking or Asking())
    require_questions(found, Path(path))
    if sheet is not None:
        check_new_file(Path(sheet), force=force)
        write_text(Path(sheet), review_sheet(found.found.questions, found.documents))
    if out is not None:
        write_folder(found.found.questions, found.documents, Path(out), force=force)
    return found


def estimate_generation(
    path: Path | str,
    asking: Asking | None = None,
    *,
    store: Path | str | None = None,
    progress: Progress | None = None,
) -> Estimate:
    """Return what :func:`generate` would ask and what that costs at most; asks nothing."""
    from rag_assets.pipeline import question_generation

    return question_generation.estimate_generation(
        _opened(path, store, progress), asking or question_generation.Asking()
    )


def import_questions(
    path: Path | str, sheet: Path | str, out: Path | str, *, force: bool = False
) -> Reviewed:
    """Write the questions of a sheet that people want to keep as a dataset folder.

    Args:
        path: as for :func:`generate`: the documents.
        sheet: what :func:`generate` wrote, with ``yes`` or ``no`` under ``keep``.
        out: the dataset folder to write.
        force: replace a generated dataset that is there.

    Raises:
        UsageError: something is at ``out``.
        DataError: a row of the sheet is not as it was written, or none says yes.
    """
    from rag_assets.errors import DataError
    from rag_assets.labels.generation.question_files import check_free, read_review, write_folder

    check_free(Path(out), force=force)
    documents = load_experiment(path).dataset.read_documents().table
    reviewed = read_review(Path(sheet), documents)
    if not reviewed.questions.num_rows:
        raise DataError("no row says yes under `keep`; nothing is written", file=Path(sheet))
    write_folder(reviewed.questions, documents, Path(out), force=force)
    return reviewed


def _opened(path: Path | str, store: Path | str | None, progress: Progress | None) -> Pipeline:
    from rag_assets.pipeline.pipeline import Pipeline
    from rag_assets.pipeline.registry import open_experiment
    from rag_assets.progress import no_progress
    from rag_assets.store.settings import StoreSettings

    settings = StoreSettings.resolve(store)
    return Pipeline(open_experiment(path, settings), settings, progress or no_progress)
