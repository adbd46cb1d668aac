"""What writing answers took: tokens, money, seconds; on the leaderboard and over time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_assets.answers.stage import answers_key
from tests.answers.answering import with_answers
from tests.llm.server import says, serving
from tests.tiny_experiment import Tiny

WORDS = 3
REQUEST_TOKENS = 10  # as the server counts


def test_tokens_money_and_seconds_of_a_model(tmp_path: Path, computed: Tiny) -> None:
    small = Tiny(tmp_path).start_from(computed).write()
    with serving() as server:
        server.on("", says("beside the bridge"))
        llm: dict[str, object] = {"model": "m", "base_url": server.base_url, "api_key_env": None}
        llm |= {"prompt_price": 2.0, "completion_price": 5.0}
        with_answers(
            small,
            llm=llm,
            generators={"written": {"type": "llm"}},
            answers={"plain": {"generator": "written", "retriever": "bm25", "top_k": [3]}},
        )
        small.run()
        small.snapshot()
        n_asked = len(server.received)
        rows = small.rows(answers_key("plain@3"))
        assert len(rows) == n_asked == 7
        board = small.command("leaderboard", ".", "--answers", "--format", "json").stdout
        row = next(one for one in json.loads(board) if one["answerer"] == "plain")
        assert row["answer_tokens"] == REQUEST_TOKENS + WORDS
        price = (REQUEST_TOKENS * 2.0 + WORDS * 5.0) / 1_000_000
        assert row["answer_cost"] == pytest.approx(price, rel=1e-12)
        assert row["answer_seconds"] > 0
        shown = small.command("leaderboard", ".", "--answers", columns=160).stdout.split()
        assert {"money", "seconds"} <= {*shown}
        llm["completion_price"] = 50.0  # counts from the next evaluation on, and asks nothing again
        small.write_config()
        small.run()
        small.snapshot()
        assert len(server.received) == n_asked
    history = ("history", ".", "--metric", "answer_cost", "--format", "json")
    values = [one["value"] for one in json.loads(small.command(*history).stdout)]
    later = (REQUEST_TOKENS * 2.0 + WORDS * 50.0) / 1_000_000
    assert values == pytest.approx([price, later], rel=1e-12)
    refused = small.command("compare", ".", "--metric", "answer_cost")
    assert "exists only for all answers together" in refused.output
