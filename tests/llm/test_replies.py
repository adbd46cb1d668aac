"""The store of replies, also when it is killed."""

from __future__ import annotations

import hashlib
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from rag_assets.cli.main import main
from rag_assets.llm.client import ChatRequest, Completion, Message
from rag_assets.llm.replies import ReplyStore, read_journal
from rag_assets.store.canonical import canonical_json
from rag_assets.store.content_cache import SegmentHits
from tests.llm.asking_child import answer_all
from tests.llm.requests import asking, store_replies
from tests.llm.server import Server, serving

MODEL = {"model": "tiny", "server": "http://here/v1"}
ANSWER = Completion("4 \N{SNOWMAN}\r\x85\n", 3, None, "stop", 0.5, "tiny-2", "2026-01-02T03:04:05Z")


def journal_left(folder: Path, *replies: tuple[ChatRequest, Completion]) -> Path:
    with ReplyStore(folder).journal(MODEL) as journal:
        for request, reply in replies:
            journal.add(request, reply)
        content = journal.path.read_bytes()
        left = journal.path.with_name(f"{journal.path.stem}-left.jsonl")
    for segment in folder.glob("*.parquet"):
        segment.unlink()
    left.write_bytes(content)
    return left


def test_round_trip(tmp_path: Path) -> None:
    store = ReplyStore(tmp_path / "answers")
    assert store.get(MODEL, [asking("a")]) == [None]
    store_replies(store.folder, MODEL, [])
    assert not list(tmp_path.iterdir())
    other = Completion("", None, 0, "refusal")
    store_replies(store.folder, MODEL, [(asking("a"), ANSWER)])
    store_replies(store.folder, MODEL, [(asking("b"), other)])
    for reader in (store, ReplyStore(tmp_path / "answers")):
        found = reader.get(MODEL, [asking("b"), asking("c"), asking("a"), asking("b")])
        assert found == [other, None, ANSWER, other]


@pytest.mark.parametrize(
    "request_",
    [
        asking("b"),
        asking("a", temperature=0.1),
        asking("a", temperature=None),
        asking("a", seed=1),
        asking("a", seed=None),
        asking("a", max_tokens=9),
        asking("a", sample=1),
        ChatRequest((Message("system", "a"),), template="test/1"),
        ChatRequest((Message("user", "a"), Message("user", "")), template="test/1"),
    ],
)
def test_everything_that_is_asked_is_in_the_address(tmp_path: Path, request_: ChatRequest) -> None:
    store = ReplyStore(tmp_path)
    store_replies(tmp_path, MODEL, [(asking("a"), ANSWER)])
    assert store.get(MODEL, [request_]) == [None]
    assert store.get({**MODEL, "model": "big"}, [asking("a")]) == [None]
    assert store.get({**MODEL, "server": "http://there/v1"}, [asking("a")]) == [None]
    assert store.get(MODEL, [asking("a", temperature=0)]) == [ANSWER]
    # The name of the prompt is not sent, so the same question under another one is the same.
    assert store.get(MODEL, [ChatRequest((Message("user", "a"),))]) == [ANSWER]


def test_replies_of_older_versions_are_read(tmp_path: Path) -> None:
    content = {**asking("a").content(), "template": "test/1"}
    del content["sample"]
    text = canonical_json({"model": MODEL, "request": content})
    row = {"request": text, "text": "old", "prompt_tokens": 1, "completion_tokens": None}
    table = pa.table(
        {
            "key": pa.array([hashlib.sha256(text.encode()).digest()], pa.binary(32)),
            **{name: pa.array([value]) for name, value in row.items() if value is not None},
            "completion_tokens": pa.array([None], pa.int64()),
            "finish_reason": pa.array(["stop"]),
        }
    )
    pq.write_table(table, tmp_path / "00000000000000000001-0123456789ab.parquet")
    store = ReplyStore(tmp_path)
    old = Completion("old", 1, None, "stop")
    other_prompt = ChatRequest((Message("user", "a"),), template="test/2")
    asked = [asking("a"), asking("a", sample=1), other_prompt]
    assert store.get(MODEL, asked) == [old, None, None]
    assert store.served_models(MODEL) == []


