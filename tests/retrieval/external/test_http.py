"""``type: http``: what is sent, how hits are found; each failure is one, with its reason."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from rag_assets.called import http
from rag_assets.called.hits import Hit
from rag_assets.models.encoder import Encoder
from rag_assets.retrieval.external.base import QueryResult
from rag_assets.retrieval.external.http import HttpRetriever
from tests.retrieval.external.conftest import evaluate, search, times_of
from tests.retrieval.external.loopback import Loopback, Reply, Request, serving
from tests.servers import hostile
from tests.tiny_experiment import DOCUMENTS, Tiny

OPTIONS: Mapping[str, Any] = {
    "type": "http",
    "url": "http://127.0.0.1:9/search",
    "body": {"q": "{query}", "n": "{k}"},
    "hits": "hits",
    "id": "id",
    "revision": "1",
    "backoff": 0,
    "timeout": 5,
}
KEY = "k3y-of-tests+42/do-not-tell"


def retriever(**options: Any) -> HttpRetriever:
    return HttpRetriever.model_validate({**OPTIONS, **options})


def echo(request: Request) -> Reply:
    """Answer each query by a hit of its own text."""
    return Reply({"hits": [{"id": request.body["q"], "score": 1.5}]})


def always(content: object, status: int = 200, **headers: str) -> Callable[[Request], Reply]:
    return lambda request: Reply(content, status, headers)


def ids(results: list[QueryResult]) -> list[str | None]:
    return [hit.id for result in results for hit in result.hits]


def asked(server: Loopback) -> list[str]:
    return [request.body["q"] for request in server.received]


def test_a_url_with_a_query() -> None:
    with serving(always({"hits": ["a", "b", "c"]})) as server:
        url = f"{server.root}/find?q={{query}}&limit={{k}}&mode=exact"
        config = retriever(url=url, method="GET", body=None, id="@")
        assert ids(search(config, "x&y=#ü", k=2)) == ["a", "b"]  # no more than k
    (request,) = server.received
    assert (request.method, request.path, request.body) == ("GET", "/find", None)
    assert request.parameters == {"q": "x&y=#ü", "limit": "2", "mode": "exact"}


@pytest.mark.parametrize(
    ("options", "row", "hit"),
    [
        ({"id": "no"}, {"no": 17}, Hit(id="17")),
        ({"id": "join('/', [a, b])"}, {"a": "x", "b": "y"}, Hit(id="x/y")),
        ({"id": "id", "score": "s"}, {"id": "a", "s": None}, Hit(id="a")),
        ({"id": "id", "score": "to_number(s)"}, {"id": "a", "s": "0.25"}, Hit(id="a", score=0.25)),
        (
            {"id": None, "document_id": "doc", "start": "span[0]", "end": "span[1]"},
            {"doc": 3, "span": [0, 12]},
            Hit(document_id="3", start=0, end=12),
        ),
        (
            {"id": None, "text": "t", "source": "meta.file", "start": "meta.at"},
            {"t": "words", "meta": {"file": "a.md", "at": 4}},
            Hit(text="words", source="a.md", start=4),
        ),
        ({"id": None, "text": "t", "source": "meta.file"}, {"t": "words"}, Hit(text="words")),
    ],
)
def test_what_a_hit_can_be(options: dict[str, Any], row: object, hit: Hit) -> None:
    with serving(always({"hits": [row]})) as server:
        (result,) = search(retriever(url=server.root, **options), "x")
    assert (result.error, result.hits) == (None, [hit])


GOOD = {"hits": [{"id": "a"}]}


@pytest.mark.parametrize(
    ("answer", "options", "reason"),
    [
        (always({}, 500), {}, "HTTP 500: Internal Server Error"),
        (
            always({"detail": [{"loc": ["body", "q"], "msg": "Field required"}]}, 422),
            {},
            "HTTP 422: Field required",
        ),
        (always(b"<html>Welcome</html>"), {}, "it is not JSON"),
        (
            always({"took": 3, "results": []}),
            {},
            "`hits: hits` matches nothing in an object with the keys results, took",
        ),
        (
            always({"message": "index is closed"}),
            {},
            "`hits: hits` matches nothing in an object with the keys message; the server says: "
            "index is closed",
        ),
        (always([]), {}, "`hits: hits` matches nothing in a list of 0"),
        (always({"hits": {"total": 3}}), {}, "`hits: hits` is an object with the keys total; it "),
        (
            always({"hits": [{"id": "a"}, {"_id": "b"}]}),
            {},
            "hit 2: `id: id` matches nothing; a hit is one of three",
        ),
        (always({"hits": [{"id": True}]}), {}, "hit 1: `id: id` is true; it must be a text or a"),
        (always(b'{"hits": [{"id": "a", "s": 1e999}]}'), {"score": "s"}, "it must be a finite n"),
        (
            always({"hits": [{"d": "a", "s": 1}]}),
            {"id": None, "document_id": "d", "start": "s", "end": "e"},
            "hit 1: `end: e` matches nothing; a hit is one of three",
        ),
        (
            always({"hits": [{"id": [1]}]}),
            {"id": "join('-', id)"},
            "hit 1: `id: join('-', id)`: In function join(), invalid type for value: 1, expected",
        ),
        (always({**GOOD, "why": {"größe": 0}}), {"error": "why"}, 'server says: {"größe": 0}'),
        (always({**GOOD, "timed_out": True}), {"error": "timed_out"}, "the server says: true"),
        (always({}, 302, Location="http://192.0.2.1/x"), {}, "a redirect to http://192.0.2.1, whi"),
        (always({}, 302, Location="/other"), {}, "a redirect to another path, which is not foll"),
    ],
)
def test_an_answer_that_is_none_is_a_failed_query(
    answer: Callable[[Request], Reply], options: dict[str, Any], reason: str
) -> None:
    with serving(answer) as server:
        (result,) = search(retriever(url=server.root, retries=0, **options), "x")
    assert result.error is not None
    assert reason in result.error
    assert list(result.hits) == []


@pytest.mark.parametrize("empty", [None, False, "", [], {}])
def test_an_error_that_is_empty_is_none(empty: object) -> None:
    with serving(always({**GOOD, "errors": empty})) as server:
        (result,) = search(retriever(url=server.root, error="errors"), "x")
    assert result.error is None


def test_after_a_refusal_of_all_requests_no_other_is_sent() -> None:
    with serving(always({"message": "who are you"}, 401)) as server:
        results = search(retriever(url=server.root), *"abc")
    assert len(server.received) == 1
    assert results[0].error == "HTTP 401: who are you"
    assert results[2].error == "not asked: the API key is not accepted (HTTP 401: who are you)"


def test_an_answer_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BYTES", 2**20)
    with serving(always(b" " * (2**20 + 1) + json.dumps(GOOD).encode())) as server:
        (result,) = search(retriever(url=server.root), "a")
    assert "it is longer than 1 MiB" in str(result.error)


def test_a_redirect_gets_no_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_KEY", KEY)
    with serving(echo) as other, serving(always({}, 307, Location=other.root)) as server:
        headers = {"authorization": "Bearer ${SEARCH_KEY}"}
        (result,) = search(retriever(url=server.root, headers=headers, retries=0), "a")
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert other.received == []
    assert "which is not followed" in str(result.error)


@pytest.mark.parametrize("status", [200, 400, 401])
@pytest.mark.parametrize("encoding", hostile.ENCODINGS)
def test_a_credential_stands_nowhere(
    status: int, encoding: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SEARCH_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    encode = hostile.ENCODINGS[encoding]

    def answer(request: Request) -> Reply:
        told = encode(request.headers["authorization"].removeprefix("ApiKey "))
        return Reply({"message": told, "hits": [{"id": told}]}, status)

    with serving(answer) as server:
        headers = {"Authorization": "ApiKey ${SEARCH_KEY}"}
        config = retriever(url=server.root, headers=headers, id="missing || id")
        results = search(config, "a", "b")
    assert server.received[0].headers["authorization"] == f"ApiKey {KEY}"
    stored = [results, config, config.asked_as(), config.describe_for_plan(), caplog.text]
    for form in (KEY, encode(KEY)):
        assert form.strip("\"'b=").lower() not in repr(stored).lower()


def test_a_fingerprint_knows_nothing_of_a_credential() -> None:
    one, other = (
        retriever(headers={"x-api-key": f"${{{name}}}", "x-tenant": "acme"}).asked_as()
        for name in ("KEY_A", "KEY_B")
    )
    assert one == other
    assert one["headers"] == {"x-tenant": "acme"}


def test_vectors_of_a_model_of_ours(static_model: Path) -> None:
    options = {
        "body": {"vector": "{vector}", "q": "{query}"},
        "embedding": {"model": str(static_model), "query_prompt": "query: "},
    }
    with serving(echo) as server:
        config = retriever(url=server.root, **options)
        search(config, "a dog", "a ferry")
    encoder = Encoder(str(static_model), query_prompt="query: ")
    wanted = encoder.encode(["a dog", "a ferry"], kind="query").tolist()
    assert [request.body["vector"] for request in server.received] == wanted
    other = retriever(url=server.root, **{**options, "embedding": {"model": str(static_model)}})
    assert config.asked_as() != other.asked_as()
    assert set(config.versions()) == {"sentence-transformers", "torch", "transformers"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"revision": None}, "needs `revision`, because changes of what is searched"),
        ({"hits": "a["}, "'a[' is not a JMESPath: Incomplete expression ["),
        ({"id": ""}, "String should have at least 1 character"),
        ({"id": None}, "a hit is one of three: `id`; `text`; or `document_id`, `start` and `end`"),
        ({"body": {"q": "fixed"}}, "have no '{query}' and no '{vector}'"),
        ({"body": None}, "`method: POST` needs a body, `method: GET` has none"),
        ({"method": "GET"}, "`method: POST` needs a body, `method: GET` has none"),
        ({"body": {"q": "{vector}"}}, "`embedding` and a '{vector}' in the request belong toge"),
        ({"embedding": {"model": "m"}}, "`embedding` and a '{vector}' in the request belong tog"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError) as raised:
        retriever(**options)
    assert problem in str(raised.value)


@pytest.mark.parametrize("name", hostile.ANSWERS)
def test_whatever_is_answered_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_KEY", KEY)
    with hostile.Hostile(hostile.ANSWERS[name]) as server, hostile.within(5):
        headers = {"authorization": "Bearer ${SEARCH_KEY}"}
        config = retriever(url=server.root, headers=headers, timeout=0.3, retries=0)
        (result,) = search(config, "a")
    assert result.error is not None
    assert "\n" not in result.error
    assert len(result.error) < 300
    assert KEY not in result.error


@pytest.fixture
def server() -> Iterator[Loopback]:
    with serving(always({"hits": [{"id": name} for name in DOCUMENTS]})) as running:
        yield running


@pytest.fixture
def tiny(tmp_path: Path, server: Loopback, computed: Tiny) -> Tiny:
    """A search that is asked by HTTP, beside BM25."""
    tiny = Tiny(tmp_path / "tiny").start_from(computed)
    tiny.config["retrievers"] = {
        "mine": {**OPTIONS, "url": f"{server.root}/search", "retries": 0, "timeout": 60},
        "bm25": tiny.config["retrievers"]["bm25"],
    }
    tiny.config |= {"baseline": "bm25", "measurements": {"latency_sample": 6}}
    return tiny.write()


def test_embedding_the_query_is_part_of_the_latency(
    tiny: Tiny, static_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where every vector is in the cache, as in the second evaluation."""
    now = Encoder.encode_now

    def slowly(encoder: Encoder, texts: list[str], *, kind: Any) -> Any:
        time.sleep(0.05)
        return now(encoder, texts, kind=kind)

    monkeypatch.setattr(Encoder, "encode_now", slowly)
    body = {"v": "{vector}", "n": "{k}"}
    for revision in ("1", "2"):
        tiny.configure("mine", body=body, embedding={"model": str(static_model)}, revision=revision)
        tiny.run()
        assert 50 < min(times_of(tiny, "mine").values()) < 5_000


def test_a_credential_is_in_no_file(
    tiny: Tiny, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_KEY", "a-secret-0123456789")

    def answer(request: Request) -> Reply:
        told = request.headers["authorization"]
        if "dog" in request.body["q"]:
            return Reply({"message": f"no such thing for {told}"}, 400)
        return Reply({"hits": [{"id": "fares.md"}], "told": told})

    server.answer = answer
    tiny.configure("mine", headers={"authorization": "Bearer ${SEARCH_KEY}"})
    printed = evaluate(tiny, code=3)
    assert server.received[0].headers["authorization"] == "Bearer a-secret-0123456789"
    assert "failed on 1 of 6 queries" in printed
    assert "a-secret" not in printed
    files = [file for file in tiny.root.rglob("*") if file.is_file()]
    assert len(files) > 50
    assert [file for file in files if b"a-secret" in file.read_bytes()] == []
