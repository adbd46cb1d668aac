"""The figures of docs/statistics.md, from the published per-query results."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from rag_assets.statistics.comparisons import comparisons
from rag_assets.statistics.units import Resampling
from tests.statistics.samples import cell, counting

pytestmark = pytest.mark.real_data

DOCUMENT = Path(__file__).parents[2] / "docs" / "statistics.md"
BASE, BETTER = "bm25", "ensemble_rerank"


def read_cells(file: Path) -> tuple[list[str], dict[str, pa.Table]]:
    """Read the published table: query ids, and each retriever's metrics at top 3."""
    with file.open(encoding="utf-8-sig", newline="") as lines:
        rows = list(csv.DictReader(lines))
    query_ids = [row["query_id"] for row in rows]
    assert len(query_ids) == 321

    def column(name: str) -> list[float | None]:
        return [float(row[name]) for row in rows]

    return query_ids, {
        name: cell(
            [None] * len(rows),
            query_ids,
            hit_rate=column(f"{name}_hit_rate"),
            mrr=column(f"{name}_mrr"),
        )
        for name in (BASE, BETTER)
    }


@pytest.mark.parametrize("metric", ["hit_rate", "mrr"])
def test_the_documented_figures(shared_data: Callable[[str], Path], metric: str) -> None:
    query_ids, cells = read_cells(shared_data("seed_doc_qa") / "per_query_top3.csv")
    table = comparisons(
        cells, counting(321, query_ids=query_ids), (metric, 3), Resampling(), [(BASE, BETTER)]
    )
    (row,) = table.to_pylist()
    shown = [f"{metric}@3", *(f"{row[name]:.4f}" for name in ("mean_a", "mean_b"))]
    shown += [f"{row['difference']:+.4f}", f"[{row['low']:.4f}, {row['high']:.4f}]"]
    shown += [f"{row[name]:.4f}" for name in ("p_randomisation", "p_t", "p_wilcoxon")]
    shown += [f"{row['effect_size']:.3f}", f"{row['detectable']:.4f}"]
    shown += [str(row[name]) for name in ("won", "tied", "lost")]
    assert f"| {' | '.join(shown)} |\n" in DOCUMENT.read_text(encoding="utf-8"), shown
