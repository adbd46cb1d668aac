"""``type: python``: a user's own code, its frameworks and its version."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from rag_assets.called.hits import Hit
from rag_assets.errors import UsageError
from rag_assets.retrieval.external.base import QueryResult
from rag_assets.retrieval.external.python import PythonRetriever
from rag_assets.retrieval.workspace import NO_WORKSPACE
from rag_assets.servers.client import MAX_UNSERVED

QUERIES = ["one", "two", "three"]


class Asked:
    """Asks code that stands in a file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "search.py"

    def __call__(self, code: str, name: str = "f", k: int = 2, **options: Any) -> list[QueryResult]:
        self.file.write_text(code, encoding="utf-8")
        config = PythonRetriever(type="python", call=f"{self.file}:{name}", **options)
        with config.opened(NO_WORKSPACE) as ask:
            return list(ask(QUERIES, k))

    def ids(self, *given: Any, **options: Any) -> list[list[str | None]]:
        results = self(*given, **options)
        assert [result.error for result in results] == [None] * 3
        return [[hit.id for hit in result.hits] for result in results]


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


TWO = [["one", "2"], ["two", "2"], ["three", "2"]]


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("def f(query, k):\n    return [query, str(k), 'cut']", {}),
        ("def f(query):\n    return [query, '2']", {}),
        ("async def f(query, k):\n    return [query, str(k)]", {}),
        ("def f(query, k, *, end):\n    return [query, end]", {"options": {"end": "2"}}),
        ("class f:\n    def __call__(self, query, k):\n        return [query, str(k)]", {}),
        (
            "class f:\n    def __init__(self, end):\n        self.end = end\n"
            "    def retrieve(self, query):\n        return [query, self.end]",
            {"options": {"end": "2"}},
        ),
        (
            "def f(*, end='2'):\n    def search(query, k):\n        return [query, end]\n"
            "    return search",
            {},
        ),
        ("class C:\n    async def invoke(self, query):\n        return [query, '2']\nf = C()", {}),
        (
            "class C:\n    def run(self, query, top_k):\n"
            "        return {'documents': [query, str(top_k)]}\nf = C()",
            {},
        ),
        (
            "class C:\n    def warm_up(self):\n        self.end = '2'\n"
            "    def run(self, query):\n        return {'documents': [query, self.end]}\nf = C()",
            {},
        ),
    ],
)
def test_functions_objects_classes_and_factories_are_asked(
    asked: Asked, code: str, options: dict[str, Any]
) -> None:
    assert asked.ids(code, **options) == TWO


def test_a_dotted_name_is_a_method(asked: Asked) -> None:
    code = "class C:\n    def find(self, query, k):\n        return [query, str(k)]\nc = C()"
    assert asked.ids(code, name="c.find") == TWO


@pytest.mark.parametrize(
    ("code", "k_of"),
    [
        (
            "class C:\n    search_kwargs = {'k': 4, 'x': 1}\n    def invoke(self, query):\n"
            "        return [str(self.search_kwargs)]\nf = C()",
            "{'k': 2, 'x': 1}",
        ),
        (
            "class C:\n    k = 4\n    def invoke(self, _):\n        return [str(self.k)]\nf = C()",
            "2",
        ),
        (
            "class C:\n    similarity_top_k = 4\n    def retrieve(self, query):\n"
            "        return [str(self.similarity_top_k)]\nf = C()",
            "2",
        ),
        (
            "import pydantic\nclass C(pydantic.BaseModel):\n    k: int = 4\n"
            "    def invoke(self, _):\n        return [str(self.k)]\nf = C()",
            "2",
        ),
    ],
)
def test_an_object_is_asked_for_k_where_it_has_a_place_for_it(
    asked: Asked, code: str, k_of: str
) -> None:
    assert asked.ids(code) == [[k_of]] * 3


HOSTILE = """
import asyncio, itertools, time
class Odd(BaseException): pass
class Mute(Exception):
    def __str__(self): raise Odd("of the message")
class Meta:
    def __getattr__(self, name): raise Odd(name)
def endless():
    while True: time.sleep(0.01); yield from ()
def f(query, k):
    if query != "two": return [query]
    {hostile}
"""


