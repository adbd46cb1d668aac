"""The metrics of AutoRAG, LlamaIndex and Ragas: for each a table of names, and the formulas.

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

A table of runs holds every document once and in one order; tools differ in just these two things,
so the dialects read the lists of a file, and the labels, before either is settled.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.label_files import Labels
from rag_assets.evaluation.metric_names import LARGEST_CUTOFF, Metric

_NAME = re.compile(r"(?P<measure>.+?)(?:@(?P<cutoff>[0-9]+))?")


class NoNumber(Exception):
    """The tool itself fails on this input, so there is no number to equal."""


@dataclass(frozen=True)
class ToolQuery:
    """One query: what was retrieved for it, and what is relevant.

    ``ranking`` is best first, with every repetition; ``in_run`` says whether the run names the
    query at all. One document of each of ``groups`` is needed; they are as the labels have them,
    with empty groups, blank ids and repetitions. ``grades`` has every judged document with its
    highest grade, and ``scores`` each document in the order of the run, with its last score.
    """

    query_id: str
    ranking: Sequence[str]
    in_run: bool = True
    groups: tuple[tuple[str, ...], ...] = ()
    grades: Mapping[str, int] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def relevant(self) -> frozenset[str]:
        """Documents with a positive grade."""
        return frozenset(item for item, grade in self.grades.items() if grade > 0)


class ToolInput(NamedTuple):
    """The queries of the labels, retrieved or not, and those of the run alone."""

    judged: tuple[ToolQuery, ...]
    strangers: tuple[ToolQuery, ...] = ()


Measure = Callable[[ToolQuery, Sequence[str]], float | None]
"""Value of one query and its ranking up to the cut; None: the tool leaves the query out of its
mean. Raises NoNumber where the tool raises."""


class Outcome(NamedTuple):
    """One metric of a run, as the tool gives it; ``problem`` says why there is no mean."""

    mean: float | None
    per_query: Mapping[str, float | None]
    problem: str | None = None


@dataclass(frozen=True)
class Dialect:
    """One tool, whose numbers the tests compare with those of its ``package``.

    ``measures`` is the tool's name of a measure -> its formula, a :data:`Measure` unless the tool
    has an ``outcome`` of its own; ``defaults`` are scored when
    none is named. ``warning`` is what a reader of its numbers has to know.
    """

    name: str
    package: str
    measures: Mapping[str, Callable[..., float | None]]
    defaults: tuple[str, ...]
    warning: str | None = None

    def parse(self, name: str) -> Metric:
        """Return the metric that ``name`` means in this tool."""
        match = _NAME.fullmatch(name.strip())
        if match is None or match["measure"] not in self.measures:
            allowed = allowed_names(name, self.measures)
            raise UsageError(f"dialect {self.name}: unknown metric {allowed}")
        cutoff = int(match["cutoff"]) if match["cutoff"] else None
        if cutoff is not None and not 1 <= cutoff <= LARGEST_CUTOFF:
            raise UsageError(f"dialect {self.name}: '{name}': the cut-off must be at least 1")
        return Metric(match["measure"], cutoff)

    def outcome(self, data: ToolInput, metric: Metric) -> Outcome:
        """Return the tool's number and its value for each query of the labels."""
        values: dict[str, float | None] = {}
        problems: list[str] = []
        for query in data.judged:
            values[query.query_id] = None
            try:
                ranking = query.ranking[: metric.cutoff]
                values[query.query_id] = self.measures[metric.measure](query, ranking)
            except NoNumber as error:
                problems.append(f"query '{query.query_id}': {error}")
        if problems:
            more = f" (and {len(problems) - 1} more queries)" if len(problems) > 1 else ""
            return Outcome(None, values, problems[0] + more)
        numbers = [value for value in values.values() if value is not None]
        return Outcome(math.fsum(numbers) / len(numbers) if numbers else None, values)


def tool_input(
    hits: Mapping[str, Sequence[tuple[str, float]]], listed: bool, labels: Labels
) -> ToolInput:
    """Put together what a tool is given.

    Args:
        hits: query -> (document, score) of what was retrieved for it.
        listed: the order of the hits is the ranking; otherwise score descending, then id
            descending by UTF-8 bytes.
        labels: the labels of all queries to score.
    """
    grades: dict[str, dict[str, int]] = {}
    for row in labels.judgments.to_pylist():
        if (item := row["unit_id"]) is not None:
            judged = grades.setdefault(row["query_id"], {})
            judged[item] = max(row["grade"], judged.get(item, row["grade"]))

    def query(name: str) -> ToolQuery:
        listing = hits.get(name, ())
        best = listing if listed else sorted(listing, key=lambda hit: hit[::-1], reverse=True)
        return ToolQuery(
            name,
            ranking=[item for item, _ in best],
            in_run=name in hits,
            groups=labels.groups.get(name, ()),
            grades=grades.get(name, {}),
            scores=dict(listing),
        )

    strangers = (query(name) for name in hits if name not in labels.groups)
    return ToolInput(tuple(map(query, labels.groups)), tuple(strangers))


def repetitions(data: ToolInput) -> Iterator[tuple[str, str, int]]:
    """Yield (query, document, how often) for each document that stands more than once."""
    for query in data.judged:
        for item, count in Counter(query.ranking).items():
            if count > 1:
                yield query.query_id, item, count


def discounted(gains: Iterable[float]) -> float:
    """Return the sum of gain / log2(rank + 1) over a list of gains, best rank first."""
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _ranks(items: Collection[str], ranking: Sequence[str]) -> list[int]:
    return [rank for rank, item in enumerate(ranking, 1) if item in items]


def precisions(ranks: Sequence[int]) -> float:
    """Return the sum of the precision at each rank that holds a relevant document."""
    return sum(nth / rank for nth, rank in enumerate(ranks, 1))


def reciprocal_rank(relevant: Collection[str], ranking: Sequence[str]) -> float:
    """Return 1 / rank of the first relevant document, or 0."""
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
    return sum(reciprocal_rank(group, ranking) for group in groups) / len(groups)


def _group_map(groups: Groups, ranking: Sequence[str], _: int) -> float:
    ranks = [_ranks(group, ranking) for group in groups]
    return sum(precisions(each) / max(len(each), 1) for each in ranks) / len(groups)


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
        "mrr": _llamaindex(reciprocal_rank),
        "precision": _llamaindex(
            lambda relevant, ranking: len(relevant.intersection(ranking)) / len(set(ranking))
        ),
        "recall": _llamaindex(
            lambda relevant, ranking: len(relevant.intersection(ranking)) / len(relevant)
        ),
        "ap": _llamaindex(
            lambda relevant, ranking: precisions(_ranks(relevant, ranking)) / len(relevant)
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
    return precisions(ranks) / (len(ranks) + 1e-10) if query.in_run else None


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
