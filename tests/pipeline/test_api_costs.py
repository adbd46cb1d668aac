"""What servers counted and charged stands in the latency table, and in no fingerprint."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from rag_assets.analysis.charts import charts
from rag_assets.analysis.latency import latency_rows
from rag_assets.analysis.result import EvaluationResult
from rag_assets.engine.measurements import MEASUREMENTS, Measurements
from rag_assets.sheets.formats import Row
from rag_assets.store.artifacts import OBJECTS
from rag_assets.store.atomic import remove
from tests.llm.server import Received, Server, ordered, serving
from tests.shown_board import evaluated
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny

PAUSE = 60.0
"""Milliseconds that the language model takes to write."""


def write(text: str) -> str:
    return ordered(text) if "[1]" in text else "The answer in four words."


def write_slowly(text: str) -> str:
    time.sleep(PAUSE / 1000)
    return write(text)


def costly(root: Path, server: Server) -> Tiny:
    tiny = Tiny(root)
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


class First(NamedTuple):
    """The first evaluation, of which tests get copies, what it cost and what servers received."""

    tiny: Tiny
    rows: dict[str, Row]
    received: Sequence[Received]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[First]:
    with serving(write) as server:
        tiny = costly(tmp_path_factory.mktemp("costs") / "first", server)
        rows = rows_of(tiny)
        yield First(tiny, rows, tuple(server.received))


def rows_of(tiny: Tiny) -> dict[str, Row]:
    """What the latency table says, and what the last evaluation counted for each retriever."""
    pipeline = tiny.pipeline()
    result = evaluated(pipeline)
    rows = latency_rows(result, pipeline.experiment, pipeline.experiment.retrievers)
    counted = {name: asked(tiny, result, name) for name in pipeline.experiment.retrievers}
    return {str(row["retriever"]): {**row, **counted[str(row["retriever"])]} for row in rows}


def asked(tiny: Tiny, result: EvaluationResult, retriever: str) -> Row:
    find = Measurements(tiny.settings.store / MEASUREMENTS).find
    partitions = [{"retriever": retriever}, {"query_set": "pretended"}][: 1 + (retriever == "hyde")]
    prints = [
        entry.fingerprint
        for entry in result.evaluation.entries
        if any(part.items() <= dict(entry.partition).items() for part in partitions)
    ]
    new, old = (
        [m for f in prints for what in ("ask", "embed") if (m := find(what, f, cached=cached))]
        for cached in (False, True)
    )
    counted = [one for one in new if one["what"] == "ask" or one["tokens"] is not None]
    tokens = [one["tokens"] for one in counted if one["tokens"] is not None]
    costs = [one["cost"] for one in counted if one["cost"] is not None]
    return {
        "n_asked": sum(one["amount"] for one in counted) if counted else None,
        "n_asked_before": sum(one["amount"] for one in old),
        "api_tokens": sum(tokens) if tokens else None,
        "api_cost": sum(costs) if costs else None,
    }


def told(row: Row) -> tuple[object, object, object]:
    return row["n_asked"], row["api_tokens"], row["api_cost"]


def test_tokens_and_money_of_every_kind_of_server(first: First) -> None:
    found, received = first.rows, first.received
    paths = [request.path.rpartition("/")[2] for request in received]
    chats = [r.body["messages"][-1]["content"] for r in received if "messages" in r.body]
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
        len(r.body["documents"]) for r in received if "documents" in r.body
    )
    assert found["scored"]["api_tokens"] is None, "this server does not tell"
    assert told(found["bm25"]) == (None, None, None)


def test_latency_and_cost_of_a_query_count_what_servers_take(tmp_path: Path) -> None:
    """A model that is slow and dear makes no fast and cheap retriever."""
    with serving(write_slowly) as server:
        tiny = costly(tmp_path / "slow", server)
        del tiny.config["measurements"]
        tiny.config["retrievers"] |= {
            "both": {"type": "rrf", "inputs": ["hyde", "hyde2"]},
            "hyde2": {"type": "bm25", "chunking": "parts", "query_set": "pretended"},
        }
        tiny.write_config()
        result = evaluated(tiny.pipeline())
    experiment = tiny.pipeline().experiment
    found = {
        str(row["retriever"]): row
        for row in latency_rows(result, experiment, experiment.retrievers)
    }
    p50 = {name: float(str(row["p50_ms"])) for name, row in found.items()}
    assert p50["bm25"] < PAUSE < min(p50["hyde"], p50["asked"])
    assert PAUSE < p50["both"] < 2 * PAUSE, "the query set is written once for both"
    assert p50["scored"] > p50["bm25"]
    costs = {name: row["query_cost"] for name, row in found.items()}
    assert costs == {
        "bm25": 0.0,
        "hyde": 10.0,
        "hyde2": 10.0,
        "both": 10.0,
        "vectors": 0.5,
        "asked": pytest.approx(10.0 * 5 / 6),  # one query has a single candidate: nothing to ask
        "scored": None,  # this server does not tell what it charged
    }
    assert found["hyde"]["queries_per_second"] is None
    chart = charts(result)
    assert chart is not None
    assert not {"hyde", "hyde2", "both", "asked"} & set(chart["front"][:1])


def test_times_of_answers_are_kept_with_them(first: First, tmp_path: Path) -> None:
    """Where only the caches are left, nothing is asked again, and what answers took is known."""
    tiny = first.tiny.copy_to(tmp_path / "copy")
    for name in (OBJECTS, MEASUREMENTS):
        remove(tiny.settings.store / name)
    second = rows_of(tiny)
    for name in ("hyde", "asked"):
        assert second[name]["n_asked"] == 0
        assert second[name]["p50_ms"] is not None
        assert second[name]["query_cost"] == first.rows[name]["query_cost"]
    for name in ("vectors", "scored"):
        assert (second[name]["p50_ms"], second[name]["query_cost"]) == (None, None)
        assert first.rows[name]["p50_ms"] is not None


def test_what_is_known_is_not_paid_again(first: First, tmp_path: Path) -> None:
    tiny = first.tiny.copy_to(tmp_path / "copy")
    tiny.replace("fares.md", "40 crowns", "42 crowns")
    after = rows_of(tiny)
    vectors = after["vectors"]
    assert (vectors["n_asked"], vectors["n_asked_before"]) == (
        1 + len(QUERIES),  # the queries were not embedded again: what that cost stands
        len(DOCUMENTS) - 1,
    )
    assert after["hyde"]["api_cost"] == first.rows["hyde"]["api_cost"]
    assert after["scored"]["n_asked_before"]
    assert json.dumps(after)
