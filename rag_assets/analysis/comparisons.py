"""Pairs of retrievers, or answerers, of one evaluation: rows, sheets, and what they come to.

A verdict is what a comparison comes to, in one sentence that claims no more than was shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from rag_assets.analysis.evaluation_pairs import EvaluationPair
from rag_assets.analysis.findings import read_by
from rag_assets.analysis.metric_sources import chosen_source
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.answers.summary_stage import ANSWER_COMPARISONS_KEY
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import highest_value, is_gain
from rag_assets.evaluation.query_facts import ALL
from rag_assets.pipeline.stored_evaluation import pairs_of, rows_of_queries
from rag_assets.query_sets.query_set import PERTURB
from rag_assets.query_sets.stage import query_set_key
from rag_assets.retrieval.base import ORIGINAL
from rag_assets.schemas import ANSWER_COMPARISONS, COMPARISONS
from rag_assets.sheets.formats import interval_name, p_text
from rag_assets.sheets.notebook import Tabular
from rag_assets.sheets.sheet import P_VALUE, SIGNED, TEXT, VALUE, Column, Sheet, of_split
from rag_assets.statistics.comparisons import Pairs, all_pairs, is_significant
from rag_assets.statistics.intervals import intervals
from rag_assets.statistics.paired_tests import ALPHA
from rag_assets.statistics.stage import COMPARISONS_KEY

MIN_UNITS = 5
"""Of fewer independent queries the spread is a guess: nobody says what they can show."""

MAX_NEEDED = 100_000
"""Nobody labels more questions."""

REAL = "*"
"""Marks a difference that chance hardly explains."""


def names_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the two retrievers, or answerers, of a comparison."""
    a, b = (row.get(f"retriever_{side}", row.get(f"answerer_{side}")) for side in "ab")
    return str(a), str(b)


def oriented(row: Mapping[str, Any], first: str) -> Row:
    """Return a comparison read as ``first`` minus the other, with ``pair``, ``other`` and ``mark``.

    Args:
        row: of :data:`rag_assets.schemas.COMPARISONS` or of ``ANSWER_COMPARISONS``.
        first: one of its two names.
    """
    a, b = names_of(row)
    other = a if first == b else b
    lead = {"first": first, "other": other, "pair": f"{first} - {other}"}
    lead["mark"] = REAL if is_significant(dict(row)) else ""
    if first == b:
        return {**row, **lead}
    # Not `-value`, which makes -0.0 of equal retrievers.
    turned = {
        name: None if row[opposite] is None else 0.0 - row[opposite]
        for name, opposite in (("difference", "difference"), ("low", "high"), ("high", "low"))
    }
    return {**row, **lead, **turned, "won": row["lost"], "lost": row["won"]}


def difference_columns(level: float) -> tuple[Column, ...]:
    """Return difference, interval, p, p after Holm where it is known, and what was won and lost."""
    interval, bounds = interval_name(level), ("low", "high")
    least = "the smallest difference that can be shown"
    return (
        Column(
            "difference",
            "difference",
            SIGNED,
            bounds=bounds,
            interval=interval,
            mark="mark",
            is_required=True,
        ),
        Column("p_randomisation", "p", P_VALUE),
        Column("p_adjusted", "Holm", P_VALUE, is_sparse=True),
        Column("won", "won", "d"),
        Column("tied", "tied", "d", is_page_only=True),
        Column("lost", "lost", "d"),
        Column("detectable", "detectable", VALUE, help=least, is_page_only=True),
    )


def stored_verdict(rows: Sequence[Row], *names: str) -> str | None:
    """Return the verdict of two, as a sentence that stands alone; None: they were not compared."""
    n_pairs = sum(row["p_adjusted"] is not None for row in rows)
    for row in rows:
        if {*names_of(row)} == {*names}:
            text = verdict(row, n_pairs)
            return f"{text[0].upper()}{text[1:]}." if text.startswith("no") else f"{text}."
    return None


