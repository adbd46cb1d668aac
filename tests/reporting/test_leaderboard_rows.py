from __future__ import annotations

import pyarrow as pa

from rag_assets.pipeline.selection import Selection
from rag_assets.reporting.rows import leaderboard_rows
from rag_assets.schemas import LEADERBOARD


def board() -> pa.Table:
    counts = {"n_queries": 4, "n_unanswerable": 1, "n_empty": 0, "n_unreachable": 2}
    rows = [
        {
            "position": position,
            "retriever": name,
            "top_k": k,
            **counts,
            "judged": None if name == "silent" else 0.5,
            "ndcg": 0.25,
            "recall": 0.75 if k == 10 else None,
        }
        for position, name in enumerate(["best", "silent", "worst"], 1)
        for k in (1, 10)
    ]
    fields = [pa.field("ndcg", pa.float64()), pa.field("recall", pa.float64())]
    schema = pa.schema([*LEADERBOARD.arrow(), *fields])
    return LEADERBOARD.check(pa.Table.from_pylist(rows, schema=schema))


def test_names_first_and_nothing_null() -> None:
    rows = leaderboard_rows(board(), Selection(("best", "silent"), (1, 10)))
    assert list(rows[0].items()) == [
        ("retriever", "best"),
        ("top_k", 1),
        ("position", 1),
        ("n_queries", 4),
        ("n_unanswerable", 1),
        ("n_empty", 0),
        ("n_unreachable", 2),
        ("judged", 0.5),
        ("ndcg", 0.25),
    ]
    assert rows[1]["recall"] == 0.75
    assert "judged" not in rows[2]


def test_only_selected_cells_in_the_order_of_the_board() -> None:
    rows = leaderboard_rows(board(), Selection(("worst", "best"), (10,)))
    assert [(row["retriever"], row["top_k"], row["position"]) for row in rows] == [
        ("best", 10, 1),
        ("worst", 10, 3),
    ]
    assert leaderboard_rows(board(), Selection((), (10,))) == []
