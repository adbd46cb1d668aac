from __future__ import annotations

import pyarrow as pa

from rag_assets.pipeline.selection import Selection
from rag_assets.report.leaderboard import leaderboard_rows
from rag_assets.schemas import LEADERBOARD

COUNTS = [column.name for column in LEADERBOARD.columns if column.name.startswith("n_")]


def board() -> pa.Table:
    counts = {name: 0 for name in COUNTS} | {"n_queries": 4, "weight": 6.0, "n_unjudged": 2}
    rows = [
        {
            "position": position,
            "retriever": name,
            "split": split,
            "top_k": k,
            **counts,
            "tokens": None,
            "judged": None if name == "silent" else 0.5,
            "ndcg": 0.25,
            "recall": 0.75 if k == 10 else None,
        }
        for split in ("all", "dev")
        for position, name in enumerate(["best", "silent", "worst"], 1)
        for k in (1, 10)
    ]
    fields = [pa.field("ndcg", pa.float64()), pa.field("recall", pa.float64())]
    schema = pa.schema([*LEADERBOARD.arrow(), *fields])
    return LEADERBOARD.check(pa.Table.from_pylist(rows, schema=schema))


def test_names_first_and_nothing_null() -> None:
    rows = leaderboard_rows(board(), Selection(("best", "silent"), (1, 10)), "all")
    assert list(rows[0].items()) == [
        ("retriever", "best"),
        ("split", "all"),
        ("top_k", 1),
        ("position", 1),
        ("n_queries", 4),
        ("weight", 6.0),
        ("n_attempted", 0),
        ("n_answered", 0),
        ("n_empty", 0),
        ("n_failed", 0),
        ("n_unanswerable", 0),
        ("n_unlabelled", 0),
        ("n_unreachable", 0),
        ("n_not_in_corpus", 0),
        ("n_unjudged", 2),
        ("judged", 0.5),
        ("n_tied", 0),
        ("ndcg", 0.25),
    ]
    assert rows[1]["recall"] == 0.75
    assert "judged" not in rows[2]


def test_only_selected_cells_in_the_order_of_the_board() -> None:
    rows = leaderboard_rows(board(), Selection(("worst", "best"), (10,)), "all")
    assert [(row["retriever"], row["top_k"], row["position"]) for row in rows] == [
        ("best", 10, 1),
        ("worst", 10, 3),
    ]
    assert leaderboard_rows(board(), Selection((), (10,)), "all") == []