def test_a_reply_is_there_before_its_writer_ends(tmp_path: Path) -> None:
    reader = ReplyStore(tmp_path)
    with ReplyStore(tmp_path).journal(MODEL) as journal:
        for text in "ab":
            journal.add(asking(text), ANSWER)
            assert reader.get(MODEL, [asking(text)]) == [ANSWER]
    assert reader.get(MODEL, [asking("a"), asking("b")]) == [ANSWER, ANSWER]
    assert [path.suffix for path in tmp_path.iterdir()] == [".parquet"]


def test_a_journal_that_becomes_a_segment_meanwhile_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = journal_left(tmp_path, (asking("a"), ANSWER))
    reader = ReplyStore(tmp_path)
    find = reader._cache.find

    def late(keys: pa.Array, columns: Sequence[str] = ()) -> Iterator[SegmentHits]:
        hits = list(find(keys, columns))  # as the folder was
        ReplyStore(tmp_path).settle()
        return iter(hits)

    monkeypatch.setattr(reader._cache, "find", late)
    assert reader.get(MODEL, [asking("a")]) == [ANSWER]
    assert not left.exists()


def test_a_torn_tail_is_dropped(tmp_path: Path) -> None:
    left = journal_left(tmp_path, (asking("a"), ANSWER), (asking("b"), ANSWER))
    content = left.read_bytes()
    first = content.index(b"\n") + 1
    generator = random.Random(7)
    for cut in [0, first - 1, first, len(content) - 1, *generator.sample(range(len(content)), 20)]:
        left.write_bytes(content[:cut])
        whole = content[:cut].count(b"\n")
        assert len(list(read_journal(left))) == whole
        assert ReplyStore(tmp_path).get(MODEL, [asking("a"), asking("b")]) == [
            ANSWER if whole > place else None for place in (0, 1)
        ]


def test_a_damaged_line_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    left = journal_left(tmp_path, (asking("a"), ANSWER), (asking("b"), ANSWER))
    lines = left.read_bytes().splitlines(keepends=True)
    for broken in (b"nonsense\n", b'{"request": "x"}\n', lines[0].replace(b'"stop"', b"7")):
        left.write_bytes(broken + lines[1])
        assert ReplyStore(tmp_path).get(MODEL, [asking("a"), asking("b")]) == [None, ANSWER]
        assert f"{left}:1 is damaged and left out" in caplog.text


def test_what_killed_processes_left_is_settled(tmp_path: Path) -> None:
    folder = tmp_path / "store" / "cache" / "completions"
    folder.mkdir(parents=True)
    journal_left(folder, (asking("a"), ANSWER), (asking("b"), ANSWER))
    variables = {"RAG_ASSETS_STORE": str(tmp_path / "store")}
    for last, suffix in ((), ".jsonl"), (("--yes",), ".parquet"):
        done = CliRunner(env=variables).invoke(main, ["clean", "--orphans", *last])
        assert done.exit_code == 0, done.output
        assert [path.suffix for path in folder.iterdir()] == [suffix]
        assert ReplyStore(folder).get(MODEL, [asking("a"), asking("b")]) == [ANSWER, ANSWER]


def test_the_name_of_the_served_model(tmp_path: Path) -> None:
    def served(number: int, name: str | None) -> tuple[ChatRequest, Completion]:
        reply = ANSWER._replace(served_model=name, time=f"2026-01-0{number}T00:00:00Z")
        return asking(f"q{number}"), reply

    store_replies(tmp_path, MODEL, [served(2, "tiny-1"), served(1, "tiny-1"), served(3, None)])
    store = ReplyStore(tmp_path)
    assert store.served_models(MODEL) == ["tiny-1"]
    store_replies(tmp_path, {**MODEL, "model": "tiny-big"}, [served(4, "another")])
    assert store.served_models(MODEL) == ["tiny-1"]
    with store.journal(MODEL) as journal:
        journal.add(*served(5, "tiny-0"))
        assert store.served_models(MODEL) == ["tiny-1", "tiny-0"]


KILLS, REQUESTS, CONCURRENCY = 50, 400, 4
SLOW = 0.005
"""Seconds for an answer, so that kills meet requests on their way."""


def child(server: Server, folder: Path) -> ForkServerProcess:
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
    process.join(60)
    assert process.exitcode == 0
    return folder.with_suffix(f".{process.pid}").read_text()


def stored(folder: Path, server: Server) -> set[str]:
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
