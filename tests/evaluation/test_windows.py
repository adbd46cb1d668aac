from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.evaluation.units import with_neighbours

Span = tuple[str, int, int]
SPANS = st.lists(
    st.builds(
        lambda name, start, length: (name, start, start + length),
        st.sampled_from("abc"),
        st.integers(0, 12),
        st.integers(0, 6),
    ),
    max_size=14,
)


def grown(spans: list[Span], neighbours: int) -> list[Span]:
    """By the words of the definition."""
    found = []
    for name, start, end in spans:
        ordered = sorted({span for span in spans if span[0] == name})
        place = ordered.index((name, start, end))
        window = ordered[max(place - neighbours, 0) : place + neighbours + 1]
        found.append((name, min(s for _, s, _ in window), max(e for _, _, e in window)))
    return found


@given(SPANS, st.integers(0, 5))
def test_a_span_grows_over_its_neighbours(spans: list[Span], neighbours: int) -> None:
    table = pa.table(
        {
            "unit_id": pa.array(range(len(spans)), pa.int64()),
            "document_id": pa.array([name for name, _, _ in spans], pa.string()),
            "start": pa.array([start for _, start, _ in spans], pa.int64()),
            "end": pa.array([end for _, _, end in spans], pa.int64()),
        }
    )
    found = with_neighbours(table, neighbours)
    assert found.schema == table.schema
    assert found["unit_id"].equals(table["unit_id"])
    columns = (found[name].to_pylist() for name in ("document_id", "start", "end"))
    assert list(zip(*columns, strict=True)) == grown(spans, neighbours)
