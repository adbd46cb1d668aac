"""Means by query tag: which retriever is best on which kind of question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from rag_assets.evaluation.summary import mean


@dataclass(frozen=True)
class TagSlice:
    """One tag: how many answerable queries have it, and each retriever's mean over them."""

    tag: str
    n_queries: int
    means: Mapping[str, float]

    @property
    def best(self) -> float:
        """The highest mean."""
        return max(self.means.values())


def by_tag(cells: Mapping[str, pa.Table], queries: pa.Table, measure: str) -> list[TagSlice]:
    """Return the slices of one metric, in alphabetical order of the tags.

    Args:
        cells: retriever -> its query metrics at one cut-off.
        queries: table of :data:`rag_assets.schemas.QUERIES`.
        measure: the metric to average; queries without a value are not counted.
    """
    members: dict[str, set[str]] = {}
    pairs = zip(queries["query_id"].to_pylist(), queries["tags"].to_pylist(), strict=True)
    for query_id, tags in pairs:
        for tag in tags:
            members.setdefault(tag, set()).add(query_id)
    values = {
        name: dict(zip(t["query_id"].to_pylist(), t[measure].to_pylist(), strict=True))
        for name, t in cells.items()
    }
    slices = [_slice(tag, sorted(ids), values) for tag, ids in sorted(members.items())]
    return [found for found in slices if found is not None]


def _slice(
    tag: str, query_ids: list[str], values: Mapping[str, Mapping[str, float | None]]
) -> TagSlice | None:
    counted = [i for i in query_ids if any(v.get(i) is not None for v in values.values())]
    if not counted:
        return None
    means = {name: mean([v.get(i) for i in counted]) or 0.0 for name, v in values.items()}
    return TagSlice(tag, len(counted), means)
