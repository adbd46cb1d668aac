"""Searches restricted to some documents, whatever searches.

What is found is exactly the ranking of all chunks without those of other documents, cut at the
depth that was wanted. Where few chunks match and a part can be searched alone, it is. Else the
search is asked for more hits until enough of them match: hits at a smaller depth are the first of
those at a larger one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.units import Search
from rag_assets.ordering import Hits, Positions

HITS_AT_ONCE = 2_000_000
"""Most hits that one search is asked for: they are in memory until they are looked through."""

GROWTH = 4

FEW = 0.25
"""Largest share of the chunks that is copied to be searched alone."""

Part = Callable[[Positions], Search]
"""``part(positions)``: a search of the chunks at these positions; its hits count from 0."""

_NO_HITS = Hits(np.empty(0, np.int64), np.empty(0, np.float64))

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


def filtered(search: Search, allowed: Restriction, part: Part | None = None) -> Search:
    """Return a search that finds only what each query may find, ``depth`` hits where there are.

    Args:
        search: finds chunks.
        allowed: what each query may find.
        part: searches some chunks alone; None where that cannot be done.
    """
    masks = {id(mask): mask for mask in allowed.masks if mask is not None}
    counts = {name: int(mask[allowed.documents].sum()) for name, mask in masks.items()}
    return _Filtered(search, allowed, part, counts)


@dataclass(frozen=True)
class _Filtered:
    """A restricted search; ``counts`` are the chunks that match, by the identity of the mask."""

    search: Search
    allowed: Restriction
    part: Part | None
    counts: Mapping[int, int]

    def __call__(self, numbers: Sequence[int], depth: int) -> list[Hits]:
        """Return the hits of the queries with these numbers, best first."""
        by_number: dict[int, Hits] = {}
        todo: dict[int, int] = {}
        for same in self._by_mask(numbers):
            mask = self.allowed.masks[same[0]]
            share = self.counts[id(mask)] / len(self.allowed.documents) if mask is not None else 1
            if not share:
                by_number |= dict.fromkeys(same, _NO_HITS)
            elif mask is not None and self.part is not None and share <= FEW:
                positions = np.flatnonzero(mask[self.allowed.documents])
                by_number |= _of_part(self.part, positions, same, depth)
            else:
                todo |= dict.fromkeys(same, self._at_most(ceil(depth / share)))
        by_number |= self._deeper(todo, depth)
        return [by_number[number] for number in numbers]

    def _deeper(self, todo: Mapping[int, int], depth: int) -> dict[int, Hits]:
        """Search for each query as deep as it says, and deeper, until enough hits match."""
        by_number: dict[int, Hits] = {}
        while todo:
            more: dict[int, int] = {}
            for number, deep, hits in batched(self.search, todo):
                matching = self._kept(number, hits)
                if self._is_enough(number, matching, hits, depth, deep):
                    by_number[number] = Hits(matching.positions[:depth], matching.scores[:depth])
                else:
                    more[number] = self._at_most(deep * GROWTH)
            todo = more
        return by_number

    def _by_mask(self, numbers: Sequence[int]) -> Iterable[list[int]]:
        groups: dict[int, list[int]] = {}
        for number in numbers:
            groups.setdefault(id(self.allowed.masks[number]), []).append(number)
        return groups.values()

    def _at_most(self, depth: int) -> int:
        return min(depth, len(self.allowed.documents))

    def _kept(self, number: int, hits: Hits) -> Hits:
        mask = self.allowed.masks[number]
        if mask is None:
            return hits
        chosen = mask[self.allowed.documents[hits.positions]]
        return Hits(hits.positions[chosen], hits.scores[chosen])

    def _is_enough(self, number: int, matching: Hits, hits: Hits, depth: int, deep: int) -> bool:
        """Whether a deeper search could add nothing that is wanted."""
        if self.allowed.masks[number] is None or len(matching.positions) >= depth:
            return True
        return len(hits.positions) < deep or deep >= len(self.allowed.documents)


def _of_part(
    part: Part, positions: Positions, numbers: Sequence[int], depth: int
) -> dict[int, Hits]:
    """Search these chunks alone; hits are named by their place in the whole."""
    ranked = part(positions)(numbers, min(depth, len(positions)))
    return {
        number: Hits(positions[hits.positions], hits.scores)
        for number, hits in zip(numbers, ranked, strict=True)
    }


def batched(search: Search, depths: Mapping[int, int]) -> list[tuple[int, int, Hits]]:
    """Search for queries of equal depth together, so that few searches are needed."""
    results: list[tuple[int, int, Hits]] = []
    for deep in sorted(set(depths.values())):
        same = [number for number, wanted_depth in depths.items() if wanted_depth == deep]
        size = max(1, HITS_AT_ONCE // deep)
        for start in range(0, len(same), size):
            part = same[start : start + size]
            results += [(n, deep, hits) for n, hits in zip(part, search(part, deep), strict=True)]
    return results