def verdict(
    row: Mapping[str, Any],
    n_pairs: int,
    caveat: str | None = None,
    *,
    more_would_help: bool = False,
) -> str:
    """Return the sentence.

    Args:
        row: of :data:`rag_assets.schemas.COMPARISONS` or of ``ANSWER_COMPARISONS``.
        n_pairs: size of the family that ``p_adjusted`` was adjusted for.
        caveat: what limits the claim; None: nothing.
        more_would_help: whether more questions of this kind are known to show more.
    """
    (a, b), metric = names_of(row), row["metric"]
    metric += f"@{row['top_k']}" if row.get("top_k") else ""  # answerers have it in their names
    if row["difference"] is None:
        return f"nothing to compare: {a} and {b} have no query with a value of {metric} in common"
    if row["won"] == row["lost"] == 0:
        return f"{b} and {a} are equal on every query by {metric} ({row['n']} queries)"
    better, worse = (b, a) if is_gain(row["metric"], row["difference"]) else (a, b)
    size = f"{abs(row['difference']):.4f}"
    if row["low"] is not None:
        rises = row["difference"] > 0
        low, high = (row["low"], row["high"]) if rises else (0.0 - row["high"], 0.0 - row["low"])
        size += f" [{low:.4f}, {high:.4f}]"
    p = f"p = {p_text(row['p_randomisation'])}"
    if row["p_adjusted"] is not None and n_pairs > 1:
        p += f" (Holm over {n_pairs} pairs {p_text(row['p_adjusted'])})"
    if is_significant(dict(row)):
        in_clusters = clusters_text(row)
        limits = f"; {row['n']} queries{in_clusters}" if in_clusters else ""
        limits = f"; but {caveat}" if caveat else limits
        return f"{better} is better than {worse} on {metric} by {size}, {p}{limits}"
    return (
        f"no difference shown between {a} and {b} on {metric}: "
        f"{better} is ahead by {size}, {p}{power_text(row, more_would_help=more_would_help)}"
    )


def power_text(row: Mapping[str, Any], noun: str = "queries", *, more_would_help: bool) -> str:
    """Return which difference the queries of a pair can show; empty where they are all alike."""
    if row["detectable"] is None and row["n_clusters"] >= MIN_UNITS:
        return ""
    smallest, in_clusters = least_shown(row), clusters_text(row)
    if smallest is None and row["n"] == 1:
        return "; a single question is too few to show any difference"
    if smallest is None:
        return f"; {row['n']} {noun}{in_clusters} are too few to show any difference"
    needed = needed_text(row["n"], smallest, row["difference"], noun) if more_would_help else ""
    return f"; {row['n']} {noun}{in_clusters} can show {smallest:.4f} or more{needed}"


def clusters_text(row: Mapping[str, Any]) -> str:
    """Return `` in 3 clusters``; empty where every query is independent of the others."""
    n = row["n_clusters"]
    return f" in {n} cluster{'s' * (n != 1)}" if n < row["n"] else ""


def needed_text(n: int, smallest: float, difference: float, noun: str, least: int = 0) -> str:
    """Return how many questions would show a difference as it was seen, and half of it.

    The smallest difference that is shown falls with the square root of their number. What is not
    shown may as well be nothing, so a number alone would promise too much. With fewer than
    ``least`` no test shows anything.
    """
    number = max(least, n * (smallest / difference) ** 2) if difference else math.inf
    if not n < number <= MAX_NEEDED:
        return ""
    seen = f"if the difference stays this large, about {float(f'{number:.2g}'):,.0f} {noun} show it"
    return f" ({seen}; if it is half as large, four times as many)"


def least_shown(row: Mapping[str, Any]) -> float | None:
    """Return the smallest difference that the queries of a pair can show; None: they show none.

    No difference is larger than the highest value of the metric.
    """
    smallest: float | None = row["detectable"]
    if smallest is None or row["n_clusters"] < MIN_UNITS:
        return None
    return smallest if smallest <= highest_value(row["metric"]) else None


def check_pair(names: Sequence[str]) -> None:
    """Refuse what is neither two retrievers nor none.

    Raises:
        UsageError: says how many there are.
    """
    if len(names) not in (0, 2) or len({*names}) < len(names):
        given = ", ".join(names)
        raise UsageError(f"compare takes two different retrievers, or none for all pairs: {given}")


