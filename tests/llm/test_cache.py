from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from rag_assets.errors import StoreError
from rag_assets.llm.client import ChatRequest, Completion, Message
from rag_assets.llm.completions import CompletionCache
from tests.llm.requests import asking

MODEL = {"model": "tiny", "server": "http://here/v1"}
ANSWER = Completion("4 \N{SNOWMAN}", 3, None, "stop")


def test_round_trip(tmp_path: Path) -> None:
    cache = CompletionCache(tmp_path / "answers")
    assert cache.get(MODEL, [asking("a")]) == [None]
    cache.put(MODEL, [])
    assert not list(tmp_path.iterdir())
    other = Completion("", None, 0, "refusal")
    cache.put(MODEL, [(asking("a"), ANSWER)])
    cache.put(MODEL, [(asking("b"), other)])
    for reader in (cache, CompletionCache(tmp_path / "answers")):
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
        ChatRequest((Message("user", "a"),), template="test/2"),
        ChatRequest((Message("system", "a"),), template="test/1"),
        ChatRequest((Message("user", "a"), Message("user", "")), template="test/1"),
    ],
)
def test_everything_that_determines_an_answer_is_in_its_key(
    tmp_path: Path, request_: ChatRequest
) -> None:
    cache = CompletionCache(tmp_path)
    cache.put(MODEL, [(asking("a"), ANSWER)])
    assert cache.get(MODEL, [request_]) == [None]
    assert cache.get({**MODEL, "model": "big"}, [asking("a")]) == [None]
    assert cache.get({**MODEL, "server": "http://there/v1"}, [asking("a")]) == [None]
    assert cache.get(MODEL, [asking("a", temperature=0)]) == [ANSWER]


def test_first_answer_stays(tmp_path: Path) -> None:
    CompletionCache(tmp_path).put(MODEL, [(asking("a"), ANSWER)])
    CompletionCache(tmp_path).put(MODEL, [(asking("a"), ANSWER._replace(text="5"))])
    assert CompletionCache(tmp_path).get(MODEL, [asking("a")]) == [ANSWER]
    assert len(list(tmp_path.iterdir())) == 1


def test_damaged_segment_is_asked_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    CompletionCache(tmp_path).put(MODEL, [(asking("a"), ANSWER)])
    (segment,) = tmp_path.iterdir()
    segment.write_bytes(segment.read_bytes()[:-20])
    cache = CompletionCache(tmp_path)
    assert cache.get(MODEL, [asking("a")]) == [None]
    assert "completion cache: segment" in caplog.text
    cache.put(MODEL, [(asking("a"), ANSWER)])
    assert cache.get(MODEL, [asking("a")]) == [ANSWER]


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        CompletionCache(tmp_path / "file" / "x").put(MODEL, [(asking("a"), ANSWER)])


def _write(folder: Path, writer: int) -> None:
    cache = CompletionCache(folder)
    for number in range(20):
        request = asking(f"q{number}")
        cache.put(MODEL, [(request, ANSWER._replace(text=str(writer)))])
        assert cache.get(MODEL, [request])[0] is not None


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(tmp_path, number)) for number in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    asked = [asking(f"q{number}") for number in range(20)]
    first = CompletionCache(tmp_path).get(MODEL, asked)
    assert all(first)
    assert CompletionCache(tmp_path).get(MODEL, asked) == first
