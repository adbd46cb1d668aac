"""``rag-assets diff``: what differs between two evaluations, and what it did to the metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from rag_assets.cli.options import cell_names
from rag_assets.cli.terminal import messages, output, print_data
from rag_assets.errors import UsageError, allowed_names
from rag_assets.pipeline.evaluation_names import EvaluationNames, open_to_read
from rag_assets.report.diff import answer_changes, changes_between
from rag_assets.report.evaluation_pairs import (
    Comparability,
    EstimatedSource,
    EvaluationPair,
    MetricSource,
    comparability,
)
from rag_assets.report.formats import as_json, formatted
from rag_assets.report.metric_sources import chosen_source
from rag_assets.report.result import EvaluationResult
from rag_assets.report.terminal_table import sheets_view
from rag_assets.store.settings import StoreSettings

NOT_COMPARABLE = 1


@dataclass(frozen=True)
class _Means:
    """What two evaluations came to by one metric; without a pair they cannot be compared."""

    comparable: Comparability
    pair: EvaluationPair | None
    rows: list[dict[str, object]]


def print_diff(
    path: Path,
    eval_a: str,
    eval_b: str,
    store: Path | None,
    retrievers: tuple[str, ...],
    answerers: tuple[str, ...],
    metric: str | None,
    split: str | None,
    intersection: bool,
    form: str,
) -> None:
    """Say what differs between two evaluations, and compare their metrics."""
    settings = StoreSettings.resolve(store)
    experiment = open_to_read(path, settings)
    names = EvaluationNames(settings, experiment.name)
    root = settings.store / experiment.name
    a, b = (EvaluationResult(root, names.find(name)) for name in (eval_a, eval_b))
    whose = cell_names(retrievers, answerers)
    every = [
        _means(a, b, chosen, split, whose, intersection=intersection)
        for chosen in _metrics(a, b, metric, whose)
    ]
    has_answers = bool(a.answer_metrics and b.answer_metrics) and not retrievers
    answers = answer_changes(a, b, answerers) if has_answers else None
    if form == "json":
        print_data(_json(a, b, every, answers))
    elif form == "table":
        _print_table(a, b, every, answers)
    else:
        reasons = [{"what": r.what, "old": r.old, "new": r.new} for r in changes_between(a, b)]
        tables = [_named(one) for one in every if one.rows]
        print_data(formatted((tables or [[]])[0] if form == "csv" else reasons, form))
        for rows in [*tables, *([answers] if answers else [])] if form == "markdown" else []:
            print_data(f"\n{formatted(rows, form)}")
    refusals = [one.comparable.refusal for one in every if one.pair is None]
    for refusal in dict.fromkeys(refusals):
        messages().print(f"note: {refusal}", soft_wrap=True)
    if refusals:
        click.get_current_context().exit(NOT_COMPARABLE)


def _metrics(
    a: EvaluationResult, b: EvaluationResult, metric: str | None, whose: Sequence[str]
) -> Iterator[MetricSource]:
    """Yield the metric that is asked for; else the primary one, and the headline of answers."""
    if metric is not None or whose:
        chosen = chosen_source(b, metric, whose)
        if isinstance(chosen, EstimatedSource):
            chosen.check_single("compared by `rag-assets gate` and `history`")
        if chosen.is_of_answers or (a.has_metrics and b.has_metrics):
            yield chosen
        return
    if a.has_metrics and b.has_metrics:
        yield chosen_source(b)
    if a.answer_metrics and b.answer_metrics:
        yield chosen_source(b, None, tuple(b.answer_metrics))


def _means(
    a: EvaluationResult,
    b: EvaluationResult,
    source: MetricSource,
    split: str | None,
    whose: Sequence[str],
    *,
    intersection: bool,
) -> _Means:
    comparable = comparability(a, b, answers=source.is_of_answers)
    if comparable.reasons and not intersection:
        return _Means(comparable, None, [])
    queries = comparable.chosen(intersection=intersection)
    pair = source.pair_on(a, b, queries, split)
    for name in whose:
        if name not in pair.new_cells:
            raise UsageError(f"unknown {source.subject} {allowed_names(name, pair.new_cells)}")
    return _Means(comparable, pair, pair.changes(whose))


def _named(one: _Means) -> list[dict[str, object]]:
    return [one.pair.source.named(row) for row in one.rows] if one.pair is not None else []


def _print_table(
    a: EvaluationResult,
    b: EvaluationResult,
    every: Sequence[_Means],
    answers: list[dict[str, object]] | None,
) -> None:
    from rag_assets.report.diff import answer_changes_sheet, changes_sheet, means_sheet

    sheets = [changes_sheet(a.evaluation, b.evaluation, changes_between(a, b))]
    for one in every:
        if one.pair is not None:
            metric, confidence = str(one.pair.metric), one.pair.resampling.confidence
            sheets.append(means_sheet(one.rows, metric, confidence))
    if answers is not None:
        sheets.append(answer_changes_sheet(answers))
    output().print(sheets_view(sheets))


def _json(
    a: EvaluationResult,
    b: EvaluationResult,
    every: Sequence[_Means],
    answers: list[dict[str, object]] | None,
) -> str:
    reasons = dict.fromkeys(reason for one in every for reason in one.comparable.reasons)
    of_answers, of_retrieval = (
        [row for one in every if _is_of_answers(one) == kind for row in _named(one)]
        for kind in (True, False)
    )
    content = {
        "a": a.evaluation.evaluation_id,
        "b": b.evaluation.evaluation_id,
        "changes": [asdict(reason) for reason in changes_between(a, b)],
        "not_comparable": [asdict(reason) for reason in reasons],
        "n_shared_queries": len(every[0].comparable.shared) if every else 0,
        "metrics": of_retrieval,
        "answer_metrics": of_answers,
        "answers": answers or [],
    }
    return as_json(content)


def _is_of_answers(one: _Means) -> bool:
    return one.pair is not None and one.pair.source.is_of_answers
