from __future__ import annotations

import pytest

from rag_assets.evaluation.ties import BELOW, tied_at_cut
from tests.made_tables import scored_table

RUN = {
    "crossed": {"a": 3.0, "b": 2.0, "c": 2.0, "d": 2.0, "e": 1.0},
    "ends": {"a": 2.0, "b": 2.0},
    "above only": {"a": 2.0, "b": 2.0, "c": 1.0},
    "short": {"a": 1.0},
}


@pytest.mark.parametrize(
    ("top_k", "found"),
    [(1, {"above only": 1, "ends": 1}), (2, {"crossed": 2}), (3, {"crossed": 1}), (4, {})],
)
def test_units_below_the_cut(top_k: int, found: dict[str, int | None]) -> None:
    assert tied_at_cut(scored_table(RUN), top_k, ends_known=True) == found


def test_a_list_that_ends_at_the_cut_may_have_been_cut_there() -> None:
    found = tied_at_cut(scored_table(RUN), 2, ends_known=False)
    assert found == {"crossed": 2, "ends": None}


def test_the_count_does_not_depend_on_the_depth_of_the_ranking() -> None:
    runs = [{"q": {f"d{n:03}": 1.0 for n in range(depth)}} for depth in (1 + BELOW, 100)]
    counts = [tied_at_cut(scored_table(run), 1, ends_known=True) for run in runs]
    assert counts == [{"q": BELOW}, {"q": BELOW}]
