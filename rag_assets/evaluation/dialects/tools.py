"""The metrics of three tools: for each a table of its names and the formulas behind them.

What they mean, and where they part, is in ``docs/dialects.md``. A metric at a cut-off is that of
the list cut there; items that stand in a list twice count where the tool counts them.

- AutoRAG: ``autorag/evaluation/metric/retrieval.py`` and ``schema/metricinput.py`` of AutoRAG
  0.3.27 (https://github.com/Marker-Inc-Korea/AutoRAG). Lists against groups of alternatives; means
  over groups. No value where the list or the labels are empty or hold an empty group or a blank id.
- LlamaIndex: ``llama_index/core/evaluation/retrieval/metrics.py`` of llama-index-core 0.14.25
  (https://github.com/run-llama/llama_index). Binary; the ideal of nDCG is *not* cut at the length
  of the list. (Up to 0.11.20 it was as many ones as the list is long.)
- Ragas: ``ragas/metrics/_context_precision.py`` of ragas 0.4.3
  (https://github.com/explodinggradients/ragas). The labels stand for the verdicts of its model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rag_assets.evaluation.dialects.dialect import (
    Dialect,
    Measure,
    NoNumber,
    ToolQuery,
    discounted,
)


def _ranks(items: Collection[str], ranking: Sequence[str]) -> list[int]:
    return [rank for rank, item in enumerate(ranking, 1) if item in items]


def _precisions(ranks: Sequence[int]) -> float:
    """Return the sum of the precision at each rank that holds a relevant document."""
    return sum(nth / rank for nth, rank in enumerate(ranks, 1))


def _reciprocal_rank(relevant: Collection[str], ranking: Sequence[str]) -> float:
    return next((1 / rank for rank in _ranks(relevant, ranking)), 0.0)


def _binary_gain(relevant: Collection[str], ranking: Sequence[str]) -> float:
    return discounted(float(item in relevant) for item in ranking)


Groups = Sequence[frozenset[str]]


def _autorag(compute: Callable[[Groups, Sequence[str], int], float]) -> Measure:
    """Return the measure of (groups, list, number of ids in all groups) as one of a query."""

    def measure(query: ToolQuery, ranking: Sequence[str]) -> float | None:
        lists = [ranking, *query.groups]
        if not query.groups or not all(items and all(map(str.strip, items)) for items in lists):
            return None
        n_ids = sum(len(group) for group in query.groups)
        return compute([frozenset(group) for group in query.groups], ranking, n_ids)

    return measure


def _group_recall(groups: Groups, ranking: Sequence[str], _: int) -> float:
    return sum(not group.isdisjoint(ranking) for group in groups) / len(groups)


def _group_precision(groups: Groups, ranking: Sequence[str], _: int) -> float:
    return len(frozenset().union(*groups).intersection(ranking)) / len(ranking)


def _group_f1(groups: Groups, ranking: Sequence[str], n_ids: int) -> float:
    recall = _group_recall(groups, ranking, n_ids)
    precision = _group_precision(groups, ranking, n_ids)
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


def _group_mrr(groups: Groups, ranking: Sequence[str], _: int) -> float:
    return sum(_reciprocal_rank(group, ranking) for group in groups) / len(groups)


def _group_map(groups: Groups, ranking: Sequence[str], _: int) -> float:
    ranks = [_ranks(group, ranking) for group in groups]
    return sum(_precisions(each) / max(len(each), 1) for each in ranks) / len(groups)


def _group_ndcg(groups: Groups, ranking: Sequence[str], n_ids: int) -> float:
    gained = _binary_gain(frozenset().union(*groups), ranking)
    return gained / discounted([1.0] * min(n_ids, len(ranking)))


AUTORAG = Dialect(
    name="autorag",
    package="AutoRAG 0.3.27",
    measures={
        "retrieval_f1": _autorag(_group_f1),
        "retrieval_recall": _autorag(_group_recall),
        "retrieval_precision": _autorag(_group_precision),
        "retrieval_ndcg": _autorag(_group_ndcg),
        "retrieval_mrr": _autorag(_group_mrr),
        "retrieval_map": _autorag(_group_map),
    },
    defaults=tuple(
        f"retrieval_{name}" for name in ("f1", "recall", "precision", "ndcg", "mrr", "map")
    ),
)


def _llamaindex(compute: Callable[[frozenset[str], Sequence[str]], float]) -> Measure:
    """Return the measure of (relevant ids, list) as one of a query."""

    def measure(query: ToolQuery, ranking: Sequence[str]) -> float:
        if not ranking:
            raise NoNumber("nothing was retrieved, LlamaIndex raises ValueError")
        if not query.relevant:
            raise NoNumber("no document is relevant, LlamaIndex raises ValueError")
        return compute(query.relevant, ranking)

    return measure


LLAMAINDEX = Dialect(
    name="llamaindex",
    package="llama-index-core 0.14.25",
    measures={
        "hit_rate": _llamaindex(lambda relevant, ranking: float(not relevant.isdisjoint(ranking))),
        "mrr": _llamaindex(_reciprocal_rank),
        "precision": _llamaindex(
            lambda relevant, ranking: len(relevant.intersection(ranking)) / len(set(ranking))
        ),
        "recall": _llamaindex(
            lambda relevant, ranking: len(relevant.intersection(ranking)) / len(relevant)
        ),
        "ap": _llamaindex(
            lambda relevant, ranking: _precisions(_ranks(relevant, ranking)) / len(relevant)
        ),
        "ndcg": _llamaindex(
            lambda relevant, ranking: (
                _binary_gain(relevant, ranking) / discounted([1.0] * len(relevant))
            )
        ),
    },
    defaults=("hit_rate", "mrr", "precision", "recall", "ap", "ndcg"),
)


def _context_precision(query: ToolQuery, ranking: Sequence[str]) -> float | None:
    ranks = _ranks(query.relevant, ranking)
    return _precisions(ranks) / (len(ranks) + 1e-10) if query.in_run else None


RAGAS = Dialect(
    name="ragas",
    package="ragas 0.4.3",
    measures={
        "llm_context_precision_with_reference": _context_precision,
        "llm_context_precision_without_reference": _context_precision,
    },
    defaults=("llm_context_precision_with_reference",),
    warning=(
        "context precision divides by what is relevant among the retrieved, so what was missed "
        "costs nothing; and verdicts of a model need calibration. Without a reference the answer "
        "is taken for the truth: a wrong one makes the passages right that misled it"
    ),
)

DIALECTS: dict[str, Dialect] = {tool.name: tool for tool in (AUTORAG, LLAMAINDEX, RAGAS)}
"""What ``--dialect`` takes -> the dialect."""
