"""Two retrievers, or answerers, in detail: their means, the tests, and where they differ most.

Of a query that one of them wins: the ranks of what is relevant, or both answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rag_assets.analysis.comparisons import Comparison, clusters_text, least_shown
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.answers.stage import answers_key
from rag_assets.evaluation.metric_names import is_gain
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.pipeline.stored_evaluation import pairs_of, rows_of_queries
from rag_assets.sheets.formats import interval_name, interval_text, p_text
from rag_assets.sheets.sheet import TEXT, Column, Sheet
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.paired_tests import ALPHA, POWER
from rag_assets.statistics.units import SAME


def pair_sheets(compared: Comparison, changed: tuple[Sequence[Row], Sequence[Row]]) -> list[Sheet]:
    """Return everything on one pair: means, tests, the verdict, and the queries that moved most."""
    (a, b), (row,) = compared.names, compared.rows
    interval = interval_name(compared.resampling.confidence)
    columns = (
        Column("name", compared.source.subject, TEXT),
        Column("mean", "mean", bounds=("low", "high"), interval=interval, is_required=True),
    )
    means = [{**of, "name": name} for name, of in compared.mean_intervals.items()]
    lines = dict(_numbers(row, compared.resampling.confidence, len(compared.family)))
    width = max(map(len, lines))
    notes = ["", *(f"{name:<{width}}  {text}" for name, text in lines.items())]
    headings = f"most won by {b}", f"most lost by {b}"
    return [
        Sheet(compared.title(f"{b} against {a} on"), columns, means, notes=notes),
        Sheet(compared.verdicts[0], (), ()),
        *(
            Sheet(heading, (), (), notes=[line for row in rows for line in _changed(row, a, b)])
            for heading, rows in zip(headings, changed, strict=True)
            if rows
        ),
    ]


def _numbers(row: Row, confidence: float, n_pairs: int) -> Iterator[tuple[str, str]]:
    interval = f"{interval_name(confidence)} {interval_text(row)}"
    difference = "-" if row["difference"] is None else f"{row['difference']:+.4f}"
    yield "difference", f"{difference}, {interval}"
    holm = ""
    if row["p_adjusted"] is not None and n_pairs > 1:
        holm = f"; Holm over {n_pairs} pairs: {p_text(row['p_adjusted'])}"
    yield "p", f"{p_text(row['p_randomisation'])} (randomisation){holm}"
    yield "other tests", f"t-test {p_text(row['p_t'])}, Wilcoxon {p_text(row['p_wilcoxon'])}"
    effect = "-" if row["effect_size"] is None else f"{row['effect_size']:+.3f}"
    yield "effect size", f"{effect} (Cohen's d_z)"
    if (smallest := least_shown(row)) is not None:
        yield "detectable", f"{smallest:.4f} at level {ALPHA} with power {POWER}"
    counts = f"{row['won']} won, {row['tied']} tied, {row['lost']} lost"
    yield "queries", f"{row['n']}{clusters_text(row)}: {counts}"


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
        missing = "(unanswerable)" if row["unanswerable"] else "(not labelled)"
        texts = {"right": " | ".join(row["golds"]) or missing, **answers}
        yield from (f"        {name}: {text}" for name, text in texts.items())


Ranks = dict[tuple[str, str], int]
"""(query, evidence) -> the rank of the first unit that satisfies it."""


def most_changed(compared: Comparison, n: int) -> tuple[list[Row], list[Row]]:
    """Return the ``n`` queries that b wins most, and those that it loses most, largest first.

    Each has ``query_id``, ``text``, ``value_a``, ``value_b`` and ``difference``. For retrievers
    ``moves`` has each relevant evidence with its ``rank_a`` and ``rank_b`` (None: the deepest run
    does not have it). For answerers ``golds`` are the right answers, ``unanswerable`` is whether
    the data says that nothing is right, and ``answer_a`` and ``answer_b`` what they answer (empty:
    refused; None: failed).
    """
    values_a, values_b = map(compared.values, compared.names)
    gained = {q: values_b[q] - values_a[q] for q in values_a.keys() & values_b.keys()}
    ordered = sorted(gained, key=lambda query: (-abs(gained[query]), query))
    metric, changed = str(compared.source.metric), [q for q in ordered if abs(gained[q]) > SAME]
    won = [query for query in changed if is_gain(metric, gained[query])][:n]
    lost = [query for query in changed if not is_gain(metric, gained[query])][:n]
    texts = pairs_of(compared.new.queries, "query_id", "text")
    of_query = (_answers if compared.source.is_of_answers else _moves)(compared, [*won, *lost])
    rows = {
        query: {
            **{"query_id": query, "text": texts[query]},
            **{"value_a": values_a[query], "value_b": values_b[query]},
            **of_query[query],
            "difference": gained[query],
        }
        for query in (*won, *lost)
    }
    return [rows[query] for query in won], [rows[query] for query in lost]


def _answers(compared: Comparison, query_ids: Sequence[str]) -> dict[str, Row]:
    result = compared.new
    answers_a, answers_b = (
        pairs_of(result.table(answers_key(name)), "query_id", "answer") for name in compared.names
    )
    golds = pairs_of(result.table(QUERY_FACTS_KEY), "query_id", "answers")
    return {
        query: {
            "golds": tuple(golds[query]),
            "unanswerable": not golds[query] and result.answerable[query] is False,
            **{"answer_a": answers_a.get(query), "answer_b": answers_b.get(query)},
        }
        for query in query_ids
    }


def answer_text(answer: str | None) -> str:
    """Return an answer in one line, as people read it."""
    return "(failed)" if answer is None else " ".join(answer.split()) or "(refused)"


def _moves(compared: Comparison, query_ids: Sequence[str]) -> dict[str, Row]:
    chosen = set(query_ids)
    cutoff = compared.metric.cutoff or 0
    sides = zip(("rank_a", "rank_b"), compared.names, strict=True)
    ranks = {side: _ranks(compared.new, name, cutoff, chosen) for side, name in sides}
    return {
        query: {
            "moves": tuple(
                {"evidence": label, **{side: of.get((query, key)) for side, of in ranks.items()}}
                for key, label in labels.items()
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
        for row in rows_of_queries(run, query_ids).to_pylist():
            if row["rank"] >= first:
                rank_of.setdefault((row["query_id"], row["unit_id"]), row["rank"])
    ranks: Ranks = {}
    for row in rows_of_queries(result.table(relevant_units_key(retriever)), query_ids).to_pylist():
        rank = rank_of.get((row["query_id"], row["unit_id"]))
        if rank is not None and row["grade"] > 0:
            place = (row["query_id"], row["evidence_id"])
            ranks[place] = min(rank, ranks.get(place, rank))
    return ranks


def _labels(result: EvaluationResult, query_ids: Collection[str]) -> dict[str, dict[str, str]]:
    """Return query -> evidence -> its documents; two that share them have their own id behind."""
    documents: dict[str, dict[str, dict[str, None]]] = {query: {} for query in query_ids}
    for row in rows_of_queries(result.table(QRELS_KEY), query_ids).to_pylist():
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
