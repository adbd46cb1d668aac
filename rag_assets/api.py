"""The Python interface: the same as the command line, without printing.

Everything is imported where it is used, so that ``import rag_assets`` loads neither Dagster nor a
model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_assets.errors import DataError, UsageError

if TYPE_CHECKING:
    from rag_assets.analysis.comparisons import Comparison
    from rag_assets.analysis.gate import Gate
    from rag_assets.analysis.history import MetricHistory
    from rag_assets.analysis.question_hits import QuestionHits
    from rag_assets.evaluation.score import Scores
    from rag_assets.report.evaluation_table import EvaluationTable


def evaluate(
    path: Path | str | None = None,
    store: Path | str | None = None,
    retrievers: Sequence[str] | Mapping[str, object] = (),
    top_k: Sequence[int] = (),
    *,
    documents: object = None,
    queries: object = None,
    judgments: object = None,
    name: str = "live",
    settings: Mapping[str, Any] | None = None,
    metrics: Sequence[Callable[[list[int | None], int], float]] = (),
    **others: object,
) -> EvaluationTable:
    """Evaluate the experiment at ``path``, or what is given: no file and no folder is needed.

    Of ``path``, what is not current is computed through Dagster in this process, as
    ``rag-assets evaluate`` does; where that changes anything, the HTML report and the warehouse are
    written again. Of ``documents``, ``queries`` and ``judgments``, all is computed at once, without
    Dagster, report and warehouse, and nothing is left behind unless there is a ``store``::

        result = rag_assets.evaluate(
            documents={"fares": "A dog needs a ticket.", "storm": "The harbour closes."},
            queries={"q1": "ticket for a dog"},
            judgments={"q1": ["fares"]},
            retrievers={"mine": retrieve, "bm25": {"type": "bm25"}},
        )

    Args:
        path: as for :func:`load_experiment`.
        store: folder for artifacts and state. Of ``path``, ``RAG_ASSETS_STORE``, else
            ``data/store``, if absent; else a temporary one, which goes with the result.
        retrievers: of ``path``, names of those to evaluate, all if empty. Else each by its name: a
            function of (query, k) or of the query; an object with ``invoke``, ``retrieve`` or
            ``run`` (LangChain, LlamaIndex, Haystack); or a dict as in an ``experiment.yaml``, such
            as ``{"type": "embedding"}``, or with a function as ``call``:
            ``{"call": retrieve, "returns": "texts", "concurrency": 4}``. The first is the baseline.
        top_k: of ``path``, the cut-offs to evaluate, all if empty; else which there are, (1, 3, 5,
            10, 100) if empty.
        documents: a list of texts, whose ids are 0, 1, ...; a dict of id to text; or a list of
            dicts or a data frame (pandas, polars, pyarrow) with ``doc_id``, ``text`` and if wanted
            ``title``.
        queries: the same, with ``query_id`` and ``text``.
        judgments: query id -> document id -> grade, or -> a list of relevant ids; a list of (query
            id, document id, grade); or a list of dicts or a data frame with ``query_id``,
            ``doc_id``, and if wanted ``relevance`` and ``quote``, the passage that answers. None:
            there are no labels, and the retrievers are compared with each other.
        name: of the experiment, in ``store``.
        settings: any other keys of an ``experiment.yaml``, such as ``metrics``, ``primary`` and
            ``chunking``.
        metrics: further metrics at each ``top_k``: functions of (grades of the ranked units, None:
            no label; number of relevant ones) that give a number of at least 0, a higher one where
            a ranking is better. That of ``def first_rank`` is ``own_first_rank``. A changed
            function computes its metrics again; one that is made while the program runs does each
            time. An evaluation without ``metrics``, as of the command line, has none of them.
        **others: none; one is refused, and where it belongs is said.

    Returns:
        The evaluation: ``result.leaderboard`` is a table of
        :data:`rag_assets.schemas.LEADERBOARD`, all means in [0, 1]. Without labels there is none,
        and ``result.overlaps`` compares the retrievers at each top_k. ``print`` and a notebook show
        headline and leaderboard; ``to_arrow()``, ``to_pandas()``, ``to_polars()`` and ``plot()``
        are for more. ``result.answers`` is the same of answerers, and ``result.judged`` is what
        judges say of their answers, calibrated with labels of people. ``result.sampled`` is what a
        sample of labels estimates.

    Raises:
        UsageError: nothing at ``path``, a retriever or cut-off is not the experiment's, another
            experiment has its name in the store; or something that is given is of no known form.
        RagAssetsError: invalid configuration or data, a model that cannot be had, or a store that
            cannot be written.
    """
    if others:
        raise _no_argument(*next(iter(others.items())), path)
    if isinstance(top_k, int):
        raise _unexpected("top_k", top_k, f"a list, such as [{top_k}]")
    if path is not None:
        if documents is not None or queries is not None or isinstance(retrievers, Mapping):
            raise UsageError("give a path, or documents, queries and retrievers, not both")
        if isinstance(retrievers, str):
            raise _unexpected("retrievers", retrievers, f"a list, such as [{retrievers!r}]")
        return _evaluate_path(path, store, retrievers, top_k, metrics)
    data = {"documents": documents, "queries": queries, "retrievers": retrievers}
    for what, given in data.items():
        if given is None or (isinstance(given, tuple) and not given):
            raise UsageError(f"`{what}` is missing; give documents, queries and retrievers")
    if not isinstance(retrievers, Mapping) or not retrievers:
        raise _unexpected("retrievers", retrievers, "a dict of name to retriever, at least one")
    from rag_assets.evaluation.score import function_measures
    from rag_assets.live import Records
    from rag_assets.live import evaluate as evaluate_records

    cutoffs = {"top_k": list(top_k)} if top_k else {}
    records = Records.of(documents, queries, judgments)
    chosen = {**(settings or {}), **cutoffs, "name": name}
    try:
        return evaluate_records(records, retrievers, chosen, store, function_measures(metrics))
    except (DataError, UsageError) as error:
        raise error.with_traceback(None) from None  # the mistake is in what was given


def _no_argument(key: str, value: object, path: object) -> UsageError:
    how = f"`settings={{{key!r}: {value!r:.60}}}`" if path is None else "its experiment.yaml"
    what = "labels go into `judgments`" if key == "qrels" else f"a setting goes into {how}"
    return UsageError(f"evaluate has no argument '{key}'; {what}")


def _unexpected(name: str, given: object, expected: str) -> UsageError:
    return UsageError(f"{name} is {type(given).__name__} {given!r:.60}; expected {expected}")


def _evaluate_path(
    path: Path | str,
    store: Path | str | None,
    retrievers: Sequence[str],
    top_k: Sequence[int],
    metrics: Sequence[Callable[[list[int | None], int], float]],
) -> EvaluationTable:
    from rag_assets.assets.evaluate import as_in_a_script
    from rag_assets.assets.evaluate import evaluate as bring_up_to_date
    from rag_assets.compute.compute import release_workers
    from rag_assets.evaluation.score import function_measures
    from rag_assets.pipeline.evaluation_names import open_experiment
    from rag_assets.pipeline.pipeline import Pipeline
    from rag_assets.pipeline.selection import Selection
    from rag_assets.report.evaluation_table import EvaluationTable
    from rag_assets.report.html import write_report
    from rag_assets.store.settings import StoreSettings

    settings = StoreSettings.resolve(store)
    experiment = open_experiment(path, settings).with_functions(function_measures(metrics))
    pipeline = Pipeline(experiment, settings)
    selection = Selection.of(experiment, retrievers, top_k)
    try:
        with as_in_a_script():
            work = bring_up_to_date(pipeline, selection, trigger="Python")
    finally:
        release_workers()
    result = EvaluationTable(pipeline.root, work.evaluation)
    write_report(result)
    return result


def ask(
    path: Path | str,
    question: str,
    retrievers: Sequence[str] = (),
    top_k: int = 5,
    *,
    store: Path | str | None = None,
) -> QuestionHits:
    """Show what each retriever finds for one question, as ``rag-assets ask`` does.

    Neither queries nor labels are needed. Indexes that are not in the store are computed and kept.

    Args:
        path: as for :func:`load_experiment`.
        question: any text.
        retrievers: names of those to ask; all if empty.
        top_k: so many passages of each.
        store: as for :func:`evaluate`.

    Returns:
        What was found, the cheapest retrievers first; ``print`` and a notebook show it, ``rows()``
        and ``to_arrow()`` are for programs. A retriever that cannot answer has a ``problem``.

    Raises:
        UsageError: the question is blank, or a retriever is not the experiment's.
        RagAssetsError: invalid configuration or data, or a store that cannot be written.
    """
    from rag_assets.analysis.question_hits import QuestionHits
    from rag_assets.compute.compute import release_workers
    from rag_assets.pipeline.pipeline import Pipeline
    from rag_assets.retrieval.ask import ask as hits_of

    pipeline = Pipeline.open(path, store)
    try:
        return QuestionHits(question, hits_of(pipeline, question, retrievers, top_k))
    finally:
        release_workers()


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
    from rag_assets.pipeline.evaluation_names import open_evaluations
    from rag_assets.report.evaluation_table import EvaluationTable

    _, names = open_evaluations(path, store)
    return EvaluationTable.current(names.root)


def compare(
    path: Path | str | EvaluationTable,
    *retrievers: str,
    store: Path | str | None = None,
    metric: str | None = None,
    split: str | None = None,
) -> Comparison:
    """Compare two retrievers on the same queries, or all pairs, as ``rag-assets compare`` does.

    The last evaluation is read; nothing is searched again.

    Args:
        path: as for :func:`load_experiment`; or what :func:`evaluate` returned.
        retrievers: two, the second against the first; all pairs without. Of answerers ``plain@5``.
        store: as for :func:`evaluate`.
        metric: such as ``recall@10`` or ``answer_f1``; the primary metric when absent, of
            answerers F1 where there are right answers.
        split: whose queries; the one to show when absent.

    Raises:
        NotEvaluated: no evaluation, no labels, or no such cell.
        UsageError: not two retrievers, or an unknown retriever, metric or split.
    """
    from rag_assets.analysis.comparisons import Comparison
    from rag_assets.pipeline.evaluation_names import open_evaluations
    from rag_assets.pipeline.selection import check_cell_names
    from rag_assets.report.evaluation_table import EvaluationTable

    if isinstance(path, EvaluationTable):
        return Comparison.of(path, retrievers, metric, split)
    experiment, names = open_evaluations(path, store)
    result = EvaluationTable.current(names.root)
    check_cell_names(experiment, [n for n in retrievers if n not in result.run_retrievers])
    return Comparison.of(result, retrievers, metric, split)


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
    from rag_assets.analysis.history import MetricHistory
    from rag_assets.pipeline.evaluation_names import open_evaluations

    _, names = open_evaluations(path, store)
    return MetricHistory.of(names.history(), metric, retrievers, split, last)


def gate(
    path: Path | str,
    against: str | None = "anchor",
    *,
    store: Path | str | None = None,
    max_drop: float = 0.01,
    alpha: float = 0.05,
    metric: str | None = None,
    split: str | None = None,
    retrievers: Sequence[str] = (),
    intersection: bool = False,
    floors: Sequence[Mapping[str, object]] | Mapping[str, float] = (),
) -> Gate:
    """Say whether the last evaluation passes, fails, or nobody can tell, as ``rag-assets gate``.

    A state that was not compared with ``against`` before is a look, and is kept in the store.

    Args:
        path: as for :func:`load_experiment`.
        against: ``anchor``, ``previous``, or a part of the id of an evaluation; None: with none,
            floors alone count.
        store: as for :func:`evaluate`.
        max_drop: so much a mean may fall.
        alpha: chance that any of the 20 looks at an anchor fails without a drop.
        metric: the primary one when absent; of answerers their headline.
        split: whose queries; ``test`` where there is one when absent.
        retrievers: only these, answerers as ``plain@5``; all when empty.
        intersection: compare also where queries or labels differ, on those that are the same.
        floors: as in an ``experiment.yaml``, whose floors count too: ``{"hit_rate@10": 0.8}``, or a
            list of blocks.

    Returns:
        ``answer`` is ``pass``, ``fail`` or ``cannot tell``; ``checks`` has one for each retriever,
        with the numbers, the reason and the causes; ``floors`` one for each floor and retriever.

    Raises:
        NotEvaluated: there is nothing to compare, or nothing to compare with.
        UsageError: the evaluations are not comparable, a name is unknown, or a floor cannot be
            read and nothing fails.
    """
    from rag_assets.analysis.gate import Rules
    from rag_assets.analysis.gate import gate as judge
    from rag_assets.analysis.result import EvaluationResult
    from rag_assets.experiment.load import floors_of
    from rag_assets.pipeline.evaluation_names import open_evaluations

    experiment, names = open_evaluations(path, store)
    return judge(
        EvaluationResult.current(names.root, split),
        names,
        against,
        Rules(max_drop, alpha),
        metric=metric,
        retrievers=retrievers,
        intersection=intersection,
        floors=(*experiment.config.floors, *floors_of(floors)),
    )


def score(
    run_path: Path | str,
    qrels_path: Path | str,
    metrics: Sequence[str | Callable[[list[int | None], int], float]],
    trec_mean: bool = False,
) -> Scores:
    """Score a run file against labels, as ``rag-assets score`` does.

    Args:
        run_path: TREC run file, or JSON lines with ``retrieved_ids``, also gzipped (``.gz``).
        qrels_path: TREC qrels file, a BEIR qrels table, judgments as ``.jsonl``, or the
            ``qa.parquet`` of AutoRAG.
        metrics: names in our vocabulary, that of ir_measures or that of trec_eval; echoed. Or
            functions of (grades of the ranked units, None: not judged; number of relevant ones).
        trec_mean: average over every query of the qrels, as ``trec_eval -c`` does; without it, over
            those with a relevant document.

    Raises:
        DataError: a file cannot be read or breaks its format; names file and line.
        UsageError: a metric is unknown, or ``precision`` has no cut-off; or what is given is no
            file: :func:`rag_assets.metrics` scores dicts.
    """
    for name, given in {"run_path": run_path, "qrels_path": qrels_path}.items():
        if not isinstance(given, str | os.PathLike):
            expected = "a file; rag_assets.metrics(run, qrels, names) is of dicts"
            raise _unexpected(name, given, expected)
    if isinstance(metrics, str):
        raise _unexpected("metrics", metrics, f"a list, such as [{metrics!r}]")
    from rag_assets.evaluation.label_files import read_labels
    from rag_assets.evaluation.run_files import read_run_file
    from rag_assets.evaluation.score import score as score_tables

    run, labels = read_run_file(Path(run_path)), read_labels(Path(qrels_path))
    return score_tables(run, labels.judgments, metrics, trec_mean=trec_mean)
