"""The Python interface of questions that a language model asks: the same as ``generate``.

Everything is imported where it is used, as in :mod:`rag_assets.api`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_assets.labels.generation.from_chunks import Asking, Generation
    from rag_assets.labels.generation.question_files import Reviewed
    from rag_assets.llm.completions import Estimate
    from rag_assets.pipeline.pipeline import Pipeline
    from rag_assets.progress import Progress


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
        path: as for :func:`rag_assets.load_experiment`; needs neither queries nor labels.
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
    from rag_assets.labels.generation.from_chunks import (
        Asking,
        generate_from_chunks,
    )
    from rag_assets.labels.generation.question_files import (
        check_free,
        check_new_file,
        review_sheet,
        write_folder,
    )
    from rag_assets.store.atomic import write_text

    if sheet is not None:
        check_new_file(Path(sheet), force=force)
    if out is not None:
        check_free(Path(out), force=force)
    found = generate_from_chunks(_opened(path, store, progress), asking or Asking())
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
    from rag_assets.labels.generation import from_chunks

    return from_chunks.estimate_generation(
        _opened(path, store, progress), asking or from_chunks.Asking()
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
        DataError: a row of the sheet is not as it was written, or no question is kept.
    """
    from rag_assets.errors import DataError
    from rag_assets.experiment import load_experiment
    from rag_assets.labels.generation.question_files import check_free, read_review, write_folder

    check_free(Path(out), force=force)
    experiment = load_experiment(path)
    documents = experiment.dataset.read_documents().table
    reviewed = read_review(Path(sheet), documents)
    if not reviewed.questions.num_rows:
        problem = "no row says yes under `keep`; nothing is written"
        raise DataError(problem, file=Path(sheet))
    write_folder(reviewed.questions, documents, Path(out), force=force)
    return reviewed


def _opened(path: Path | str, store: Path | str | None, progress: Progress | None) -> Pipeline:
    from rag_assets.pipeline.evaluation_names import open_experiment
    from rag_assets.pipeline.pipeline import Pipeline
    from rag_assets.progress import no_progress
    from rag_assets.store.settings import StoreSettings

    settings = StoreSettings.resolve(store)
    return Pipeline(open_experiment(path, settings), settings, progress or no_progress)
