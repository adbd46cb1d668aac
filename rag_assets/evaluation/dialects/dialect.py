"""What every dialect has: a tool's own names, its value of each query, its mean.

And what a tool is given to score: its lists as they stand in the file, and the labels. A table of
runs holds every document once and in one order; tools differ in just these two things, so the
dialects read the lists before either is settled.
"""

from __future__ import annotations

import math
import re
from abc import ABC
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.label_files import Labels
from rag_assets.evaluation.metric_names import LARGEST_CUTOFF

_NAME = re.compile(r"(?P<measure>.+?)(?:@(?P<cutoff>[0-9]+))?")

Hit = tuple[str, float]
"""A document and its score."""


@dataclass(frozen=True)
class ToolMetric:
    """A metric in a tool's own words.

    Attributes:
        name: as it was asked for.
        measure: the name without its cut-off.
        cutoff: how many documents of each list are looked at; None: all.
    """

    name: str
    measure: str
    cutoff: int | None = None


class NoNumber(Exception):
    """The tool itself fails on this input, so there is no number to equal."""


@dataclass(frozen=True)
class ToolQuery:
    """One query: what was retrieved for it, and what is relevant.

    Attributes:
        query_id: the query.
        hits: what was retrieved as the file lists it, with every repetition.
        listed: the order of the hits is the ranking; otherwise score descending, then id
            descending by UTF-8 bytes.
        in_run: whether the run names the query at all.
        groups: ids of relevant documents; one of each group is needed. As the labels have them,
            with empty groups, blank ids and repetitions.
        grades: every judged document -> its highest grade.
        judged_anywhere: documents that are judged for any query.
    """

    query_id: str
    hits: tuple[Hit, ...]
    listed: bool
    in_run: bool = True
    groups: tuple[tuple[str, ...], ...] = ()
    grades: Mapping[str, int] = field(default_factory=dict)
    judged_anywhere: frozenset[str] = frozenset()

    @cached_property
    def ranking(self) -> list[str]:
        """Ids, best first, with repetitions."""
        if self.listed:
            return [item for item, _ in self.hits]
        return [item for item, _ in sorted(self.hits, key=lambda hit: hit[::-1], reverse=True)]

    @cached_property
    def scores(self) -> dict[str, float]:
        """Score of each document; of a repeated one the last, as assigning to a dict leaves it."""
        return dict(self.hits)

    @cached_property
    def relevant(self) -> frozenset[str]:
        """Documents with a positive grade."""
        return frozenset(item for item, grade in self.grades.items() if grade > 0)

    @cached_property
    def repeated(self) -> dict[str, int]:
        """Documents that stand more than once -> how often."""
        counts = Counter(item for item, _ in self.hits)
        return {item: count for item, count in counts.items() if count > 1}


Measure = Callable[[ToolQuery, ToolMetric], float | None]
"""Value of one query; None: the tool has none and leaves the query out of its mean.

Raises NoNumber where the tool raises.
"""


@dataclass(frozen=True)
class Outcome:
    """One metric of a run, as the tool gives it.

    Attributes:
        mean: what the tool prints; None when it prints no number.
        per_query: query -> value, None for one that is left out of the mean.
        problem: why there is no mean.
    """

    mean: float | None
    per_query: dict[str, float | None]
    problem: str | None = None


class Dialect(ABC):
    """One tool.

    Attributes:
        name: what ``--dialect`` takes.
        package: the tool and the version whose numbers the tests compare with.
        defaults: metrics that are scored when none is named.
        measures: own name -> value of one query.
        needs_cutoff: whether a metric without a cut-off does not exist.
        warning: what a reader of its numbers has to know.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    defaults: ClassVar[tuple[str, ...]]
    measures: ClassVar[Mapping[str, Measure]]
    needs_cutoff: ClassVar[bool] = False
    warning: ClassVar[str | None] = None

    def parse(self, name: str) -> ToolMetric:
        """Return the metric that ``name`` means in this tool.

        Raises:
            UsageError: the tool has no such metric, or it needs a cut-off from 1.
        """
        match = _NAME.fullmatch(name.strip())
        measure = match["measure"] if match else name
        if match is None or measure not in self.measures:
            allowed = allowed_names(name, self.measures)
            raise UsageError(f"dialect {self.name}: unknown metric {allowed}")
        cutoff = int(match["cutoff"]) if match["cutoff"] else None
        if cutoff is None and self.needs_cutoff:
            problem = f"'{name}' needs a cut-off, such as {measure}@10"
            raise UsageError(f"dialect {self.name}: {problem}")
        if cutoff is not None and not 1 <= cutoff <= LARGEST_CUTOFF:
            raise UsageError(f"dialect {self.name}: '{name}': the cut-off must be at least 1")
        return ToolMetric(name.strip(), measure, cutoff)

    def outcome(self, data: ToolInput, metric: ToolMetric) -> Outcome:
        """Return the tool's number and its value for each query of the labels."""
        measure = self.measures[metric.measure]
        values: dict[str, float | None] = {}
        problems: list[str] = []
        for query in data.judged:
            try:
                values[query.query_id] = measure(query, metric)
            except NoNumber as error:
                values[query.query_id] = None
                problems.append(f"query '{query.query_id}': {error}")
        if problems:
            more = f" (and {len(problems) - 1} more queries)" if len(problems) > 1 else ""
            return Outcome(None, values, problems[0] + more)
        return Outcome(mean_of(values.values()), values)


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None, or None without any."""
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None


def discounted(gains: Iterable[float]) -> float:
    """Return the sum of gain / log2(rank + 1) over a list of gains, best rank first."""
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


@dataclass(frozen=True)
class ToolInput:
    """Everything that a tool is given.

    Attributes:
        judged: the queries of the labels, in their order, retrieved or not.
        strangers: queries of the run that the labels lack.
    """

    judged: tuple[ToolQuery, ...]
    strangers: tuple[ToolQuery, ...]


def tool_input(hits: Mapping[str, tuple[Hit, ...]], listed: bool, labels: Labels) -> ToolInput:
    """Put together what a tool is given.

    Args:
        hits: query -> what was retrieved for it.
        listed: the order of the hits is the ranking; otherwise their scores decide.
        labels: the labels of all queries to score.
    """
    grades = _grades(labels.judgments)
    anywhere = frozenset(item for judged in grades.values() for item in judged)
    judged = tuple(
        ToolQuery(
            query_id=query_id,
            hits=hits.get(query_id, ()),
            listed=listed,
            in_run=query_id in hits,
            groups=groups,
            grades=grades.get(query_id, {}),
            judged_anywhere=anywhere,
        )
        for query_id, groups in labels.groups.items()
    )
    strangers = tuple(
        ToolQuery(query_id, query_hits, listed, judged_anywhere=anywhere)
        for query_id, query_hits in hits.items()
        if query_id not in labels.groups
    )
    return ToolInput(judged, strangers)


def repetitions(data: ToolInput) -> Iterable[tuple[str, str, int]]:
    """Yield (query, document, how often) for each document that stands more than once."""
    for query in (*data.judged, *data.strangers):
        for item, count in query.repeated.items():
            yield query.query_id, item, count


def _grades(judgments: pa.Table) -> dict[str, dict[str, int]]:
    by_query: dict[str, dict[str, int]] = {}
    for row in judgments.to_pylist():
        grades = by_query.setdefault(row["query_id"], {})
        if (item := row["unit_id"]) is not None:
            grades[item] = max(row["grade"], grades.get(item, row["grade"]))
    return by_query
