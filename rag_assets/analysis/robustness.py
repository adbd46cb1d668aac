"""How far retrievers fall on perturbed queries: each against itself on the queries as asked."""

from __future__ import annotations

from collections.abc import Iterator

from rag_assets.analysis.comparisons import difference_columns, names_of, oriented
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.pipeline.stored_evaluation import pairs_of
from rag_assets.query_sets.query_set import PERTURB
from rag_assets.query_sets.stage import query_set_key
from rag_assets.retrieval.base import ORIGINAL
from rag_assets.sheets.sheet import TEXT, Column, Sheet, of_split


def robustness_rows(result: EvaluationResult) -> list[Row]:
    """Return a row a perturbed retriever: its ``original``, ``kinds`` and difference.

    One without an original has no difference; ``changed`` are the queries whose text changed.
    """
    rows: list[Row] = []
    originals, sets = pairs_of(result.queries, "query_id", "text"), result.configured("query_sets")
    for name, original in result.perturbed.items():
        searched = [
            query_set
            for query_set in dict.fromkeys(_query_sets(result, name))
            if sets.get(query_set, {}).get("strategy") == PERTURB
        ]
        row: Row = {"original": original, "retriever": name}
        for key in ("kinds", "rate"):
            row[key] = ", ".join(dict.fromkeys(str(sets[query_set][key]) for query_set in searched))
        tables = [result.table(query_set_key(query_set)).to_pylist() for query_set in searched]
        texts = [(row["query_id"], row["text"]) for table in tables for row in table]
        row["changed"] = len({query_id for query_id, text in texts if text != originals[query_id]})
        pairs = (pair for pair in result.comparisons if {*names_of(pair)} == {original, name})
        rows += [{**row, **oriented(pair, name)} for pair in pairs] or [row]
    return rows


def _query_sets(result: EvaluationResult, name: str) -> Iterator[str]:
    """Yield the query sets of a retriever, those of what it reads too."""
    block = result.configured("retrievers")[name]
    yield block.get("query_set", ORIGINAL)
    for read in (*([block["input"]] if "input" in block else ()), *block.get("inputs", ())):
        yield from _query_sets(result, read)


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
