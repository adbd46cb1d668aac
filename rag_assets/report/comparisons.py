"""Pairs of retrievers of one evaluation, compared on any of its metrics and splits.

A verdict is what a comparison comes to, in one sentence that claims no more than was shown. And
the queries that two differ most on: ranks of what is relevant, or both answers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.answers.stage import answers_key
from rag_assets.answers.summary_stage import ANSWER_COMPARISONS_KEY
from rag_assets.errors import NotEvaluated, allowed_names
from rag_assets.evaluation.metric_names import highest_value, is_gain
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.report.evaluation_pairs import EvaluationPair, MetricSource
from rag_assets.report.formats import p_text
from rag_assets.report.metric_sources import Retrieval
from rag_assets.report.result import EvaluationResult, Row, pairs_of
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.comparisons import Pairs, all_pairs, is_significant
from rag_assets.statistics.intervals import intervals
from rag_assets.statistics.stage import COMPARISONS_KEY
from rag_assets.statistics.units import SAME

MIN_UNITS = 5
"""Of fewer independent queries the spread is a guess: nobody says what they can show."""


def names_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the two retrievers, or answerers, of a comparison."""
    a, b = (row.get(f"retriever_{side}", row.get(f"answerer_{side}")) for side in "ab")
    return str(a), str(b)


def stored_verdict(rows: Sequence[Row], *names: str) -> str | None:
    """Return the verdict of two, as a sentence that stands alone; None: they were not compared."""
    n_pairs = sum(row["p_adjusted"] is not None for row in rows)
    for row in rows:
        if {*names_of(row)} == {*names}:
            text = verdict(row, n_pairs)
            return f"{text[0].upper()}{text[1:]}." if text.startswith("no") else f"{text}."
    return None


def verdict(row: Mapping[str, Any], n_pairs: int, caveat: str | None = None) -> str:
    """Return the sentence.

    Args:
        row: of :data:`rag_assets.schemas.COMPARISONS` or of ``ANSWER_COMPARISONS``.
        n_pairs: size of the family that ``p_adjusted`` was adjusted for.
        caveat: what limits the claim; None: nothing.
    """
    (a, b), metric = names_of(row), row["metric"]
    metric += f"@{row['top_k']}" if row.get("top_k") else ""  # answerers have it in their names
    if row["difference"] is None:
        return f"nothing to compare: {a} and {b} have no query with a value of {metric} in common"
    if row["won"] == row["lost"] == 0:
        return f"{b} and {a} do the same on every query by {metric} ({row['n']} queries)"
    better, worse = (b, a) if is_gain(row["metric"], row["difference"]) else (a, b)
    size = f"{abs(row['difference']):.4f}"
    if row["low"] is not None:
        rises = row["difference"] > 0
        low, high = (row["low"], row["high"]) if rises else (-row["high"], -row["low"])
        size += f" [{low:.4f}, {high:.4f}]"
    p = f"p = {p_text(row['p_randomisation'])}"
    if row["p_adjusted"] is not None and n_pairs > 1:
        p += f" (Holm over {n_pairs} pairs {p_text(row['p_adjusted'])})"
    if is_significant(dict(row)):
        clustered = row["n_clusters"] < row["n"]
        limits = f"; {row['n']} queries in {row['n_clusters']} clusters" if clustered else ""
        limits = f"; but {caveat}" if caveat else limits
        return f"{better} is better than {worse} on {metric} by {size}, {p}{limits}"
    return (
        f"no difference shown between {a} and {b} on {metric}: "
        f"{better} is ahead by {size}, {p}{power_text(row)}"
    )


def power_text(row: Mapping[str, Any], noun: str = "queries") -> str:
    """Return which difference the queries of a pair can show; empty where that is not known."""
    if row["detectable"] is None:
        return ""
    clusters = f" in {row['n_clusters']} clusters" if row["n_clusters"] < row["n"] else ""
    smallest = least_shown(row)
    if smallest is None:
        return f"; {row['n']} {noun}{clusters} are too few to show any difference"
    return f"; {row['n']} {noun}{clusters} can show {smallest:.4f} or more"


def least_shown(row: Mapping[str, Any]) -> float | None:
    """Return the smallest difference that the queries of a pair can show; None: they show none.

    No difference is larger than the highest value of the metric.
    """
    smallest: float | None = row["detectable"]
    if smallest is None or row["n_clusters"] < MIN_UNITS:
        return None
    return smallest if smallest <= highest_value(row["metric"]) else None


