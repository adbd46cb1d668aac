"""Where each positive evidence of a query was found, or at which stage it was lost.

``k`` is the cut-off that is asked about. The first of these that holds is the place:

1. ``found``: a unit that satisfies the evidence is among the first k of the ranking.
2. ``not_in_corpus``: no unit satisfies it, and none of the documents that it names exists.
3. ``no_chunk``: no unit of the retriever satisfies it, though a document exists: the chunking left
   it out, or cut it so that no unit holds enough of it.
4. ``below_candidates``: units satisfy it, but the ranking of a base retriever, searched as deep as
   it is stored, holds none of them; for a retriever that reads others: none of them has one among
   its candidates, as deep as they are read. Of a search with chunks of its own only those are known
   that it returned for some query: what no chunk of them satisfies is here, and never at 3.
5. ``lost_in_fusion``, ``lost_in_reranking``: an input has it among its first k, and this retriever
   moved it below k.
6. ``cut_at_k``: it is ranked, but deeper than k. A fusion may rank it deeper than its ranking is
   stored; then it has no rank.

So a place says what to work on: the corpus, the chunking, the retrievers or the depth to which they
are read, the fusion or reranker, the cut-off. Where several alternatives make one evidence, one
unit that satisfies any of them is enough. The share ``found`` of a query's evidences is recall@k.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from rag_assets.evaluation.leaderboard import mean
from rag_assets.schemas import ATTRIBUTIONS, RUNS
from rag_assets.scratch_duckdb import scratch_connection

FOUND = "found"
PLACES = (
    FOUND,
    "cut_at_k",
    "lost_in_reranking",
    "lost_in_fusion",
    "below_candidates",
    "no_chunk",
    "not_in_corpus",
)
"""All places, the last stage first."""

LOST_IN = {"fused": "lost_in_fusion", "reranked": "lost_in_reranking"}
"""Family of retrievers that read others -> what losing an evidence is called there."""

_ATTRIBUTE = """
WITH units AS (
    SELECT query_id, evidence_id, unit_id FROM relevant_units WHERE grade > 0
), evidences AS (
    SELECT query_id, evidence_id, count(DISTINCT unit_id) AS n_units FROM units GROUP BY ALL
), own AS (
    SELECT query_id, evidence_id, min(rank) AS rank
    FROM units JOIN ranking USING (query_id, unit_id) GROUP BY ALL
), input_firsts AS (
    SELECT query_id, evidence_id, number, min(rank) AS rank
    FROM units JOIN inputs USING (query_id, unit_id) GROUP BY ALL
), read AS (
    SELECT query_id, evidence_id, list(rank ORDER BY number) AS input_ranks, min(rank) AS best
    FROM (SELECT * FROM evidences CROSS JOIN range($n_inputs) numbers(number))
    LEFT JOIN input_firsts USING (query_id, evidence_id, number) GROUP BY ALL
), existing AS (
    SELECT DISTINCT query_id, evidence_id
    FROM qrels SEMI JOIN documents USING (document_id) WHERE grade > 0
)
SELECT query_id, evidence_id,
       CASE WHEN own.rank <= $k THEN 'found'
            WHEN n_units = 0 AND existing.query_id IS NULL THEN 'not_in_corpus'
            WHEN n_units = 0 AND $all_units_known THEN 'no_chunk'
            WHEN $n_inputs = 0 AND own.rank IS NULL THEN 'below_candidates'
            WHEN $n_inputs > 0 AND best IS NULL THEN 'below_candidates'
            WHEN best <= $k THEN $lost_in
            ELSE 'cut_at_k' END AS lost_at,
       own.rank::INTEGER AS rank,
       n_units::INTEGER AS n_relevant_units,
       $names::VARCHAR[] AS inputs,
       coalesce(input_ranks, [])::INTEGER[] AS input_ranks
