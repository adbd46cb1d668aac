"""What servers counted and charged stands in the latency table, and in no fingerprint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets.reporting.latency_rows import latency_rows
from rag_assets.reporting.rows import Row
from tests.llm.server import Server, ordered, serving
from tests.shown_board import evaluated
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny


@pytest.fixture
def server() -> Iterator[Server]:
    def write(text: str) -> str:
        return ordered(text) if "[1]" in text else "The answer in four words."

    with serving(write) as running:
        yield running


@pytest.fixture
def tiny(tmp_path: Path, server: Server) -> Tiny:
    tiny = Tiny(tmp_path / "costs")
    at = {"base_url": server.base_url, "model": "tiny", "api_key_env": None, "backoff": 0.0}
    prices = {"prompt_price": 1_000_000.0, "completion_price": 0.0}
    bm25 = {"type": "bm25", "chunking": "whole"}
    tiny.config |= {
        "llm": {"type": "openai", **at, **prices},
        "query_sets": {"pretended": {"strategy": "hyde"}},
        "retrievers": {
            "bm25": bm25,
            "hyde": {**bm25, "query_set": "pretended"},
            "vectors": {"type": "openai_embedding", "chunking": "whole", **at, "price": 500_000.0},
            "asked": {"type": "listwise", "input": "bm25", "candidates": 3, **at, **prices},
            "scored": {"type": "rerank_api", "input": "bm25", "candidates": 3, **at},
        },
        "top_k": [3],
        "metrics": ["mrr"],
        "primary": "mrr@3",
    }
    return tiny.write()


def rows_of(tiny: Tiny) -> dict[str, Row]:
    pipeline = tiny.pipeline()
    rows = latency_rows(evaluated(pipeline), pipeline.experiment, pipeline.experiment.retrievers)
    return {str(row["retriever"]): row for row in rows}


def told(row: Row) -> tuple[object, object, object]:
    return row["n_asked"], row["api_tokens"], row["api_cost"]


def test_tokens_and_money_of_every_kind_of_server(tiny: Tiny, server: Server) -> None:
    found = rows_of(tiny)
    paths = [request.path.rpartition("/")[2] for request in server.received]
    chats = [r.body["messages"][-1]["content"] for r in server.received if "messages" in r.body]
    orders = sum("[1]" in text for text in chats)
    written = len(chats) - orders
    n_words = 5  # of what the server writes; it counts 10 tokens for every request
    assert written == len(QUERIES)
    assert told(found["hyde"]) == (written, written * (10 + n_words), 10.0 * written)
    assert found["asked"]["n_asked"] == orders
    assert found["asked"]["api_cost"] == 10.0 * orders
    n_texts = len(DOCUMENTS) + len(QUERIES)  # the server counts a token a text
    assert told(found["vectors"]) == (n_texts, n_texts, 0.5 * n_texts)
    assert found["vectors"]["n_asked_before"] == 0
    assert paths.count("rerank") == len(QUERIES)
    assert found["scored"]["n_asked"] == sum(
        len(r.body["documents"]) for r in server.received if "documents" in r.body
    )
    assert found["scored"]["api_tokens"] is None, "this server does not tell"
    assert told(found["bm25"]) == (None, None, None)
    assert [name for name, row in found.items() if row["rerank_seconds"]] == ["asked", "scored"]


def test_prices_change_no_result(tiny: Tiny) -> None:
    tiny.run()
    tiny.configure("vectors", price=1.0)
    tiny.configure("asked", prompt_price=2.0)
    assert tiny.run() == set()


def test_what_is_known_is_not_paid_again(tiny: Tiny, server: Server) -> None:
    before = rows_of(tiny)
    tiny.replace("fares.md", "40 crowns", "42 crowns")
    after = rows_of(tiny)
    vectors = after["vectors"]
    assert (vectors["n_asked"], vectors["n_asked_before"]) == (
        1 + len(QUERIES),  # the queries were not embedded again: what that cost stands
        len(DOCUMENTS) - 1,
    )
    assert after["hyde"]["api_cost"] == before["hyde"]["api_cost"]
    assert after["scored"]["n_asked_before"]
    assert json.dumps(after)
