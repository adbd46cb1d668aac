"""Comparisons of retrievers or answerers: sheets of a terminal, the page and a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.report.comparisons import (
    Compared,
    answer_text,
    least_shown,
    names_of,
    right_text,
)
from rag_assets.report.formats import interval_name, interval_text, p_text, signed_text
from rag_assets.report.metric_sources import chosen_source
from rag_assets.report.notebook import Tabular
from rag_assets.report.result import EvaluationResult, Row
from rag_assets.report.sheet import P_VALUE, SIGNED, TEXT, Column, Sheet, of_split
from rag_assets.schemas import ANSWER_COMPARISONS, COMPARISONS
from rag_assets.statistics.comparisons import all_pairs, is_significant
from rag_assets.statistics.paired_tests import ALPHA, POWER

REAL = "*"
"""Marks a difference that chance hardly explains."""


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
    low, high = (None if row[name] is None else -row[name] for name in ("high", "low"))
    change = None if row["difference"] is None else -row["difference"]
    turned = {"difference": change, "low": low, "high": high}
    return {**row, **lead, **turned, "won": row["lost"], "lost": row["won"]}


def difference_columns(level: float) -> tuple[Column, ...]:
    """Return difference, interval, p, p after Holm where it is known, and what was won and lost."""
    interval, bounds = interval_name(level), ("low", "high")
    least = "the least difference to be seen"
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
        Column("detectable", "detectable", help=least, is_page_only=True),
    )


def compared_sheet(compared: Compared, rows: Sequence[Row]) -> Sheet:
    """Return the pairs of :meth:`.comparisons.Compared.rows`, the second minus the first."""
    subject = compared.source.subject
    lines = [oriented(row, row["retriever_b"]) for row in rows]
    title = _title(compared, f"pairs of {subject}s")
    columns = difference_columns(compared.resampling.confidence)
    has_holm = any(row["p_adjusted"] is not None for row in rows)
    after = " after Holm over these pairs" if has_holm else ""
    notes = [f"{REAL} p < {ALPHA}{after}"]
    return Sheet(title, (Column("pair", f"{subject}s", TEXT), *columns), lines, notes=notes)


def pair_sheets(
    compared: Compared, row: Row, changed: tuple[Sequence[Row], Sequence[Row]]
) -> list[Sheet]:
    """Return everything on one pair: means, tests, the verdict, and the queries that moved most."""
    a, b = row["retriever_a"], row["retriever_b"]
    interval = interval_name(compared.resampling.confidence)
    columns = (
        Column("name", compared.source.subject, TEXT),
        Column("mean", "mean", bounds=("low", "high"), interval=interval, is_required=True),
    )
    means = [{**of, "name": name} for name, of in compared.mean_intervals(a, b).items()]
    lines = dict(_numbers(row, compared.resampling.confidence, len(compared.family)))
    width = max(map(len, lines))
    notes = ["", *(f"{name:<{width}}  {text}" for name, text in lines.items())]
    return [
        Sheet(_title(compared, f"{b} against {a}"), columns, means, notes=notes),
        Sheet(compared.verdict(row), (), ()),
        *(
            Sheet(heading, (), (), notes=[line for one in rows for line in _changed(one, a, b)])
            for heading, rows in zip(
                (f"most won by {b}", f"most lost by {b}"), changed, strict=True
            )
            if rows
        ),
    ]


def _title(compared: Compared, what: str) -> str:
    split = "" if compared.split == "all" else f", split {compared.split}"
    name = compared.new.evaluation.experiment
    return f"{name}: {what} on {compared.metric}{split}"


def _numbers(row: Row, confidence: float, n_pairs: int) -> Iterator[tuple[str, str]]:
    interval = f"{interval_name(confidence)} {interval_text(row)}"
    yield "difference", f"{signed_text(row['difference'])}, {interval}"
    holm = ""
    if row["p_adjusted"] is not None and n_pairs > 1:
        holm = f"; Holm over {n_pairs} pairs: {p_text(row['p_adjusted'])}"
    yield "p", f"{p_text(row['p_randomisation'])} (randomisation){holm}"
    yield "other tests", f"t-test {p_text(row['p_t'])}, Wilcoxon {p_text(row['p_wilcoxon'])}"
    effect = "-" if row["effect_size"] is None else f"{row['effect_size']:+.3f}"
    yield "effect size", f"{effect} (Cohen's d_z)"
    smallest = least_shown(row)
    if smallest is not None:
        yield "detectable", f"{smallest:.4f} at level {ALPHA} with power {POWER}"
    clusters = f" in {row['n_clusters']} clusters" if row["n_clusters"] < row["n"] else ""
    counts = f"{row['won']} won, {row['tied']} tied, {row['lost']} lost"
    yield "queries", f"{row['n']}{clusters}: {counts}"


def _changed(row: Row, a: str, b: str) -> Iterator[str]:
    """Yield one query with both answers, or with the ranks of its evidences."""
    yield f"{row['difference']:+.4f} {row['query_id']}: {row['text']}"
    if "moves" in row:
        for move in row["moves"]:
            ranks = (move[f"rank_{side}"] or "not retrieved" for side in "ab")
            before, after = (f"{rank} in {name}" for rank, name in zip(ranks, (a, b), strict=True))
            yield f"        {move['evidence']}: {before} -> {after}"
    else:
        answers = {a: answer_text(row["answer_a"]), b: answer_text(row["answer_b"])}
        texts = {"right": right_text(row), **answers}
        yield from (f"        {name}: {text}" for name, text in texts.items())


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


def check_pair(names: Sequence[str]) -> None:
    """Refuse what is neither two retrievers nor none.

    Raises:
        UsageError: says how many there are.
    """
    if len(names) not in (0, 2) or len({*names}) < len(names):
        given = ", ".join(names)
        raise UsageError(f"compare takes two different retrievers, or none for all pairs: {given}")


class Comparison(Tabular):
    """Pairs of retrievers on the same queries; each difference is the second minus the first."""

    def __init__(self, compared: Compared, rows: Sequence[Row]) -> None:
        """Hold rows of :data:`rag_assets.schemas.COMPARISONS`, and what they were made from."""
        self.compared = compared
        self.rows = list(rows)

    @classmethod
    def of(
        cls,
        result: EvaluationResult,
        retrievers: Sequence[str] = (),
        metric: str | None = None,
        split: str | None = None,
    ) -> Comparison:
        """Compare two retrievers of an evaluation, or all pairs.

        Args:
            result: the evaluation; nothing is searched again.
            retrievers: two names, or none for all pairs; answerers are ``plain@5``.
            metric: such as ``recall@10`` or ``answer_f1``; the primary metric when absent, of
                answerers their headline.
            split: whose queries; the one to show when absent.

        Raises:
            UsageError: not two retrievers, an unknown metric or split.
            NotEvaluated: no labels, no such retriever, or no such cell.
        """
        check_pair(retrievers)
        if split is not None:
            result = EvaluationResult(result.root, result.evaluation, split)
        compared = Compared.of(result, chosen_source(result, metric, retrievers))
        pairs = [(retrievers[0], retrievers[1])] if retrievers else None
        rows = compared.rows(pairs or all_pairs(list(compared.new_cells)))
        if not rows:
            if retrievers:
                raise NotEvaluated(f"no query of split {compared.split} is answerable")
            name, subject = result.evaluation.experiment, compared.source.subject
            problem = f"has fewer than two {subject}s with a cell of {compared.metric}"
            raise NotEvaluated(f"the last evaluation of {name} {problem}")
        return cls(compared, rows)

    @property
    def verdicts(self) -> list[str]:
        """A sentence a pair, which claims no more than was shown."""
        return [self.compared.verdict(row) for row in self.rows]

    def to_arrow(self) -> pa.Table:
        """Return a table of COMPARISONS or ANSWER_COMPARISONS of :mod:`rag_assets.schemas`."""
        source = self.compared.source
        schema = ANSWER_COMPARISONS if source.is_of_answers else COMPARISONS
        return pa.Table.from_pylist([source.named(row) for row in self.rows], schema.arrow())

    def _sheets(self) -> list[Sheet]:
        compared = self.compared
        sheet = compared_sheet(compared, self.rows)
        verdicts = self.verdicts if len(self.rows) == 1 else []
        name = compared.new.evaluation.experiment
        title = f"{name}: differences in {compared.metric}{of_split(compared.split)}"
        notes = [*sheet.notes, *compared.notes]
        return [Sheet(title, sheet.columns, sheet.rows, verdicts, notes)]
