"""Two evaluations, or one with itself, compared query by query, by any kind of metric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import pyarrow as pa

from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric, lower_is_better
from rag_assets.evaluation.query_facts import with_shared_documents
from rag_assets.evaluation.query_facts_stage import counting_of
from rag_assets.pipeline.history import History
from rag_assets.sheets.sheet import TEXT, Column, Sheet
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.comparisons import Pairs, comparisons
from rag_assets.statistics.paired_differences import SharedEvidence, shared_evidence
from rag_assets.statistics.units import Counting, Resampling, counted_by_split

Cells = Mapping[str, pa.Table]
"""Retriever, or answerer at its cut-off -> the metrics of each query."""

_COMPARED = (
    *("n", "n_clusters", "difference", "low", "high", "p_randomisation"),
    *("won", "tied", "lost"),
)
"""Columns of a comparison that say how a retriever changed."""


def with_direction(row: Row, metric: str) -> Row:
    """Return the row of a comparison by a metric; where lower is better the lower value wins."""
    if not lower_is_better(metric):
        return row
    return {**row, "won": row["lost"], "lost": row["won"]}


@dataclass(frozen=True)
class EvaluationPair:
    """Two evaluations, or twice the same, seen through one metric and the split of the newer one.

    Attributes:
        old: the evaluation that is compared with.
        new: its queries, weights, clusters and split count for both.
        source: the metric, and where its values come from.
        queries: ids of those that are compared.
    """

    old: EvaluationResult
    new: EvaluationResult
    source: MetricSource
    queries: Collection[str]

    @classmethod
    def between(
        cls,
        old: EvaluationResult,
        new: EvaluationResult,
        source: MetricSource,
        queries: Collection[str],
    ) -> Self:
        """Return two evaluations on some queries.

        Raises:
            NotEvaluated: no cell of the newer evaluation has the metric.
            UsageError: single questions have no share in the metric.
        """
        if not isinstance(source, EstimatedSource):
            source.check_single()
        pair = cls(old, new, source, queries)
        if not pair.new_cells:
            name = new.evaluation.evaluation_id
            raise NotEvaluated(f"evaluation {name} has no cell of {source.metric}")
        return pair

    @classmethod
    def within(cls, result: EvaluationResult, source: MetricSource) -> Self:
        """Return an evaluation beside itself, on all of its queries.

        Raises:
            NotEvaluated: no cell of the evaluation has the metric.
            UsageError: single questions have no share in the metric.
        """
        source.check_single()
        source.check(result)
        return cls(result, result, source, frozenset(result.queries["query_id"].to_pylist()))

    @property
    def metric(self) -> Metric:
        """The metric, with its cut-off."""
        return self.source.metric

    @property
    def split(self) -> str:
        """``all``, ``dev`` or ``test``."""
        return self.source.split(self.new)

    @cached_property
    def resampling(self) -> Resampling:
        """How the newer evaluation's own intervals were computed."""
        for asset in ("intervals", "answer_summary"):
            for _, manifest in self.new.manifests_of(asset):
                config = manifest.config
                return Resampling(config["confidence"], config["resamples"], config["seed"])
        return Resampling()

    @property
    def confidence(self) -> float:
        """The level at which the newer evaluation shows intervals."""
        return float(self.new.configured("statistics").get("confidence", 0.95))

    @cached_property
    def counting(self) -> Counting:
        """What of each compared query of the split counts, in the newer evaluation."""
        counting = counting_of(self.new.table)
        if self.new.has_metrics:
            counting = with_shared_documents(counting, self.new.table(QRELS_KEY))
        return [r for r in counting if r["split"] == self.split and r["query_id"] in self.queries]

    @cached_property
    def evidence(self) -> SharedEvidence | None:
        """What the compared queries share; None: nothing, or clusters stand for it.

        None also where single questions have no value of their own.
        """
        if isinstance(self.source, EstimatedSource):
            return None
        tables = [*self.old_cells.values(), *self.new_cells.values()]
        counted = next(counted_by_split(self.counting, tables), None)
        return None if counted is None else shared_evidence(counted)

    @property
    def caveat(self) -> str | None:
        """What limits a claim because queries share documents; None: nothing does."""
        return None if self.evidence is None else self.evidence.caveat()

    @property
    def notes(self) -> list[str]:
        """On which questions pairs are fair; that queries share documents, and what was done."""
        golds = self.new.gold_answerers if self.source.is_of_answers else []
        notes = [
            f"note: {name} reads the relevant texts, and its context of unanswerable questions is "
            "empty; pairs with it are compared on the answerable ones"
            for name in golds
            if any(key.rpartition("@")[0] == name for key in self.new_cells)
        ]
        if self.evidence is not None:
            caveat = "" if self.caveat is None else f"; {self.caveat}"
            notes.append(
                "note: queries share relevant documents; p and the interval of a difference allow "
                f"for that{caveat}. `statistics: {{cluster: document}}` takes them together in the "
                "interval of each mean too"
            )
        return notes

    @cached_property
    def old_cells(self) -> Cells:
        """Retriever -> query metrics of the older evaluation at the cut-off."""
        return self.source.cells_with(self.old)

    @cached_property
    def new_cells(self) -> Cells:
        """Retriever -> query metrics of the newer evaluation at the cut-off."""
        return self.source.cells_with(self.new)

    def comparisons(self, cells: Cells, pairs: Pairs) -> list[Row]:
        """Return rows of :data:`rag_assets.schemas.COMPARISONS` of pairs of cells."""
        metric = self.metric.column, self.metric.cutoff or 0
        table = comparisons(cells, self.counting, metric, self.resampling, pairs)
        return [with_direction(row, str(self.metric)) for row in table.to_pylist()]

    def changes(self, names: Collection[str] = ()) -> list[Row]:
        """Return a row for each retriever that has values in both evaluations, of those wanted.

        Returns:
            ``retriever`` (of an answerer its name and cut-off), ``split``, ``metric``, ``old``,
            ``new`` (means), and the columns of :data:`rag_assets.schemas.COMPARISONS` that compare
            them.

        Raises:
            UsageError: one of these names has no value in the newer evaluation.
        """
        for name in names:
            if name not in self.new_cells:
                subject = self.source.subject
                raise UsageError(f"unknown {subject} {allowed_names(name, self.new_cells)}")
        both = [name for name in self.new_cells if name in self.old_cells]
        changes = []
        for name in (name for name in both if not names or name in names):
            cells = {"old": self.old_cells[name], "new": self.new_cells[name]}
            lead = {"retriever": name, "split": self.split, "metric": str(self.metric)}
            changes += [
                {
                    **{**lead, "old": row["mean_a"], "new": row["mean_b"]},
                    **{column: row[column] for column in _COMPARED},
                }
                for row in self.comparisons(cells, [("old", "new")])
                if row["n"]
            ]
        return changes


