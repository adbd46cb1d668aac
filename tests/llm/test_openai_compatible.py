from __future__ import annotations

import logging
import sys

import pytest

from rag_assets.errors import UsageError
from rag_assets.llm.client import LENGTH, REFUSAL, STOP, Completion
from rag_assets.llm.endpoint import Endpoint, endpoint_from_environment
from rag_assets.llm.openai_server import OpenAICompatible
from tests.llm import server as replies
from tests.llm.requests import answers_of, asking, completion, endpoint, failure, model, untimed
from tests.llm.server import Server


def test_body_holds_what_determines_the_answer(server: Server) -> None:
    model(server).answer(asking("a", temperature=0.5, seed=7, max_tokens=33))
    model(server).answer(asking("b", temperature=None, seed=None))
    first, second = (request.body for request in server.received)
    assert first == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "a"}],
        "temperature": 0.5,
        "seed": 7,
        "max_tokens": 33,
    }
    assert second.keys() == {"model", "messages", "max_tokens"}


def test_retries_until_it_is_served(server: Server) -> None:
    trouble = [replies.rate_limited(), replies.error(500), replies.error(503)]
    server.on("x", *trouble, replies.half_answer(), replies.says("at last"))
    assert completion(model(server).answer(asking("x"))).text == "at last"
    assert len(server.received) == 5


def test_a_server_that_wants_to_be_left_alone_is_so_by_all(server: Server) -> None:
    server.on("x", replies.rate_limited("30"), replies.says("fine"))
    server.on("z", replies.error(503), replies.says("fine"))
    waits: list[float] = []
    chat = OpenAICompatible(endpoint(server, backoff=0.0), sleep=waits.append)
    chat.answer(asking("z"))
    assert waits == [0.0]  # a server that says nothing is not waited for by others
    chat.answer(asking("y"))
    chat.answer(asking("x"))
    chat.answer(asking("y again"))
    assert waits[:2] == [0.0, 30.0]
    assert 0 < waits[2] <= 30
    assert len(waits) == 3


def test_too_long_a_wait_is_a_failure(server: Server) -> None:
    server.on("x", replies.rate_limited("86400"))
    found = failure(model(server).answer(asking("x")))
    assert found.kind == "transient"
    assert "86400" in found.reason
    assert len(server.received) == 1


def test_time_out(server: Server) -> None:
    server.on("slow", replies.hangs(), replies.hangs())
    answers = answers_of(model(server, timeout=0.2, retries=1), [asking("slow"), asking("fast")])
    assert failure(answers[0]) == ("no answer within 0.2 s", "transient", True)
    assert completion(answers[1]).text == "answer to: fast"


@pytest.mark.parametrize("status", [400, 413, 422])
def test_wrong_requests_are_not_repeated(server: Server, status: int) -> None:
    server.on("x", replies.error(status, "too many tokens"))
    found = failure(model(server).answer(asking("x")))
    assert found == (f"HTTP {status}: too many tokens", "answer", False)
    assert len(server.received) == 1


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_endpoint(server: Server, status: int) -> None:
    server.on("x", replies.error(status, "no"))
    found = failure(model(server).answer(asking("x")))
    assert found.kind == "endpoint"
    assert server.base_url in found.reason
    assert "'tiny'" in found.reason
    assert len(server.received) == 1


@pytest.mark.parametrize(
    "reply",
    [
        replies.broken_json(),
        replies.no_choices(),
        replies.page(),
        replies.says(None),
        replies.json_reply([]),
        replies.json_reply({"choices": None}),
        replies.json_reply({"choices": [None]}),
        replies.json_reply({"choices": [{"message": None}]}),
        replies.json_reply({"choices": [{"message": {"content": ["a"]}}]}),
        replies.json_reply({"error": {"message": "inside a 200"}}),
    ],
)
def test_bad_answers_are_failures(server: Server, reply: replies.Reply) -> None:
    server.on("bad", reply)
    answers = answers_of(model(server), [asking("bad"), asking("good")])
    found = failure(answers[0])
    assert found.kind == "answer"
    assert found.maybe_paid
    assert "\n" not in found.reason
    assert completion(answers[1]).text == "answer to: good"


def test_half_answers_and_refusals_are_answers(server: Server) -> None:
    server.on("long", replies.cut_off("only the beg"))
    server.on("evil", replies.refuses("I will not."))
    server.on("bomb", replies.filtered())
    server.on("free", replies.no_usage("no bill"))
    answers = answers_of(model(server), [asking(text) for text in ("long", "evil", "bomb", "free")])
    assert untimed(answers) == [
        Completion("only the beg", 10, 3, LENGTH, served_model="tiny"),
        Completion("I will not.", 10, 0, REFUSAL, served_model="tiny"),
        Completion("", 10, 0, REFUSAL, served_model="tiny"),
        Completion("no bill", None, None, STOP, served_model="tiny"),
    ]


def test_the_key_shows_nowhere(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    server.on("x", replies.error(500, "bad key sk-very-secret"))
    server.on("y", replies.error(401, "bad key sk-very-secret"))
    with caplog.at_level(logging.DEBUG):
        asked = model(server, api_key_variable="MY_KEY", retries=1)
        answers = answers_of(asked, [asking("x"), asking("y")])
    assert {r.headers["authorization"] for r in server.received} == {"Bearer sk-very-secret"}
    assert "[key]" in failure(answers[0]).reason
    assert "[key]" in failure(answers[1]).reason
    assert "sk-very-secret" not in f"{answers} {asked.identity} {asked!r} {caplog.text}"


def test_key_variable_must_be_set(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(UsageError, match="environment variable MY_KEY is not set"):
        model(server, api_key_variable="MY_KEY")


def test_missing_package_names_the_extra(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UsageError, match=r"pip install 'rag-assets\[api\]'"):
        model(server)


def test_identity(server: Server) -> None:
    with_password = f"http://me:pass@{server.base_url.removeprefix('http://')}/?token=t"
    assert OpenAICompatible(endpoint(server, base_url=with_password)).identity == {
        "model": "tiny",
        "server": server.base_url,
    }


def test_endpoint_from_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "RAG_ASSETS_LLM_MODEL": "m"}
    local = endpoint_from_environment(environ=variables)
    assert local == Endpoint("m", "http://127.0.0.1:1/v1", None)
    assert local.api_key() is None
    keyed = endpoint_from_environment("other", {**variables, "OPENAI_API_KEY": " k "})
    monkeypatch.setenv("OPENAI_API_KEY", " k ")
    assert (keyed.model, keyed.api_key()) == ("other", "k")
    with pytest.raises(UsageError, match="set RAG_ASSETS_LLM_MODEL"):
        endpoint_from_environment(environ={})
    with pytest.raises(UsageError, match=r"add to `llm` the line `base_url: http://e.org/v1`"):
        endpoint_from_environment("m", {"OPENAI_BASE_URL": "http://me:secret@e.org/v1?key=x"})
    remote = endpoint_from_environment("m", {})
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        remote.api_key()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"base_url": "localhost:80"}, "must begin with http"),
        ({"model": ""}, "no LLM is named"),
    ],
)
def test_wrong_settings(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Endpoint(**{"model": "m", **settings})  # type: ignore[arg-type]
