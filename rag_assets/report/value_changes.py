"""How the primary metric went since an older evaluation, and the questions that are worst now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rag_assets.errors import NotEvaluated, RagAssetsError
from rag_assets.evaluation.query_facts_stage import counting_of
from rag_assets.pipeline.evaluation_names import LATEST, PREVIOUS, EvaluationNames
from rag_assets.pipeline.evaluations import ANCHOR, Evaluation
from rag_assets.plain_text import one_line
from rag_assets.report.drop_causes import LostQuestion, causes_of
from rag_assets.report.evaluation_pairs import EvaluationPair, comparability, question_texts
from rag_assets.report.page.embedded_data import shortened
from rag_assets.report.result import EvaluationResult
from rag_assets.report.unjudged_newcomers import CorpusChange
from rag_assets.statistics.comparisons import is_significant
from rag_assets.statistics.stage import COMPARISONS_KEY
from rag_assets.statistics.units import SAME
from rag_assets.store.settings import StoreSettings

QUESTIONS = 3
"""So many questions are named in a line."""

WORST = 10
"""So many are in a table."""


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
        shown = [
            f'{one.query_id} "{shortened(one_line(one.text))}" {one.old:.4f} -> {one.new:.4f}'
            for one in self.lost[:QUESTIONS]
        ]
        more = self.n_lost - len(shown)
        rest = f"; and {more} more" if more else ""
        return f"{head}; lost most: {'; '.join(shown)}{rest}" if shown else head


@dataclass(frozen=True)
class WorstQuestion:
    """A question on which a retriever has little: before is None where that is not known."""

    query_id: str
    text: str
    old: float | None
    new: float


def pair_with(old: Evaluation, new: EvaluationResult) -> EvaluationPair | None:
    """Return a newer evaluation beside an older one; None where nothing in them can be compared.

    Raises:
        RagAssetsError: the older one cannot be read, or judges otherwise.
    """
    older = EvaluationResult(new.root, old)
    if not (older.has_metrics and new.has_metrics):
        return None
    shared = comparability(older, new).shared
    return EvaluationPair.of(older, new, shared) if shared else None


def value_changes(
    pair: EvaluationPair, couples: Iterable[tuple[str, str]] = ()
) -> list[ValueChange]:
    """Return the changes of a pair, the one that fell most first.

    Args:
        pair: two evaluations.
        couples: a retriever of the older one, and one of the newer; by default each that both have,
            with itself.
    """
    corpus = CorpusChange(pair)
    own = [(name, name) for name in pair.new_cells if name in pair.old_cells]
    changes = []
    for old, new in couples or own:
        row = pair.row(old, new)
        if row is None:
            continue
        causes = causes_of(pair, old, new, corpus) if row["lost"] else None
        changes.append(
            ValueChange(
                new if old == new else f"{new} against {old}",
                str(pair.metric),
                row["old"],
                row["new"],
                row["p_randomisation"],
                causes.lost if causes is not None else (),
                causes.n_lost if causes is not None else 0,
            )
        )
    return sorted(changes, key=lambda one: (one.new - one.old, one.retriever))


def last_other(names: EvaluationNames, now: Evaluation) -> Evaluation | None:
    """Return the last evaluation with another leaderboard than ``now``, of the last two."""
    for name in (LATEST, PREVIOUS):
        try:
            one = names.find(name)
        except NotEvaluated:
            return None
        if _board(one) not in (None, _board(now)):
            return one
    return None


def _board(evaluation: Evaluation) -> str | None:
    entries = evaluation.entries_of("leaderboard")
    return entries[0].digest if entries else None


def drop_lines(settings: StoreSettings, experiment: str) -> list[str]:
    """Return what is lower than it was, and than the baseline, a line a retriever.

    Compared are the current evaluation and the anchor, or where none is pinned the one before; and
    with the baseline those retrievers that are shown to be worse. Empty where nothing fell or
    nothing can be compared: it is a hint, no result.
    """
    names, lines = EvaluationNames(settings, experiment), list[str]()
    for part in (_baseline_lines, _older_lines):
        # What cannot be read keeps nobody from telling the rest.
        with suppress(RagAssetsError):
            lines += part(names)
    return lines


def _older_lines(names: EvaluationNames) -> list[str]:
    old = names.find(ANCHOR if names.anchor_id() is not None else PREVIOUS)
    pair = pair_with(old, EvaluationResult.current(names.root))
    changes = value_changes(pair) if pair is not None else []
    since = f"since {old.evaluation_id}"
    return [f"{one.text} ({since})" for one in changes if one.old - one.new > SAME]


def _baseline_lines(names: EvaluationNames) -> list[str]:
    new = EvaluationResult.current(names.root)
    pair = pair_with(new.evaluation, new)
    return [one.text for one in _below_baseline(pair)] if pair is not None else []


def _below_baseline(pair: EvaluationPair) -> list[ValueChange]:
    """Return the retrievers that are shown to be worse than the baseline of an evaluation."""
    baseline = pair.new.evaluation.baseline
    couples = [
        (baseline, row["retriever_a" if row["retriever_b"] == baseline else "retriever_b"])
        for row in pair.new.table(COMPARISONS_KEY).to_pylist()
        if baseline in (row["retriever_a"], row["retriever_b"])
        and row["split"] == pair.split
        and is_significant(row)
    ]
    changes = value_changes(pair, couples) if couples else []
    return [one for one in changes if one.old - one.new > SAME]


def worst_questions(
    result: EvaluationResult, retriever: str, split: str, pair: EvaluationPair | None
) -> list[WorstQuestion]:
    """Return the questions of a split that have least, among them those that lost most first.

    Args:
        result: the evaluation.
        retriever: whose answers to them count.
        split: whose questions.
        pair: with the evaluation before; None: there is none to compare with.
    """
    before = dict(_values(pair.old, retriever, pair)) if pair is not None else {}
    counting = counting_of(result.table)
    columns = (counting[name].to_pylist() for name in ("query_id", "split"))
    own = {query_id for query_id, of in zip(*columns, strict=True) if of == split}
    texts = question_texts(result)
    rows = [
        WorstQuestion(query_id, texts.get(query_id, ""), before.get(query_id), value)
        for query_id, value in _values(result, retriever)
        if query_id in own
    ]
    bad = [row for row in rows if row.new < 1]
    return sorted(bad, key=_worst_first)[:WORST]


def _worst_first(row: WorstQuestion) -> tuple[float, float, str]:
    loss = max(0.0, row.old - row.new) if row.old is not None else 0.0
    return -round(loss, 9), row.new, row.query_id


def _values(
    result: EvaluationResult, retriever: str, pair: EvaluationPair | None = None
) -> Iterator[tuple[str, float]]:
    """Yield each question with its value, of those that a pair compares where one is given."""
    metric = pair.metric if pair is not None else result.primary
    table = result.cells_of(metric).get(retriever)
    if table is None or metric.column not in table.column_names:
        return
    columns = (table[name].to_pylist() for name in ("query_id", metric.column))
    for query_id, value in zip(*columns, strict=True):
        if value is not None and (pair is None or query_id in pair.queries):
            yield query_id, value
