"""The variants of queries: their table, and one ranking out of the rankings of each query's.

With ``r_v(d)`` the rank (from 1) and ``s_v(d)`` the score of unit d in the ranking of variant v:

- ``rrf``: sum over v of ``1 / (k + r_v(d))``, k = 60: RAG-Fusion's use of reciprocal rank fusion
  (Cormack, Clarke and Buettcher, SIGIR 2009);
- ``max``: the largest ``s_v(d)``; ``sum``: the sum of them (CombMAX and CombSUM of Fox and Shaw,
  "Combination of Multiple Searches", TREC-2, 1994);
- ``weighted``: the sum of ``w_v * s_v(d)``.

A ranking that does not hold d adds nothing. Scores are taken as they are: they come from one
retriever, but those of a longer text may be larger, which ``rrf`` does not see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from rag_assets.schemas import QUERY_VARIANTS, RUNS, Column, TableSchema, column_values
from rag_assets.store.sql_paths import scratch_connection


def variant_table(queries: pa.Table, texts: Mapping[str, Sequence[str]]) -> pa.Table:
    """Return the original of every query as variant 0, then its texts as 1, 2, 3...

    A text is stripped; one that is blank, or that equals the original or an earlier variant but
    for case and white space, is left out: it would only count the same ranking twice.

    Args:
        queries: ``QUERIES``.
        texts: query id -> its texts besides the original; a query without has variant 0 only.
    """
    return QUERY_VARIANTS.from_rows(
        [
            {"query_id": query_id, "variant": number, "text": text}
            for query_id, original in column_values(queries, "query_id", "text")
            for number, text in enumerate([original, *_distinct(original, texts.get(query_id, ()))])
        ]
    )


def folded(text: str) -> str:
    """Return ``text`` as it is compared: without case, white space as single blanks."""
    return " ".join(text.split()).casefold()


def _distinct(original: str, texts: Sequence[str]) -> list[str]:
    by_folded = {folded(original): ""}
    for text in texts:
        by_folded.setdefault(folded(text), text.strip())
    return [text for text in by_folded.values() if text]


def originals(queries: pa.Table) -> pa.Table:
    """Return the query set ``original``: every query as it stands, as its only variant."""
    zeros = pa.array(np.zeros(queries.num_rows, dtype=np.int32))
    columns = [queries.column("query_id"), zeros, queries.column("text")]
    return QUERY_VARIANTS.check(pa.table(columns, schema=QUERY_VARIANTS.arrow()))


Method = Literal["rrf", "max", "sum", "weighted"]
METHODS: tuple[Method, ...] = get_args(Method)
RRF_K = 60.0

VARIANT_RUNS = TableSchema(
    "variant_runs",
    "one retrieved unit of one variant of one query",
    ("query_id", "variant", "rank"),
    variant=Column(pa.int32(), "0 for the original text"),
    **RUNS.but(),
)

# A query for which only rankings of weight 0 have hits keeps its original's.
_WEIGHTS = """
WITH given AS (
    SELECT *, list_extract($weights, least(variant + 1, len($weights)))::DOUBLE AS given
    FROM variants
), weighed AS (
    SELECT *, CASE WHEN max(given) OVER (PARTITION BY query_id) > 0 THEN given
                   WHEN variant = 0 THEN 1.0 ELSE 0.0 END AS weight
    FROM given
), inputs AS (SELECT * FROM weighed WHERE weight > 0),
"""
_TERM: Mapping[Method, str] = {
    "rrf": "1 / ($k + rank)",
    "max": "score",
    "sum": "score",
    "weighted": "weight * score",
}

# A unit that a ranking holds twice counts once, at its best rank. Terms are summed by size, so the
# last bit does not depend on which variant gave which: units with the same terms tie exactly. The
# chunk shown is that of the variant that ranks the unit highest, the first one on a tie.
_FUSE = """
terms AS (
    SELECT query_id, unit_id, variant, min(rank) AS best, arg_min({term}, rank) AS term,
           arg_min(chunk_id, rank) AS chunk_id, arg_min(document_id, rank) AS document_id
    FROM inputs GROUP BY ALL
), fused AS (
    SELECT query_id, unit_id, {fuse} AS score,
           first(chunk_id ORDER BY best, variant) AS chunk_id,
           first(document_id ORDER BY best, variant) AS document_id
    FROM terms GROUP BY ALL
), ranked AS (
    SELECT *, row_number() OVER (
        PARTITION BY query_id ORDER BY score DESC, encode(unit_id) DESC) AS rank
    FROM fused
)
SELECT query_id, rank::INTEGER AS rank, score::DOUBLE AS score, unit_id, chunk_id, document_id
FROM ranked WHERE rank <= $depth ORDER BY query_id, rank
"""


def fuse_variants(
    rankings: pa.Table,
    method: Method,
    *,
    depth: int,
    k: float = RRF_K,
    weights: Sequence[float] | None = None,
) -> pa.Table:
    """Return the fused rankings of the variants of each query, as ``RUNS`` sorted by query id.

    Args:
        rankings: ``VARIANT_RUNS``.
        method: how.
        depth: how many ranks are kept.
        k: of ``rrf``.
        weights: of ``weighted``, by the variant's number; the last one holds for all further
            variants. A ranking of weight 0 takes no part: with (0, 1) the original counts only
            for queries for which no other variant has hits.
    """
    fuse = "max(term)" if method == "max" else "sum(term ORDER BY term, variant)"
    rows: dict[str, dict[str, object]] = {
        "rrf": {"k": float(k)},
        "weighted": {"weights": [float(weight) for weight in weights or ()]},
    }
    inputs = _WEIGHTS if method == "weighted" else "WITH inputs AS (FROM variants), "
    sql = inputs + _FUSE.format(term=_TERM[method], fuse=fuse)
    with scratch_connection() as connection:
        connection.register("variants", VARIANT_RUNS.check(rankings))
        fused = connection.sql(sql, params={"depth": depth, **rows.get(method, {})})
        return RUNS.check(fused.to_arrow_table().cast(RUNS.arrow()).combine_chunks())