@dataclass(frozen=True, repr=False)
class Comparison(Tabular, EvaluationPair):
    """Pairs of one evaluation on the same queries; each difference is the second minus the first.

    Attributes:
        names: the two retrievers, or answerers; none: all pairs.
    """

    names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        result: EvaluationResult,
        names: Sequence[str] = (),
        metric: str | None = None,
        split: str | None = None,
    ) -> Self:
        """Compare two retrievers of an evaluation, or all pairs, as :func:`rag_assets.compare`."""
        check_pair(names)
        if split is not None:
            result = EvaluationResult(result.root, result.evaluation, split)
        source = chosen_source(result, metric, names)
        compared = replace(cls.within(result, source), names=tuple(names))
        compared.check_names()
        if not compared.rows and names:
            where = "" if compared.split == ALL else f" of split {compared.split}"
            raise NotEvaluated(f"no query{where} is answerable")
        if not compared.rows:
            subject = compared.source.subject
            raise result.lacks(f"has fewer than two {subject}s with a cell of {compared.metric}")
        return compared

    @cached_property
    def rows(self) -> list[Row]:
        """Rows of :data:`rag_assets.schemas.COMPARISONS`.

        ``p_adjusted`` is that of the evaluation's family of all pairs, whichever are wanted.
        """
        pairs: Pairs = [(self.names[0], self.names[1])] if self.names else self._all_pairs
        rows = self.comparisons(self.new_cells, pairs)
        return [{**row, "p_adjusted": self.family.get(frozenset(names_of(row)))} for row in rows]

    @property
    def _all_pairs(self) -> Pairs:
        return all_pairs(list(self.new_cells), self.new.perturbed)

    @cached_property
    def family(self) -> dict[frozenset[str], float]:
        """Pair -> p after Holm's correction over all pairs by the metric."""
        key = ANSWER_COMPARISONS_KEY if self.source.is_of_answers else COMPARISONS_KEY
        is_primary = self.metric == self.new.primary or self.source.is_of_answers
        if is_primary and self.new.has(key):
            rows = [
                row
                for row in self.new.table(key).to_pylist()
                if (row["split"], row["metric"]) == (self.split, self.metric.column)
            ]
        else:
            rows = self.comparisons(self.new_cells, self._all_pairs)
        adjusted = {frozenset(names_of(row)): row["p_adjusted"] for row in rows}
        return {pair: p for pair, p in adjusted.items() if p is not None}

    def check_names(self) -> None:
        """Refuse a retriever without a cell of the metric.

        Raises:
            NotEvaluated: one has none, or the evaluation has no such retriever.
        """
        names = list(self.new_cells) if self.source.is_of_answers else self.new.run_retrievers
        for name in self.names:
            if name not in self.new_cells:
                problem = f"no cell of {name} at top_k {self.metric.cutoff}"
                if name not in names:
                    problem = f"no {self.source.subject} {allowed_names(name, names)}"
                raise self.new.lacks(f"has {problem}")

    def values(self, retriever: str) -> dict[str, float]:
        """Return query -> value, of the split's queries that have one."""
        weights = {row["query_id"]: row["weight"] for row in self.counting}
        values = pairs_of(self.new_cells[retriever], "query_id", self.metric.column)
        return {q: value for q, value in values.items() if value is not None and weights.get(q)}

    @cached_property
    def mean_intervals(self) -> dict[str, Row]:
        """Each of two retrievers -> its interval over the queries on which both have a value."""
        a, b = (self.values(name).keys() for name in self.names)
        rows_of = {}
        for name in self.names:
            table = self.new_cells[name].select(["query_id", "n_relevant", self.metric.column])
            cell = {self.metric.cutoff or 0: rows_of_queries(table, a & b)}
            rows = intervals(cell, self.counting, self.resampling.confidence).to_pylist()
            if rows:
                rows_of[name] = rows[0]
        return rows_of

    @property
    def verdicts(self) -> list[str]:
        """A sentence a pair, which claims no more than was shown."""
        n, helps = len(self.family), self.caveat is None
        return [verdict(row, n, self.caveat, more_would_help=helps) for row in self.rows]

    def to_arrow(self) -> pa.Table:
        """Return a table of COMPARISONS or ANSWER_COMPARISONS of :mod:`rag_assets.schemas`."""
        schema = ANSWER_COMPARISONS if self.source.is_of_answers else COMPARISONS
        return pa.Table.from_pylist([*map(self.source.with_subject, self.rows)], schema.arrow())

    def title(self, what: str) -> str:
        """Return the title of a table of these pairs."""
        name = self.new.evaluation.experiment
        return f"{name}: {what} {self.metric}{of_split(self.split)}{self.new.of_sample}"

    def sheet(self) -> Sheet:
        """Return a row a pair, the second minus the first."""
        subject = self.source.subject
        lines = [oriented(row, row["retriever_b"]) for row in self.rows]
        columns = difference_columns(self.resampling.confidence)
        has_holm = any(row["p_adjusted"] is not None for row in self.rows)
        after = " after Holm over these pairs" if has_holm else ""
        title = self.title(f"pairs of {subject}s on")
        pair = Column("pair", f"{subject}s", TEXT)
        return Sheet(title, (pair, *columns), lines, notes=[f"{REAL} p < {ALPHA}{after}"])

    def _sheets(self) -> list[Sheet]:
        sheet = self.sheet()
        verdicts = self.verdicts if len(self.rows) == 1 else []
        title = self.title("differences in")
        return [Sheet(title, sheet.columns, sheet.rows, verdicts, [*sheet.notes, *self.notes])]