@dataclass(frozen=True)
class Drop:
    """How a metric of one retriever went, on the queries that have a value in both.

    Attributes:
        n: queries.
        old: weighted mean of the older values; None: of a judge, and not calibrated.
        new: weighted mean of the newer ones; likewise.
        change: by how much it rose.
        low: lower bound of new - old; None for fewer than two independent units.
        high: upper bound.
        p: one-sided; how often chance alone gives so large a drop; None: nothing was tested,
            because no query has another value than before.
        detectable: the smallest drop that is found at a look with power 0.8; None: no spread is
            known.
        reason: why there is no interval, where that is not too few units.
    """

    n: int
    old: float | None
    new: float | None
    change: float
    low: float | None
    high: float | None
    p: float | None
    detectable: float | None
    reason: str | None = None

    @property
    def drop(self) -> float:
        """By how much the mean fell; negative where it rose."""
        return 0.0 - self.change


Drops = list[tuple[Drop | str, float | None]]
"""Of each retriever its drop, or why there is none; and p, corrected for all of a look."""


class Mean(NamedTuple):
    """A mean as it is shown, with its interval; ``reason`` says why there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    reason: str = "no question has a value"


NO_VALUES = "no query has a value in both evaluations"


class MetricSource(ABC):
    """A metric, where its values come from, and how two evaluations are compared by it.

    There are four kinds: metrics of retrieval, of answers, what a judge says of answers, and what a
    sample of labels estimates. A new kind is one more class.

    Attributes:
        metric: with its cut-off.
        subject: who has a value: ``retriever`` or ``answerer``.
        measured: ends of the names of assets whose content decides a value, beside the labels.
        needs_labels: whether relevant evidence has to be labelled.
        only_whole: why single questions have no value that counts; empty: they have one.
    """

    subject = "retriever"
    measured: tuple[str, ...] = ()
    needs_labels = False
    only_whole = ""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric

    @property
    def is_of_answers(self) -> bool:
        """Whether answerers have a value, and not retrievers."""
        return self.subject == "answerer"

    @abstractmethod
    def cells(self, result: EvaluationResult) -> Cells:
        """Return who may have a value: retrievers at the cut-off, or answerers at theirs."""

    def cells_with(self, result: EvaluationResult) -> Cells:
        """Return who has a value of the metric."""
        cells = self.cells(result).items()
        return {name: table for name, table in cells if self.metric.column in table.column_names}

    def check(self, result: EvaluationResult) -> None:
        """Do nothing where someone has a value.

        Raises:
            NotEvaluated: nobody has.
        """
        if self.needs_labels:
            result.check_labels()
        if not self.cells_with(result):
            raise result.lacks(f"has no cell of {self.metric}")

    def split(self, result: EvaluationResult) -> str:
        """Return the split whose questions count."""
        return result.split

    def check_names(self, names: Iterable[str]) -> None:
        """Refuse names that have no value of the metric, whatever an evaluation has.

        Raises:
            UsageError: an answerer and a metric of retrieval, or the other way round.
        """
        for name in names:
            if is_answerer(name) != self.is_of_answers:
                kind = "an answerer" if is_answerer(name) else "a retriever"
                of = "answers" if self.is_of_answers else "retrieval"
                raise UsageError(f"{name} is {kind}, and {self.metric} is a metric of {of}")

    def check_single(self) -> None:
        """Refuse a metric of which single questions have no value that counts.

        Raises:
            UsageError: it is such a metric.
        """
        if self.only_whole:
            raise UsageError(f"{self.metric} {self.only_whole}")

    @abstractmethod
    def drops(self, pair: EvaluationPair, chosen: Sequence[str], alpha: float) -> Drops:
        """Return how retrievers went from the older evaluation to the newer one, at one look.

        Args:
            pair: two evaluations by this metric.
            chosen: the retrievers.
            alpha: level of all looks together; the interval has confidence 1 - alpha.
        """

    @abstractmethod
    def means(self, pair: EvaluationPair) -> dict[str, Mean]:
        """Return what each has in the newer evaluation, over the compared queries of the split."""

    def change_notes(self, pair: EvaluationPair) -> Iterator[str]:
        """Yield what else a gate says of a pair."""
        yield from ()

    @abstractmethod
    def history(self, history: History, since: str) -> list[Row]:
        """Return a row for each evaluation and retriever, for :func:`.history.history_rows`."""

    def with_subject(self, row: Mapping[str, object]) -> dict[str, object]:
        """Return a row for programs: of answerers, ``retriever`` in column names is ``answerer``.

        They have their cut-off in their name.
        """
        if not self.is_of_answers:
            return dict(row)
        return {
            name.replace("retriever", "answerer"): value
            for name, value in row.items()
            if name != "top_k"
        }


class EstimatedSource(MetricSource):
    """A kind of metric of which single questions have no value: pairs are estimated as a whole."""

    @abstractmethod
    def differences(self, result: EvaluationResult, names: Sequence[str] = ()) -> list[Row]:
        """Return a row a pair: the second of two names minus the first; all pairs when empty."""

    @abstractmethod
    def difference_columns(self, rows: Sequence[Row]) -> Iterable[Column]:
        """Return what is shown of these rows."""

    @abstractmethod
    def difference_text(self, row: Row) -> str:
        """Return what one of them comes to, in one sentence that claims no more."""

    def differences_sheet(self, rows: Sequence[Row], title: str) -> Sheet:
        """Return these rows as a table, and what they come to."""
        pairs = [{**row, "pair": f"{row['name_b']} - {row['name_a']}"} for row in rows]
        columns = (Column("pair", f"{self.subject}s", TEXT), *self.difference_columns(rows))
        return Sheet(title, columns, pairs, notes=[self.difference_text(row) for row in rows])


def is_answerer(name: str) -> bool:
    """Whether a name is that of an answerer at its cut-off: ``plain@5``, ``perfect@-``."""
    return "@" in name


def pair_sentence(
    names: tuple[str, str],
    difference: float,
    bounds: tuple[float, float],
    verb: str,
    rest: str,
    on: str = "",
) -> str:
    """Return what an estimated difference comes to: "the second minus the first", no more claimed.

    Args:
        names: the first and the second.
        difference: of their means.
        bounds: of its interval.
        verb: such as ``is better than``.
        rest: what stands behind the numbers.
        on: on which questions.
    """
    (a, b), (low, high) = names, bounds
    better, worse = (b, a) if difference >= 0 else (a, b)
    low, high = (low, high) if better == b else (0.0 - high, 0.0 - low)
    size = f"{abs(difference):.4f} [{low:.4f}, {high:.4f}], {rest}"
    if low > 0:
        return f"{better} {verb} {worse} by {size}{f', {on}' if on else ''}"
    where = f" {on}" if on else ""
    return f"no difference shown between {a} and {b}{where}: {better} is ahead by {size}"
