"""The first results of one retriever: which span of which document each one is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from rag_assets.evaluation.contexts_stage import retriever_contexts_key
from rag_assets.evaluation.judgments_stage import judgments_key
from rag_assets.report.page.excerpts import Unit
from rag_assets.report.result import EvaluationResult


@dataclass(frozen=True)
class Hit:
    """One result: its text, and whether it satisfies an evidence of the query."""

    unit: Unit
    relevant: bool


@dataclass(frozen=True)
class Results:
    """Query -> its first results, best first."""

    hits: Mapping[str, list[Hit]]

    def of(self, query_id: str) -> list[Hit]:
        """Return the results of one query; none where nothing was retrieved."""
        return self.hits.get(query_id, [])


def results_of(
    result: EvaluationResult, retriever: str, top_k: int, depth: int, query_ids: Sequence[str]
) -> Results:
    """Return the first ``depth`` results of the run at ``top_k``, of some queries."""
    run = result.table(result.run_keys(retriever)[top_k])
    wanted = pa.array(query_ids, pa.string())
    run = run.filter(
        pc.and_(pc.less_equal(run["rank"], depth), pc.is_in(run["query_id"], wanted))
    ).sort_by([("query_id", "ascending"), ("rank", "ascending")])
    relevant = _relevant(result, retriever, wanted)
    units = _units(result, retriever, run)
    hits: dict[str, list[Hit]] = {}
    names = ("query_id", "item_id", "chunk_id", "document_id")
    for query_id, item, chunk, document in zip(*(run[n].to_pylist() for n in names), strict=True):
        # Where documents are judged, a text is that of their best chunk.
        unit = units.get(item) or units.get(chunk) or Unit(document, 0, 0)
        hits.setdefault(query_id, []).append(Hit(unit, (query_id, item) in relevant))
    return Results(hits)


def _relevant(
    result: EvaluationResult, retriever: str, query_ids: pa.Array
) -> set[tuple[str, str]]:
    table = result.table(judgments_key(retriever))
    known = pc.and_(pc.greater(table["grade"], 0), pc.is_in(table["query_id"], query_ids))
    found = table.filter(known)
    return set(zip(found["query_id"].to_pylist(), found["item_id"].to_pylist(), strict=True))


def _units(result: EvaluationResult, retriever: str, run: pa.Table) -> dict[str, Unit]:
    """Return id -> the span that is returned for it; only those of the run are read."""
    ids = pc.unique(pa.chunked_array([*run["item_id"].chunks, *run["chunk_id"].chunks]))
    path = result.path(retriever_contexts_key(retriever))
    if path is None:
        return {}
    columns = ["context_id", "document_id", "start", "end"]
    table = ds.dataset(path).to_table(columns, filter=ds.field("context_id").isin(ids))
    rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
    return {context_id: Unit(document, start, end) for context_id, document, start, end in rows}