@pytest.mark.parametrize(
    ("hostile", "problem"),
    [
        ("raise ValueError('no\\nsuch index')", "ValueError: no such index"),
        ("return 5", "returned 5, not a list of hits"),
        ("return [('d', 0, 10**30)]", "it must be a whole number from 0, below 2**31"),
        ("return [('d', 0, 10**9999)]", "ValueError: Exceeds the limit"),
        ("return [('d', True, 2)]", "hit 1: `start` is true; it must be a whole number"),
        ("raise Mute", "Mute: its message cannot be read"),
        ("raise Odd('x')", "Odd: x"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt:"),
        ("raise TimeoutError('of the server')", "TimeoutError: of the server"),
        ("return (exec('raise SystemExit(3)') for _ in 'ab')", "SystemExit: 3"),
        ("return [Meta()]", "Odd:"),
        ("return [{'text': 50_000_000 * 'x'}]", "must be a text of at most 10,000,000 ch"),
        ("return [{50_000 * 'x': 1}]", "hit 1 has the key 'xxx"),
        ("return endless()", "no answer within 1 s"),
    ],
)
def test_hostile_code_fails_its_query_only(asked: Asked, hostile: str, problem: str) -> None:
    seconds = 1 if "within 1 s" in problem else 60  # a busy machine is no reason to fail
    results = asked(HOSTILE.replace("{hostile}", hostile), timeout=seconds)
    assert problem in str(results[1].error)
    assert len(str(results[1].error)) < 1000
    assert [one.error for one in results if one is not results[1]] == [None, None]
    assert results[0].seconds is not None


def test_a_coroutine_that_exits_leaves_the_event_loop_to_the_others(asked: Asked) -> None:
    code = "async def f(query, k):\n    if query == 'two': raise SystemExit(3)\n    return [query]"
    assert [one.error for one in asked(code)] == [None, "SystemExit: 3", None]


def test_a_call_that_is_late_fails_and_the_next_is_asked(asked: Asked) -> None:
    code = (
        "import time\ndef f(query, k):\n    time.sleep(30 if query == 'one' else 0)\n"
        "    return [query]"
    )
    began = time.monotonic()
    first, second, third = asked(code, timeout=1)
    assert first == QueryResult(error="no answer within 1 s")
    assert [one.hits for one in (second, third)] == [[Hit("two")], [Hit("three")]]
    assert time.monotonic() - began < 20


def test_after_some_late_calls_the_others_are_not_made(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    code = (
        f"import time\ndef f(query, k):\n    with open({str(log)!r}, 'a') as log:\n"
        "        log.write(query)\n    time.sleep(30)"
    )
    (tmp_path / "search.py").write_text(code, encoding="utf-8")
    config = PythonRetriever(type="python", call=f"{tmp_path}/search.py:f", timeout=0.1)
    with config.opened(NO_WORKSPACE) as ask:
        errors = [str(result.error) for result in ask([*"abcdefghij"], 1)]
    assert log.read_text(encoding="utf-8") == "abcdefghij"[:MAX_UNSERVED]
    assert errors[:MAX_UNSERVED] == ["no answer within 0.1 s"] * MAX_UNSERVED
    assert all(
        error.startswith("not asked: 8 requests in a row") for error in errors[MAX_UNSERVED:]
    )


def test_as_many_are_asked_at_once_as_is_said_and_the_order_stays(asked: Asked) -> None:
    code = (
        "import threading\ntogether = threading.Barrier(3, timeout=20)\n"
        "def f(query, k):\n    together.wait()\n    return [query]"
    )
    assert asked.ids(code, concurrency=3) == [["one"], ["two"], ["three"]]


def test_coroutines_share_one_event_loop(asked: Asked) -> None:
    code = (
        "import asyncio\nasync def f(query, k):\n    return [str(id(asyncio.get_running_loop()))]"
    )
    assert len({str(ids) for ids in asked.ids(code, concurrency=3)}) == 1
    assert asyncio._get_running_loop() is None


def test_with_one_call_at_a_time_the_thread_that_loads_is_the_one_that_asks(asked: Asked) -> None:
    code = (
        "import threading\nLOADED = threading.get_ident()\n"
        "def f(query, k):\n    return [str(threading.get_ident() == LOADED)]"
    )
    assert asked.ids(code) == [["True"]] * 3


@pytest.mark.parametrize(
    ("code", "options", "problem"),
    [
        ("f = 17", {}, "is a int that cannot be called with (query, k), nor has"),
        (
            "def f(query, k):\n    pass",
            {"options": {"x": 1}},
            "cannot be called with (query, k, x=)",
        ),
        ("class f:\n    pass", {"options": {"x": 1}}, "loaded: TypeError: f() takes no argu"),
        ("raise KeyboardInterrupt('x')", {}, "cannot be loaded: KeyboardInterrupt: x"),
        ("def f(:", {}, "cannot be loaded: SyntaxError"),
        ("g = 1", {}, "has no attribute 'f'"),
        (
            "class C:\n    def __getattr__(self, name): raise BaseException(name)\nf = C()",
            {},
            "cannot be loaded: BaseException: invoke",
        ),
        (
            "class C:\n    def invoke(self, query):\n        pass\nf = C()",
            {"options": {"a": 1}},
            "is an object with `invoke`, which takes no `options`",
        ),
        (
            "class C:\n    def run(self, query_embedding, top_k):\n        pass\nf = C()",
            {},
            "its `run` has no parameter `query`, only query_embedding, top_k; write a function",
        ),
    ],
)
def test_what_cannot_be_asked_stops_everything(
    asked: Asked, code: str, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UsageError) as raised:
        asked(code, **options)
    assert problem in str(raised.value)