FROM evidences
LEFT JOIN own USING (query_id, evidence_id)
LEFT JOIN read USING (query_id, evidence_id)
LEFT JOIN existing USING (query_id, evidence_id)
ORDER BY query_id, evidence_id
"""


def attributions(
    ranking: pa.Table,
    relevant_units: pa.Table,
    qrels: pa.Table,
    documents: pa.Table,
    *,
    k: int,
    family: str,
    all_units_known: bool = True,
    inputs: Mapping[str, pa.Table],
) -> pa.Table:
    """Say of each positive evidence where the retriever found or lost it.

    Args:
        ranking: table of :data:`rag_assets.schemas.RUNS`, as deep as it is stored.
        relevant_units: table of :data:`rag_assets.schemas.RELEVANT_UNITS`, of the retriever.
        qrels: table of :data:`rag_assets.schemas.QRELS`.
        documents: a table with the column ``document_id``: the corpus.
        k: the cut-off asked about, at least 1.
        family: of the retriever; one that reads others must be in :data:`LOST_IN`.
        all_units_known: whether the relevant units are of all units that it can find.
        inputs: name -> ranking of each retriever that this one reads, as deep as it reads it.

    Returns:
        Table of :data:`rag_assets.schemas.ATTRIBUTIONS`, sorted by query and evidence.
    """
    values = {
        "k": k,
        "lost_in": LOST_IN[family] if inputs else "",
        "names": list(inputs),
        "n_inputs": len(inputs),
        "all_units_known": all_units_known,
    }
    with scratch_connection() as connection:
        connection.register("ranking", ranking.select(["query_id", "rank", "unit_id"]))
        connection.register("inputs", _numbered(inputs))
        connection.register("relevant_units", relevant_units)
        connection.register("qrels", qrels)
        connection.register("documents", documents.select(["document_id"]))
        table = connection.sql(_ATTRIBUTE, params=values).to_arrow_table()
    return ATTRIBUTIONS.check(table.cast(ATTRIBUTIONS.arrow()).combine_chunks())


def _numbered(inputs: Mapping[str, pa.Table]) -> pa.Table:
    names = ["query_id", "rank", "unit_id"]
    parts = [RUNS.empty().select(names).append_column("number", pa.array([], pa.int64()))]
    for number, table in enumerate(inputs.values()):
        numbers = pa.array([number] * table.num_rows, pa.int64())
        parts.append(table.select(names).append_column("number", numbers))
    return pa.concat_tables(parts)


@dataclass(frozen=True)
class Places:
    """How the evidences of some queries are spread over the places, for one retriever.

    Attributes:
        n_queries: queries with at least one positive evidence.
        n_evidences: their evidences.
        counts: place -> evidences; every place of :data:`PLACES`.
        recall: mean over the queries of the share of evidences found; recall@k.
        ceiling: the same of those that any input has among its candidates: no fusion or reranking
            of this pool can have a higher recall. None for a retriever that reads no other.
    """

    n_queries: int
    n_evidences: int
    counts: Mapping[str, int]
    recall: float
    ceiling: float | None

    def share(self, place: str) -> float:
        """Return the part of all evidences that is at ``place``."""
        return self.counts[place] / self.n_evidences


def places(table: pa.Table, query_ids: Collection[str] | None = None) -> Places | None:
    """Count the evidences by place.

    Args:
        table: of :data:`rag_assets.schemas.ATTRIBUTIONS`.
        query_ids: only these queries; all when absent.

    Returns:
        The counts; None where no query has a positive evidence.
    """
    rows = table.to_pylist()
    if query_ids is not None:
        chosen = set(query_ids)
        rows = [row for row in rows if row["query_id"] in chosen]
    if not rows:
        return None
    shares: dict[str, list[tuple[bool, bool]]] = {}
    for row in rows:
        in_pool = any(rank is not None for rank in row["input_ranks"])
        shares.setdefault(row["query_id"], []).append((row["lost_at"] == FOUND, in_pool))
    recall, ceiling = (
        mean([sum(each[part] for each in flags) / len(flags) for flags in shares.values()]) or 0.0
        for part in (0, 1)
    )
    counts = {place: sum(row["lost_at"] == place for row in rows) for place in PLACES}
    return Places(len(shares), len(rows), counts, recall, ceiling if rows[0]["inputs"] else None)