class Compared(EvaluationPair):
    """Two and two of one evaluation, seen through one metric and one split."""

    @classmethod
    def of(cls, result: EvaluationResult, source: MetricSource | None = None) -> Compared:
        """Choose the metric; the primary one by default.

        Raises:
            NotEvaluated: no cell of the evaluation has the metric.
            UsageError: single questions have no share in the metric.
        """
        source = source or Retrieval(result.primary)
        source.check_single()
        source.check(result)
        return cls(result, result, source, frozenset(result.queries["query_id"].to_pylist()))

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
            rows = self.comparisons(self.new_cells, all_pairs(list(self.new_cells)))
        adjusted = {frozenset(names_of(row)): row["p_adjusted"] for row in rows}
        return {pair: p for pair, p in adjusted.items() if p is not None}

    def rows(self, wanted: Pairs) -> list[Row]:
        """Return a row of :data:`rag_assets.schemas.COMPARISONS` for each wanted pair.

        ``p_adjusted`` is that of the evaluation's family of all pairs, whichever are wanted.

        Raises:
            NotEvaluated: a retriever has no such cell.
        """
        self.check(*dict.fromkeys(name for pair in wanted for name in pair))
        rows = self.comparisons(self.new_cells, wanted)
        return [{**row, "p_adjusted": self.family.get(frozenset(names_of(row)))} for row in rows]

    def verdict(self, row: Row) -> str:
        """Return what one of the rows comes to, in one sentence."""
        return verdict(row, len(self.family), self.caveat)

    def check(self, *retrievers: str) -> None:
        """Refuse a retriever without a cell of the metric.

        Raises:
            NotEvaluated: one has none, or the evaluation has no such retriever.
        """
        names = list(self.new_cells) if self.source.is_of_answers else self.new.run_retrievers
        for name in retrievers:
            if name not in self.new_cells:
                problem = f"no cell of {name} at top_k {self.metric.cutoff}"
                if name not in names:
                    problem = f"no {self.source.subject} {allowed_names(name, names)}"
                experiment = self.new.evaluation.experiment
                raise NotEvaluated(f"the last evaluation of {experiment} has {problem}")

    def values(self, retriever: str) -> dict[str, float]:
        """Return query -> value, of the split's queries that have one."""
        weights = pairs_of(self.counting, "query_id", "weight")
        values = pairs_of(self.new_cells[retriever], "query_id", self.metric.column)
        return {q: value for q, value in values.items() if value is not None and weights.get(q)}

    def mean_intervals(self, a: str, b: str) -> dict[str, Row]:
        """Return retriever -> its interval over the queries on which both have a value."""
        both = pa.array(sorted(self.values(a).keys() & self.values(b).keys()), pa.string())
        rows_of = {}
        for name in (a, b):
            table = self.new_cells[name].select(["query_id", "n_relevant", self.metric.column])
            paired = table.filter(pc.is_in(table["query_id"], both))
            cell = {self.metric.cutoff or 0: paired}
            rows = intervals(cell, self.counting, self.resampling.confidence).to_pylist()
            if rows:
                rows_of[name] = rows[0]
        return rows_of

    @property
    def notes(self) -> list[str]:
        """On which questions a pair is fair; that queries share documents, and what was done."""
        golds = self.new.gold_answerers if self.source.is_of_answers else []
        notes = [
            f"note: {name} refuses unanswerable questions by itself, as it has nothing to read "
            "there; pairs with it are compared on the answerable ones"
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


Ranks = dict[tuple[str, str], int]
"""(query, evidence) -> the rank of the first unit that satisfies it."""


def most_changed(compared: Compared, a: str, b: str, n: int) -> tuple[list[Row], list[Row]]:
    """Return the ``n`` queries that b wins most, and those that it loses most, largest first.

    Each has ``query_id``, ``text``, ``value_a``, ``value_b`` and ``difference``. For retrievers
    ``moves`` has each relevant evidence with its ``rank_a`` and ``rank_b`` (None: the deepest run
    does not have it). For answerers ``golds`` are the right answers, ``unanswerable`` is whether
    the data says that nothing is right, and ``answer_a`` and ``answer_b`` what they answer (empty:
    refused; None: failed).
    """
    values_a, values_b = compared.values(a), compared.values(b)
    gained = {q: values_b[q] - values_a[q] for q in values_a.keys() & values_b.keys()}
    ordered = sorted(gained, key=lambda query: (-abs(gained[query]), query))
    won = [query for query in ordered if gained[query] > SAME][:n]
    lost = [query for query in ordered if gained[query] < -SAME][:n]
    texts = pairs_of(compared.new.queries, "query_id", "text")
    details = _answers if compared.source.is_of_answers else _moves
    of_query = details(compared, a, b, [*won, *lost])
    rows = {
        query: {
            "query_id": query,
            "text": texts[query],
            "value_a": values_a[query],
            "value_b": values_b[query],
            **of_query[query],
            "difference": gained[query],
        }
        for query in (*won, *lost)
    }
    return [rows[query] for query in won], [rows[query] for query in lost]


def _answers(compared: Compared, a: str, b: str, query_ids: Sequence[str]) -> dict[str, Row]:
    result = compared.new
    answers_a, answers_b = (
        pairs_of(result.table(answers_key(name)), "query_id", "answer") for name in (a, b)
    )
    golds = pairs_of(result.table(QUERY_FACTS_KEY), "query_id", "answers")
    return {
        query: {
            "golds": tuple(golds[query]),
            "unanswerable": not golds[query] and result.answerable[query] is False,
            "answer_a": answers_a.get(query),
            "answer_b": answers_b.get(query),
        }
        for query in query_ids
    }


def answer_text(answer: str | None) -> str:
    """Return an answer in one line, as people read it."""
    if answer is None:
        return "(failed)"
    return " ".join(answer.split()) or "(refused)"


def right_text(row: Row) -> str:
    """Return what is right, of a row of answerers."""
    missing = "(unanswerable)" if row["unanswerable"] else "(not labelled)"
    return " | ".join(row["golds"]) or missing


def _moves(compared: Compared, a: str, b: str, query_ids: Sequence[str]) -> dict[str, Row]:
    chosen = set(query_ids)
    cutoff = compared.metric.cutoff or 0
    ranks = {name: _ranks(compared.new, name, cutoff, chosen) for name in (a, b)}
    return {
        query: {
            "moves": tuple(
                {
                    "evidence": label,
                    "rank_a": ranks[a].get((query, evidence)),
                    "rank_b": ranks[b].get((query, evidence)),
                }
                for evidence, label in labels.items()
            )
        }
        for query, labels in _labels(compared.new, chosen).items()
    }


def _ranks(
    result: EvaluationResult, retriever: str, cutoff: int, query_ids: Collection[str]
) -> Ranks:
    """Return ranks in the run that was scored, and of what lies deeper, in the deepest one."""
    keys = result.run_keys(retriever)
    scored, deepest = (result.table(keys[top_k]) for top_k in (cutoff, max(keys)))
    rank_of: dict[tuple[str, str], int] = {}
    for run, first in ((scored, 1), (deepest, cutoff + 1)):
        for row in _of_queries(run, query_ids):
            if row["rank"] >= first:
                rank_of.setdefault((row["query_id"], row["unit_id"]), row["rank"])
    ranks: Ranks = {}
    for row in _of_queries(result.table(relevant_units_key(retriever)), query_ids):
        rank = rank_of.get((row["query_id"], row["unit_id"]))
        if rank is not None and row["grade"] > 0:
            place = (row["query_id"], row["evidence_id"])
            ranks[place] = min(rank, ranks.get(place, rank))
    return ranks


def _labels(result: EvaluationResult, query_ids: Collection[str]) -> dict[str, dict[str, str]]:
    """Return query -> evidence -> its documents; two that share them have their own id behind."""
    documents: dict[str, dict[str, dict[str, None]]] = {query: {} for query in query_ids}
    for row in _of_queries(result.table(QRELS_KEY), query_ids):
        if row["grade"] > 0:
            of_query = documents[row["query_id"]]
            of_query.setdefault(row["evidence_id"], {})[row["document_id"]] = None
    labels = {}
    for query_id, evidences in documents.items():
        names = {evidence: " or ".join(ids) for evidence, ids in evidences.items()}
        every = list(names.values())
        labels[query_id] = {
            evidence: f"{name} ({evidence})" if every.count(name) > 1 else name
            for evidence, name in names.items()
        }
    return labels


def _of_queries(table: pa.Table, query_ids: Collection[str]) -> list[Row]:
    ids = pa.array(sorted(query_ids), pa.string())
    rows: list[Row] = table.filter(pc.is_in(table["query_id"], ids)).to_pylist()
    return rows
