"""A dialect: a tool's own names of metrics, its value of each query, its mean.

And what a tool is given to score: its lists as they stand in the file, and the labels. A table of
runs holds every document once and in one order; tools differ in just these two things, so the
dialects read the lists before either is settled.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.label_files import Labels
from rag_assets.evaluation.metric_names import LARGEST_CUTOFF

_NAME = re.compile(r"(?P<measure>.+?)(?:@(?P<cutoff>[0-9]+))?")

Hit = tuple[str, float]
"""A document and its score."""


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
    def relevant(self) -> frozenset[str]:
        """Documents with a positive grade."""
        return frozenset(item for item, grade in self.grades.items() if grade > 0)


class ToolInput(NamedTuple):
    """The queries of the labels in their order, retrieved or not, and those of the run alone."""

    judged: tuple[ToolQuery, ...]
    strangers: tuple[ToolQuery, ...]


class ToolMetric(NamedTuple):
    """A tool's name of a measure, and how many documents of each list count; None: all."""

    measure: str
    cutoff: int | None = None


Values = Mapping[str, float | None]
"""Query -> value; None: the tool leaves the query out of its mean."""

Measure = Callable[[ToolQuery, int | None], float | None]
"""Value of one query at a cut-off; raises NoNumber where the tool raises."""


class Outcome(NamedTuple):
    """One metric of a run, as the tool gives it; ``problem`` says why there is no mean."""

    mean: float | None
    per_query: Values
    problem: str | None = None


def mean_of(_: ToolInput, __: ToolMetric, values: Values) -> float | None:
    """Return the mean of the values that are not None, or None without any."""
    numbers = [value for value in values.values() if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None


@dataclass(frozen=True)
class Dialect:
    """One tool.

    Attributes:
        name: what ``--dialect`` takes.
        package: the tool and the version whose numbers the tests compare with.
        measures: the tool's name of a measure -> value of one query.
        defaults: metrics that are scored when none is named.
        needs_cutoff: whether a metric without a cut-off does not exist.
        warning: what a reader of its numbers has to know.
        mean: what the tool makes of the values; raises NoNumber where the tool raises.
    """

    name: str
    package: str
    measures: Mapping[str, Measure]
    defaults: tuple[str, ...]
    needs_cutoff: bool = False
    warning: str | None = None
    mean: Callable[[ToolInput, ToolMetric, Values], float | None] = mean_of

    def parse(self, name: str) -> ToolMetric:
        """Return the metric that ``name`` means in this tool.

        Raises:
            UsageError: the tool has no such metric, or it needs a cut-off from 1.
        """
        match = _NAME.fullmatch(name.strip())
        if match is None or match["measure"] not in self.measures:
            allowed = allowed_names(name, self.measures)
            raise UsageError(f"dialect {self.name}: unknown metric {allowed}")
        measure, cutoff = match["measure"], int(match["cutoff"]) if match["cutoff"] else None
        if cutoff is None and self.needs_cutoff:
            raise UsageError(f"dialect {self.name}: '{name}' needs a cut-off: {measure}@10")
        if cutoff is not None and not 1 <= cutoff <= LARGEST_CUTOFF:
            raise UsageError(f"dialect {self.name}: '{name}': the cut-off must be at least 1")
        return ToolMetric(measure, cutoff)

    def outcome(self, data: ToolInput, metric: ToolMetric) -> Outcome:
        """Return the tool's number and its value for each query of the labels."""
        values: dict[str, float | None] = {}
        problems: list[str] = []
        for query in data.judged:
            values[query.query_id] = None
            try:
                values[query.query_id] = self.measures[metric.measure](query, metric.cutoff)
            except NoNumber as error:
                problems.append(f"query '{query.query_id}': {error}")
        if problems:
            more = f" (and {len(problems) - 1} more queries)" if len(problems) > 1 else ""
            return Outcome(None, values, problems[0] + more)
        try:
            return Outcome(self.mean(data, metric, values), values)
        except NoNumber as error:
            return Outcome(None, values, str(error))


def tool_input(hits: Mapping[str, tuple[Hit, ...]], listed: bool, labels: Labels) -> ToolInput:
    """Put together what a tool is given.

    Args:
        hits: query -> what was retrieved for it.
        listed: the order of the hits is the ranking; otherwise their scores decide.
        labels: the labels of all queries to score.
    """
    grades: dict[str, dict[str, int]] = {}
    for row in labels.judgments.to_pylist():
        if (item := row["unit_id"]) is not None:
            judged = grades.setdefault(row["query_id"], {})
            judged[item] = max(row["grade"], judged.get(item, row["grade"]))
    anywhere = frozenset(item for judged in grades.values() for item in judged)

    def query(name: str) -> ToolQuery:
        groups, judged = labels.groups.get(name, ()), grades.get(name, {})
        return ToolQuery(name, hits.get(name, ()), listed, name in hits, groups, judged, anywhere)

    strangers = (query(name) for name in hits if name not in labels.groups)
    return ToolInput(tuple(map(query, labels.groups)), tuple(strangers))


def repetitions(data: ToolInput) -> Iterator[tuple[str, str, int]]:
    """Yield (query, document, how often) for each document that stands more than once."""
    for query in (*data.judged, *data.strangers):
        for item, count in Counter(item for item, _ in query.hits).items():
            if count > 1:
                yield query.query_id, item, count


def discounted(gains: Iterable[float]) -> float:
    """Return the sum of gain / log2(rank + 1) over a list of gains, best rank first."""
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
