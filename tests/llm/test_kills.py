"""A process that asks is killed at random moments: no stored reply is asked for again."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from rag_assets.llm.replies import ReplyStore
from tests.llm.asking_child import answer_all
from tests.llm.requests import asking
from tests.llm.server import Server, serving

KILLS, REQUESTS, CONCURRENCY = 50, 400, 4
SLOW = 0.005
"""Seconds for an answer, so that kills meet requests on their way."""


def child(server: Server, folder: Path) -> ForkServerProcess:
    """Start a process that asks; its modules are loaded once for all of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.llm.asking_child"])
    process = context.Process(target=answer_all, args=(server.base_url, folder, REQUESTS))
    process.start()
    return process


def killed_after(
    process: ForkServerProcess, server: Server, requests: int, wait: float
) -> int | None:
    """Kill the process a moment after the server got so many requests; return its exit code."""
    while len(server.received) < requests and process.is_alive():
        time.sleep(0.001)
    time.sleep(wait)
    process.kill()
    process.join()
    return process.exitcode


def output(process: ForkServerProcess, folder: Path) -> str:
    """Return what a process made of its answers."""
    process.join(60)
    assert process.exitcode == 0
    return folder.with_suffix(f".{process.pid}").read_text()


def stored(folder: Path, server: Server) -> set[str]:
    """Return the texts of the requests whose reply is stored."""
    asked = [asking(f"q{i}.") for i in range(REQUESTS)]
    known = ReplyStore(folder).get({"model": "tiny", "server": server.base_url}, asked)
    return {one.messages[0].content for one, reply in zip(asked, known, strict=True) if reply}


@pytest.mark.slow
def test_fifty_kills(tmp_path: Path) -> None:
    generator = random.Random(23)
    with serving(lambda text: f"answer to: {text}") as server:
        real = server.reply
        server.reply = lambda request: replace(real(request), hang=SLOW)  # type: ignore[method-assign]
        folder = tmp_path / "killed"
        codes = []
        for _ in range(KILLS):
            done = stored(folder, server)
            before = len(server.received)
            process = child(server, folder)
            more = before + generator.randint(1, 8)
            codes.append(killed_after(process, server, more, generator.uniform(0, 2 * SLOW)))
            time.sleep(2 * SLOW)  # what the server got is answered, into nothing
            sent = [request.text for request in server.received[before:]]
            assert done.isdisjoint(sent)
            assert len(set(sent) - stored(folder, server)) <= CONCURRENCY
            assert len(sent) == len(set(sent))
        assert codes == [-9] * KILLS
        last = output(child(server, folder), folder)
        sent_in_all = Counter(request.text for request in server.received)
        assert len(sent_in_all) == REQUESTS
        assert sum(sent_in_all.values()) - REQUESTS <= CONCURRENCY * KILLS
        before = len(server.received)
        assert last == answer_all(server.base_url, folder, REQUESTS)
        assert len(server.received) == before
        assert last == answer_all(server.base_url, tmp_path / "undisturbed", REQUESTS)


@pytest.mark.slow
def test_two_processes_at_once(tmp_path: Path) -> None:
    with serving(lambda text: f"answer to: {text}") as server:
        folder = tmp_path / "shared"
        processes = [child(server, folder), child(server, folder)]
        first, second = (output(process, folder) for process in processes)
        assert first == second
        before = len(server.received)
        assert REQUESTS <= before <= 2 * REQUESTS
        assert answer_all(server.base_url, folder, REQUESTS) == first
        assert len(server.received) == before
