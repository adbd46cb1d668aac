"""Evaluations that ask a server are killed at any moment: no stored reply is asked for again.

``RAG_ASSETS_CRASHES`` is how often one is killed; 50 is a test for a person who waits.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from rag_assets.llm.client import ChatRequest, Message
from rag_assets.llm.replies import ReplyStore
from rag_assets.pipeline.evaluations import read_current
from tests.answers.answering import with_answers
from tests.cli.test_crashes import check_nothing_is_corrupt, content_of
from tests.forked import Forks, Place
from tests.llm.server import Received, Server, serving
from tests.tiny_experiment import QUERIES, Tiny

CRASHES = int(os.environ.get("RAG_ASSETS_CRASHES", "2"))
SEED = int(os.environ.get("RAG_ASSETS_CRASH_SEED", "0"))
MOST_IN_A_ROW = 5
CONCURRENCY = 4
SLOW = 0.02
"""Seconds for an answer, so that kills meet requests on their way."""
PATIENCE = 60.0
"""Seconds after which an evaluation that does not ask is killed all the same."""


class Undisturbed(NamedTuple):
    """An evaluation that ran to its end: how long it took and what it asked."""

    tiny: Tiny
    content: str
    seconds: float
    requests: frozenset[ChatRequest]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(lambda text: f"{len(text)} crowns [1]\n##final score: {len(text) % 2}") as one:
        proper = one.reply
        one.reply = lambda request: replace(proper(request), hang=SLOW)  # type: ignore[method-assign]
        yield one


@pytest.fixture(scope="module")
def undisturbed(
    forks: Forks, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Undisturbed:
    tiny = Tiny(tmp_path_factory.mktemp("answer_crashes") / "undisturbed").write()
    tiny.config |= {"retrievers": {"bm25": tiny.config["retrievers"]["bm25"]}, "top_k": [1, 3]}
    tiny.config |= {"metrics": ["ndcg"], "primary": "ndcg@3"}
    model = {"base_url": server.base_url, "model": "near", "api_key_env": None}
    with_answers(
        tiny,
        llms={"near": {**model, "concurrency": CONCURRENCY}},
        generators={"writer": {"type": "llm", "llm": "near"}},
        answers={
            "plain": {"generator": "writer", "retriever": "bm25"},
            "gold": {"generator": "writer", "context": "gold", "chunking": "parts"},
        },
        judges={"strict": {"type": "llm", "llm": "near", "depth": 1}},
    )
    more = [
        {**row, "query_id": f"{row['query_id']}-{n}", "text": f"{row['text']}, case {n}"}
        for row in QUERIES
        for n in range(3)
    ]
    tiny.write_rows("queries.jsonl", [{**row, "answers": ["40 crowns"]} for row in QUERIES + more])
    started = time.perf_counter()
    assert evaluate(forks, tiny) == 0, (tiny.root / "log").read_text()
    seconds = time.perf_counter() - started
    requests = [request_of(one) for one in server.received]
    assert len(set(requests)) == len(requests) > 50
    return Undisturbed(tiny, read_current(tiny.artifacts).content, seconds, frozenset(requests))


def request_of(received: Received) -> ChatRequest:
    body = received.body
    messages = tuple(Message(one["role"], one["content"]) for one in body["messages"])
    return ChatRequest(messages, body["temperature"], body["seed"], body["max_tokens"])


def stored(tiny: Tiny, requests: frozenset[ChatRequest]) -> set[ChatRequest]:
    model = tiny.pipeline().experiment.language_model("near")
    assert model is not None
    folder = tiny.root / "store" / "cache" / "completions"
    asked = list(requests)
    replies = ReplyStore(folder).get(model.identity(), asked)
    return {one for one, reply in zip(asked, replies, strict=True) if reply is not None}


def evaluate(forks: Forks, tiny: Tiny) -> int:
    return forks.wait(start(forks, tiny))


def start(forks: Forks, tiny: Tiny) -> int:
    store = str(tiny.root / "store")
    return forks.start(tiny.root / "log", "evaluate", str(tiny.folder), "--store", store)


def kill(forks: Forks, server: Server, tiny: Tiny, chance: random.Random, run: Undisturbed) -> bool:
    """Kill an evaluation at any moment, mostly one at which it asks; return whether it worked."""
    open_requests = len(run.requests) - len(stored(tiny, run.requests))
    before = len(server.received)
    process = start(forks, tiny)
    if open_requests and chance.random() < 0.8:
        after, patience = before + chance.randint(1, open_requests), time.monotonic() + PATIENCE
        while len(server.received) < after and time.monotonic() < patience:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 2 * SLOW))
    else:
        time.sleep(chance.uniform(0, run.seconds))
    forks.kill(process)
    killed = forks.wait(process) < 0
    time.sleep(2 * SLOW)  # what the server got is answered, into nothing
    return killed


@pytest.mark.slow
def test_no_stored_reply_is_asked_for_again(
    forks: Forks, server: Server, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    n_killed, n_asking = 0, 0
    while n_killed < CRASHES or not n_asking:
        in_a_row = chance.randint(1, MOST_IN_A_ROW)
        tiny = Tiny(tmp_path / f"killed-{n_killed}", undisturbed.tiny.config)
        shutil.copytree(undisturbed.tiny.folder, tiny.folder)
        first = len(server.received)
        for _ in range(in_a_row):
            known, before = stored(tiny, undisturbed.requests), len(server.received)
            n_killed += kill(forks, server, tiny, chance, undisturbed)
            sent = [request_of(one) for one in server.received[before:]]
            known_then = stored(tiny, undisturbed.requests)
            assert known.isdisjoint(sent)
            assert len(set(sent)) == len(sent)
            assert len(set(sent) - known_then) <= CONCURRENCY
            n_asking += bool(sent) and known_then < undisturbed.requests
            check_nothing_is_corrupt(tiny)
        assert evaluate(forks, tiny) == 0, (tiny.root / "log").read_text()
        asked = Counter(request_of(one) for one in server.received[first:])
        assert asked.keys() == undisturbed.requests
        assert asked.total() - len(asked) <= CONCURRENCY * in_a_row
        assert read_current(tiny.artifacts).content == undisturbed.content
        assert content_of(tiny) == content_of(undisturbed.tiny)
        shutil.rmtree(tiny.root)


COMPUTED = re.compile(r"computed (.+): \d+ rows")


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [False, True])
def test_two_evaluations_at_once_ask_and_compute_everything_once(
    forks: Forks, server: Server, undisturbed: Undisturbed, tmp_path: Path, is_killed: bool
) -> None:
    """Both begin cold; or one is killed before it writes its answers, for which the other waits."""
    tiny = Tiny(tmp_path / "both", undisturbed.tiny.config)
    shutil.copytree(undisturbed.tiny.folder, tiny.folder)
    before, logs = len(server.received), [tiny.root / "first.log", tiny.root / "second.log"]
    words = ("-v", "evaluate", str(tiny.folder), "--store", str(tiny.root / "store"))
    place = Place(
        str(logs[0]), killed_at=0 if is_killed else None, counted_from="/objects/answers/"
    )
    first = forks.start(place, *words)
    patience = time.monotonic() + PATIENCE
    while is_killed and len(server.received) == before and time.monotonic() < patience:
        time.sleep(0.001)  # what asks for answers holds the lock of their partition
    second = forks.start(logs[1], *words)
    codes = [forks.wait(first), forks.wait(second)]
    printed = "\n".join(log.read_text(encoding="utf-8") for log in logs)
    assert codes == [-signal.SIGKILL if is_killed else 0, 0], printed
    asked = Counter(request_of(one) for one in server.received[before:])
    assert asked.keys() == undisturbed.requests
    assert asked.total() - len(asked) <= CONCURRENCY * is_killed
    computed = Counter(COMPUTED.findall(printed))
    partitions = {(one.asset, one.fingerprint) for one in read_current(tiny.artifacts).entries}
    assert len(computed) == len(partitions)  # equal ones are computed as one
    assert set(computed.values()) == {1}
    assert read_current(tiny.artifacts).content == undisturbed.content
