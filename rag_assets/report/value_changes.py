"""How the primary metric went since an older evaluation, and the questions that are worst now."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from rag_assets.errors import NotEvaluated, RagAssetsError
from rag_assets.pipeline.evaluation_names import LATEST, PREVIOUS, EvaluationNames
from rag_assets.pipeline.evaluations import ANCHOR, Evaluation
from rag_assets.plain_text import one_line
from rag_assets.report.drop_causes import (
    CorpusChange,
    LostQuestion,
    causes_of,
)
from rag_assets.report.evaluation_pairs import EvaluationPair, comparability, question_texts
from rag_assets.report.metric_sources import Retrieval
from rag_assets.report.page.environment import shortened
from rag_assets.report.result import EvaluationResult, pairs_of
from rag_assets.statistics.units import SAME
from rag_assets.store.settings import StoreSettings

MAX_NAMED = 3
"""Questions that are named in a line."""

MAX_WORST = 10
"""Questions in a table."""


@dataclass(frozen=True)
class ValueChange:
    """A retriever in two evaluations, on the questions that are the same in both.

    Attributes:
        retriever: its name.
        metric: the primary one, with its cut-off.
        old: the mean before.
        new: the mean now.
        p: of the paired randomisation test, not corrected; None: too few questions.
        lost: the questions that lost most, the worst first; a few of them.
        n_lost: how many lost.
    """

    retriever: str
    metric: str
    old: float
    new: float
    p: float | None
    lost: Sequence[LostQuestion]
    n_lost: int

    @property
    def text(self) -> str:
        """Return ``bm25: ndcg@10 0.8123 -> 0.7906; lost most: q1 "Who ..." 1.0000 -> 0.0000``."""
        head = f"{self.retriever}: {self.metric} {self.old:.4f} -> {self.new:.4f}"
        named = [
            f'{one.query_id} "{shortened(one_line(one.text))}" {one.old:.4f} -> {one.new:.4f}'
            for one in self.lost[:MAX_NAMED]
        ]
        more = self.n_lost - len(named)
        rest = f"; and {more} more" if more else ""
        return f"{head}; lost most: {'; '.join(named)}{rest}" if named else head


def pair_with(old: Evaluation, new: EvaluationResult) -> EvaluationPair | None:
    """Return a newer evaluation beside an older one; None where nothing in them can be compared.

    Raises:
        RagAssetsError: the older one cannot be read, or judges otherwise.
    """
    older = EvaluationResult(new.root, old)
    if not (older.has_metrics and new.has_metrics):
        return None
    shared = comparability(older, new).shared
    return Retrieval(new.primary).pair_on(older, new, shared) if shared else None


def value_changes(pair: EvaluationPair) -> list[ValueChange]:
    """Return the changes of the retrievers that both have, the one that fell most first."""
    corpus = CorpusChange(pair)
    changes = []
    for row in pair.rows():
        name = row["retriever"]
        causes = causes_of(pair, (name, name), corpus) if row["lost"] else None
        lost, n_lost = ((), 0) if causes is None else (causes.lost, causes.n_lost)
        means = row["old"], row["new"], row["p_randomisation"]
        changes.append(ValueChange(name, str(pair.metric), *means, lost, n_lost))
    return sorted(changes, key=lambda one: (one.new - one.old, one.retriever))


def last_other(names: EvaluationNames, now: Evaluation) -> Evaluation | None:
    """Return the last evaluation with another leaderboard than ``now``, of the last two."""

    def board(evaluation: Evaluation) -> str | None:
        entries = evaluation.entries_of("leaderboard")
        return entries[0].digest if entries else None

    for name in (LATEST, PREVIOUS):
        try:
            evaluation = names.find(name)
        except NotEvaluated:
            return None
        if board(evaluation) not in (None, board(now)):
            return evaluation
    return None


def drop_lines(settings: StoreSettings, experiment: str) -> list[str]:
    """Return what is lower than in the anchor, or the evaluation before; a line a retriever.

    Empty where nothing fell or nothing can be compared: it is a hint, no result.
    """
    with suppress(RagAssetsError):
        names = EvaluationNames(settings, experiment)
        old = names.find(ANCHOR if names.anchor_id() is not None else PREVIOUS)
        pair = pair_with(old, EvaluationResult.current(names.root))
        return [
            f"{change.text} (since {old.evaluation_id})"
            for change in (value_changes(pair) if pair is not None else ())
            if change.old - change.new > SAME
        ]
    return []


@dataclass(frozen=True)
class WorstQuestion:
    """A question on which a retriever has little: before is None where that is not known."""

    query_id: str
    text: str
    old: float | None
    new: float


def worst_questions(
    result: EvaluationResult, retriever: str, split: str, pair: EvaluationPair | None
) -> list[WorstQuestion]:
    """Return the questions of a split that have least, among them those that lost most first."""
    before = _values(pair.old, retriever) if pair is not None else {}
    compared = pair.queries if pair is not None else ()
    texts, counted = question_texts(result), result.weights(split)
    rows = [
        WorstQuestion(
            query, texts.get(query, ""), before.get(query) if query in compared else None, value
        )
        for query, value in _values(result, retriever).items()
        if query in counted and value is not None and value < 1
    ]
    return sorted(rows, key=_worst_first)[:MAX_WORST]


def _worst_first(row: WorstQuestion) -> tuple[float, float, str]:
    loss = max(0.0, row.old - row.new) if row.old is not None else 0.0
    return -round(loss, 9), row.new, row.query_id


def _values(result: EvaluationResult, retriever: str) -> dict[str, float | None]:
    table = Retrieval(result.primary).cells_with(result).get(retriever)
    return {} if table is None else pairs_of(table, "query_id", result.primary.column)
