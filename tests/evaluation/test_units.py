from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.evaluation.units import cut
from rag_assets.ordering import Hits
from rag_assets.retrieval.unit_ranking import Search, unit_ranking
from rag_assets.schemas import CHUNKS
from tests.made_tables import run_table

# "a!" is before "a#" in bytes, so the order of these documents is not the order of their chunks.
DOCUMENTS = ["a", "a!", "a#", "b", "\u00e9", "\U0001f600", "Z"]
CHUNK_IDS = [(f"{document}#{n}-{n + 1}", document) for document in DOCUMENTS for n in range(4)]
# Few values: many ties; None is a chunk that the search does not find.
SCORES = st.lists(
    st.sampled_from([None, -1.0, 0.5, 1.0, 2.0]),
    min_size=len(CHUNK_IDS),
    max_size=len(CHUNK_IDS),
)


def chunk_table(ids: Sequence[tuple[str, str]]) -> pa.Table:
    return CHUNKS.from_rows(
        [
            {
                "chunk_id": c,
                "document_id": d,
                "start": 0,
                "end": 1,
                "title": "",
                "text": "x",
                "heading_path": "",
            }
            for c, d in ids
        ]
    )


def by_score(pairs: Sequence[tuple[float, str]]) -> list[int]:
    """Numbers of (score, id) pairs, best first, by the one order of rankings."""
    key = [(score, name.encode()) for score, name in pairs]
    return sorted(range(len(pairs)), key=key.__getitem__, reverse=True)


class ExactSearch:
    """An exact search over given scores, one list a query; remembers what it was asked for."""

    def __init__(self, scores: Sequence[Sequence[float | None]], ids: Sequence[str]) -> None:
        self.scores, self.ids = scores, ids
        self.asked: list[tuple[list[int], int]] = []

    def __call__(self, queries: Sequence[int], depth: int) -> list[Hits]:
        self.asked.append((list(queries), depth))
        return [self._hits(self.scores[query], depth) for query in queries]

    def _hits(self, scores: Sequence[float | None], depth: int) -> Hits:
        found = [(n, score) for n, score in enumerate(scores) if score is not None]
        order = by_score([(score, self.ids[n]) for n, score in found])[:depth]
        positions = np.array([found[i][0] for i in order], dtype=np.int64)
        return Hits(positions, np.array([found[i][1] for i in order], dtype=np.float64))


def naive_documents(scores: Sequence[float | None], depth: int) -> list[tuple[str, float, str]]:
    """Rank all documents by their best chunk: (document, score, chunk)."""
    best: dict[str, tuple[float, bytes, str]] = {}
    for (chunk, document), score in zip(CHUNK_IDS, scores, strict=True):
        if score is not None:
            entry = (score, chunk.encode(), chunk)
            best[document] = max(entry, best.get(document, entry))
    names = list(best)
    order = by_score([(best[name][0], name) for name in names])[:depth]
    return [(names[i], best[names[i]][0], best[names[i]][2]) for i in order]


@settings(max_examples=150, deadline=None)
@given(st.lists(SCORES, min_size=1, max_size=4), st.integers(1, 9))
def test_documents_are_exactly_the_naive_ranking(
    scores: list[list[float | None]], depth: int
) -> None:
    search: Search = ExactSearch(scores, [chunk for chunk, _ in CHUNK_IDS])
    names = [f"q{n}" for n in range(len(scores))]
    table = unit_ranking(names, chunk_table(CHUNK_IDS), search, judge="document", depth=depth)
    expected = [
        (name, rank, score, document, chunk, document)
        for name, values in zip(names, scores, strict=True)
        for rank, (document, score, chunk) in enumerate(naive_documents(values, depth), 1)
    ]
    assert [tuple(row.values()) for row in table.to_pylist()] == expected


def test_tie_across_the_cut_is_searched_to_its_end() -> None:
    """All chunks tie; the best document by id owns the chunk that is last by id."""
    ids = [(f"c{n:03d}", f"d{99 - n:02d}") for n in range(100)]
    search = ExactSearch([[1.0] * 100], [chunk for chunk, _ in ids])
    table = unit_ranking(["q"], chunk_table(ids), search, judge="document", depth=2)
    assert table["unit_id"].to_pylist() == ["d99", "d98"]
    assert [depth for _, depth in search.asked] == [2, 8, 32, 100]


def test_cut_keeps_the_first_ranks_of_every_query() -> None:
    table = cut(run_table({"q1": ["a", "b", "c"], "q2": ["d"]}), 2)
    pairs = zip(table["query_id"].to_pylist(), table["unit_id"].to_pylist(), strict=True)
    assert list(pairs) == [("q1", "a"), ("q1", "b"), ("q2", "d")]
