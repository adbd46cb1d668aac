"""Searches restricted to some documents, whatever searches.

A search is asked for more hits until enough of them are of documents that may be found. Hits at a
smaller depth are the first of those at a larger one, so what is kept is exactly the ranking of all
chunks without the others, cut at the depth that was wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.units import Search
from rag_assets.ordering import Hits

HITS_AT_ONCE = 2_000_000
"""Most hits that one search is asked for: they are in memory until they are looked through."""

GROWTH = 4

Mask = npt.NDArray[np.bool_]


class Restriction(NamedTuple):
    """What each query may find.

    Attributes:
        documents: the document of each chunk, as a number.
        masks: by query number: which of these documents may be found; None: all.
    """

    documents: npt.NDArray[np.int64]
    masks: Sequence[Mask | None]


def restriction(filters: pa.Table, query_ids: Sequence[str], chunks: pa.Table) -> Restriction:
    """Return what queries may find among these chunks.

    Args:
        filters: table of :data:`rag_assets.evaluation.query_filters.QUERY_FILTERS`.
        query_ids: the queries by number; those of variants occur several times.
        chunks: what positions of hits refer to, with ``document_id``.
    """
    encoded = pc.dictionary_encode(chunks.column("document_id")).combine_chunks()
    by_query: dict[str, Mask] = {}
    for row in filters.to_pylist():
        matching = pa.array(row["document_ids"], pa.string())
        mask = pc.is_in(encoded.dictionary, value_set=matching).to_numpy(zero_copy_only=False)
        by_query |= dict.fromkeys(row["query_ids"], mask)
    documents = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return Restriction(documents, [by_query.get(query_id) for query_id in query_ids])


def filtered(search: Search, allowed: Restriction) -> Search:
    """Return a search that finds only what each query may find, ``depth`` hits where there are."""
    documents, masks = allowed
    counts = {id(mask): int(mask[documents].sum()) for mask in masks if mask is not None}
    total = len(documents)

    def first_depth(number: int, depth: int) -> int:
        share = counts[id(masks[number])] / total
        return min(total, ceil(depth / share))

    def kept(number: int, hits: Hits) -> Hits:
        mask = masks[number]
        chosen = slice(None) if mask is None else mask[documents[hits.positions]]
        return Hits(hits.positions[chosen], hits.scores[chosen])

    def restricted(numbers: Sequence[int], depth: int) -> list[Hits]:
        found: dict[int, Hits] = {}
        todo: dict[int, int] = {}
        for number in numbers:
            count = depth if masks[number] is None else counts[id(masks[number])]
            if not count:
                found[number] = Hits(np.empty(0, np.int64), np.empty(0, np.float64))
            else:
                todo[number] = depth if masks[number] is None else first_depth(number, depth)
        while todo:
            asked, todo = todo, {}
            for number, deep, hits in _batched(search, asked):
                one = kept(number, hits)
                if masks[number] is None or _is_enough(one, hits, depth, deep, total):
                    found[number] = Hits(one.positions[:depth], one.scores[:depth])
                else:
                    todo[number] = min(total, deep * GROWTH)
        return [found[number] for number in numbers]

    return restricted


def _is_enough(kept: Hits, hits: Hits, depth: int, deep: int, total: int) -> bool:
    """Whether a deeper search could add nothing that is wanted."""
    return len(kept.positions) >= depth or len(hits.positions) < deep or deep >= total


def _batched(search: Search, asked: dict[int, int]) -> list[tuple[int, int, Hits]]:
    """Search for queries of equal depth together, so that few searches are needed."""
    found: list[tuple[int, int, Hits]] = []
    for deep in sorted(set(asked.values())):
        same = [number for number, wanted in asked.items() if wanted == deep]
        size = max(1, HITS_AT_ONCE // deep)
        for start in range(0, len(same), size):
            part = same[start : start + size]
            found += [(n, deep, hits) for n, hits in zip(part, search(part, deep), strict=True)]
    return found