def significance(result: EvaluationResult) -> Row | None:
    """Return all pairs of retrievers; None where nothing was compared."""
    order = {name: place for place, name in enumerate(result.retrievers)}
    pairs = [
        oriented(row, min(row["retriever_a"], row["retriever_b"], key=order.__getitem__))
        for row in result.comparisons
        if row["difference"] is not None
    ]
    if not pairs:
        return None
    pairs.sort(key=lambda row: (order[row["first"]], order[row["other"]]))
    columns = Column("pair", "retrievers", TEXT), *difference_columns(result.confidence or 0.95)
    sheet = Sheet("Pairs of retrievers", columns, pairs, name="pairs")
    n_pairs = sum(row["p_adjusted"] is not None for row in result.comparisons)
    return {"sheet": sheet, "alpha": ALPHA, "n_pairs": n_pairs}


def robustness_rows(result: EvaluationResult) -> list[Row]:
    """Return how far each retriever falls on perturbed queries against itself on those as asked.

    A row a perturbed retriever: its ``original``, ``kinds`` and difference.

    One without an original has no difference; ``changed`` are the queries whose text changed.
    """
    rows: list[Row] = []
    originals, sets = pairs_of(result.queries, "query_id", "text"), result.configured("query_sets")
    blocks = result.configured("retrievers")
    for name, original in result.perturbed.items():
        read = dict.fromkeys(blocks[n].get("query_set", ORIGINAL) for n in read_by(result, name))
        searched = [of for of in read if sets.get(of, {}).get("strategy") == PERTURB]
        row: Row = {"original": original, "retriever": name}
        for key in ("kinds", "rate"):
            row[key] = ", ".join(dict.fromkeys(str(sets[query_set][key]) for query_set in searched))
        tables = [result.table(query_set_key(query_set)).to_pylist() for query_set in searched]
        texts = [(row["query_id"], row["text"]) for table in tables for row in table]
        row["changed"] = len({query_id for query_id, text in texts if text != originals[query_id]})
        pairs = (pair for pair in result.comparisons if {*names_of(pair)} == {original, name})
        rows += [{**row, **oriented(pair, name)} for pair in pairs] or [row]
    return rows


def robustness_sheets(result: EvaluationResult) -> list[Sheet]:
    """Return the table; none without perturbed queries."""
    rows = robustness_rows(result)
    columns = (
        Column("original", "retriever", TEXT),
        Column("kinds", "kind", TEXT, is_required=True),
        Column("rate", "rate", TEXT),
        Column("changed", "changed", "d", help="queries whose text changed"),
        *difference_columns(result.confidence or 0.95),
    )
    lonely = [row["retriever"] for row in rows if row["original"] is None]
    notes = [f"{name}: no retriever differs from it in the query set alone" for name in lonely]
    title = f"{result.primary} on perturbed queries minus on the original ones"
    sheet = Sheet(title + of_split(result.split), columns, rows, notes=notes, name="robustness")
    return [sheet] if rows else []
