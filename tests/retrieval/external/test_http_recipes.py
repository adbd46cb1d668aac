"""The recipes of docs/search_engines.md, each against an engine that answers in the real shape."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assets.errors import UsageError
from rag_assets.retrieval.external.hits import QueryResult
from rag_assets.retrieval.external.http import (
    HttpRetriever,
    filled,
    filled_url,
    headers_of,
    placeholders_in,
)
from rag_assets.retrieval.workspace import NO_WORKSPACE
from tests.retrieval.external.engines import ENGINES, VARIABLES, Index, Ranked
from tests.retrieval.external.loopback import Loopback, Reply, Request, serving
from tests.tiny_experiment import DOCUMENTS, QUERIES
from tests.walked_page import DOCS

PAGE = (DOCS / "search_engines.md").read_text(encoding="utf-8")
_SECTION = re.compile(r"^## (.+)\n((?:(?!^## ).*\n)*)", re.M)
_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.M | re.S)

RECIPES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    name: (heading, options)
    for heading, text in _SECTION.findall(PAGE)
    for block in _BLOCK.findall(text)
    for name, options in yaml.safe_load(block)["retrievers"].items()
}
"""Retriever -> its heading and its options as the page has them."""

HARMFUL = [
    'a "dog" \\" and a \\\\ "',
    '"}}) {text}}} #',
    'dog}}, limit: 1) \' OR "1"="1',
    "{k} {query} {query:json} {vector}",
    "dog\nticket\ttab \u2028 😀",
    "?&=+%2F#",
]
TEXTS = [str(query["text"]) for query in QUERIES] + HARMFUL


@pytest.fixture(scope="module")
def index(static_model: Path) -> Index:
    from rag_assets.models.encoder import Encoder

    encoder = Encoder(str(static_model))
    return Index.of(DOCUMENTS, lambda texts: encoder.encode(texts, kind="document"))


@pytest.fixture(params=RECIPES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(name: str, index: Index, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    with serving(ENGINES[RECIPES[name][0]](index)) as running:
        yield running


def recipe(name: str, server: Loopback, model: Path, **changes: Any) -> HttpRetriever:
    """Return what the page has, with the address of the test's server and a model that is here."""
    options = {**RECIPES[name][1], "retries": 0, **changes}
    options["url"] = re.sub(r"^https?://[^/]+", server.root, options["url"])
    if "embedding" in options:
        options["embedding"] = {**options["embedding"], "model": str(model)}
    return HttpRetriever.model_validate(options)


def search(config: HttpRetriever, texts: list[str], k: int = 5) -> list[QueryResult]:
    with config.opened(NO_WORKSPACE) as ask:
        return list(ask(list(texts), k))


def expected(name: str, index: Index, config: HttpRetriever, text: str) -> Ranked:
    vector = (
        config.embedding.vectors([text], NO_WORKSPACE)[0] if config.embedding is not None else None
    )
    if name.endswith("_hybrid"):
        return index.by_both(text, vector)
    return index.by_vector(vector) if vector is not None else index.by_words(text)


def test_a_recipe_finds_what_its_engine_ranks(
    name: str, server: Loopback, index: Index, static_model: Path
) -> None:
    config = recipe(name, server, static_model)
    results = search(config, TEXTS)
    assert [result.error for result in results] == [None] * len(TEXTS)
    for text, result in zip(TEXTS, results, strict=True):
        wanted = [passage for _, passage in expected(name, index, config, text)[:5]]
        if config.text is None:
            found = [(hit.document_id, hit.start, hit.end) for hit in result.hits]
            assert found == [(p.file, p.start, p.start + len(p.text)) for p in wanted]
            assert all(DOCUMENTS[p.file][p.start :].startswith(p.text) for p in wanted)
        else:
            assert [(h.source, h.text) for h in result.hits] == [(p.file, p.text) for p in wanted]
        scores = [hit.score for hit in result.hits]
        if config.score is not None:
            assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
    assert any(len(result.hits) == 5 for result in results)


# Vectors find something for every query.
@pytest.mark.parametrize("name", [name for name in RECIPES if "embedding" not in RECIPES[name][1]])
def test_a_query_without_hits_is_no_failure(
    name: str, server: Loopback, static_model: Path
) -> None:
    config = recipe(name, server, static_model)
    (result,) = search(config, ["zzz"])
    assert (result.error, list(result.hits)) == (None, [])


@pytest.mark.parametrize("name", [name for name in RECIPES if "headers" in RECIPES[name][1]])
def test_a_credential_that_is_refused_is_the_reason(
    name: str, server: Loopback, static_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = recipe(name, server, static_model)
    for variable in VARIABLES:
        monkeypatch.setenv(variable, "another-key-9876543210")
    (result,) = search(config, ["dog"])
    reason = r"HTTP 401: (unable to authenticate|anonymous access not enabled|who are you)"
    assert re.fullmatch(reason, str(result.error))


FAILED: Mapping[str, list[tuple[object, int, str]]] = {
    "Elasticsearch": [
        (
            {"timed_out": True, "_shards": {"failed": 0}, "hits": {"hits": []}},
            200,
            "the server says: timed out",
        ),
        (
            {
                "timed_out": False,
                "_shards": {"failed": 1, "failures": [{"reason": {"reason": "no such shard"}}]},
                "hits": {"hits": []},
            },
            200,
            "the server says: no such shard",
        ),
        (
            {"error": {"type": "index_not_found_exception", "reason": "no such index [manual]"}},
            404,
            "HTTP 404: no such index [manual]",
        ),
    ],
    "Weaviate": [
        (
            {
                "data": {"Get": {"Manual": None}},
                "errors": [{"message": "vector lengths don't match: 384 vs 768"}],
            },
            200,
            "the server says: vector lengths don't match: 384 vs 768",
        ),
        ({"error": [{"message": "read-only"}]}, 500, "HTTP 500: read-only"),
    ],
    "Vespa": [
        (
            {
                "root": {
                    "id": "toplevel",
                    "fields": {"totalCount": 0},
                    "errors": [{"code": 12, "summary": "Timed out", "message": "no time left"}],
                }
            },
            200,
            "the server says: no time left",
        ),
        (
            {
                "root": {
                    "fields": {"totalCount": 1},
                    "coverage": {"coverage": 50, "degraded": {"timeout": True}},
                    "children": [{"relevance": 1.0, "fields": {"text": "x", "file": "y"}}],
                }
            },
            200,
            "the server says: searched a part only",
        ),
        ({"timing": {}}, 200, "matches nothing in an object with the keys timing"),
    ],
    "A service of your own": [
        ({"problem": "no index", "contexts": []}, 200, "the server says: no index"),
    ],
}
FAILED = {**FAILED, "OpenSearch": FAILED["Elasticsearch"]}


@pytest.mark.parametrize(
    ("heading", "body", "status", "reason"),
    [(heading, *one) for heading, several in FAILED.items() for one in several],
)
def test_what_an_engine_says_is_wrong_is_a_failed_query(
    heading: str,
    body: object,
    status: int,
    reason: str,
    static_model: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)

    def answer(request: Request) -> Reply:
        return Reply(body, status)

    first = next(name for name, (own, _) in RECIPES.items() if own == heading)
    with serving(answer) as server:
        (result,) = search(recipe(first, server, static_model), ["dog"])
    assert reason in str(result.error)
    assert list(result.hits) == []


def test_every_engine_has_its_recipes() -> None:
    assert {heading for heading, _ in RECIPES.values()} == set(ENGINES)
    assert all(options["type"] == "http" for _, options in RECIPES.values())


def sent(template: object, **values: object) -> Any:
    """Return what a server reads of a body."""
    return json.loads(json.dumps(filled(template, values)).encode())  # type: ignore[arg-type]


@given(st.text() | st.sampled_from([*HARMFUL, "\ud800", ""]), st.integers(1, 10_000))
def test_a_query_arrives_as_it_is(query: str, k: int) -> None:
    template = {"size": "{k}", "query": {"match": {"text": "{query}"}}, "also": ["query: {query}"]}
    wanted = {"size": k, "query": {"match": {"text": query}}, "also": [f"query: {query}"]}
    assert sent(template, query=query, k=k) == wanted


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(HARMFUL))
def test_a_query_in_another_language_is_one_literal(query: str) -> None:
    found = sent({"query": "{ Get(bm25: {query: {query:json}}, limit: {k}) }"}, query=query, k=3)
    text = found["query"]
    head, tail = "{ Get(bm25: {query: ", "}, limit: 3) }"
    assert text.startswith(head)
    assert text.endswith(tail)
    assert json.loads(text[len(head) : -len(tail)]) == query


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(HARMFUL))
def test_a_query_in_a_url_is_one_parameter(query: str) -> None:
    url = filled_url("http://h/s?q={query}&limit={k}", {"query": query, "k": 5})
    parts = urlsplit(url)
    assert (parts.netloc, parts.path, parts.fragment) == ("h", "/s", "")
    assert parse_qs(parts.query, keep_blank_values=True) == {"q": [query], "limit": ["5"]}


def test_a_literal_has_its_characters_as_they_are() -> None:
    # GraphQL knows no pairs of escapes for one character.
    assert filled("f({query:json})", {"query": "😀\n"}) == 'f("😀\\n")'


def test_half_a_character_in_a_url_becomes_a_question_mark() -> None:
    assert filled_url("http://h/?q={query}", {"query": "a\ud800"}) == "http://h/?q=a%3F"


def test_a_place_that_is_a_whole_text_takes_any_type() -> None:
    vector = [0.5, -1.0]
    template = {"v": "{vector}", "in": "near({vector})", "n": 1, "x": None}
    assert sent(template, vector=vector) == {
        "v": vector,
        "in": "near([0.5, -1.0])",
        "n": 1,
        "x": None,
    }


def test_keys_and_other_braces_stay() -> None:
    template = {"{query}": "{targetHits: 100}nearestNeighbor(e, q) {Query} { query }"}
    assert sent(template, query="x") == template
    assert list(placeholders_in(template)) == []  # type: ignore[arg-type]


def test_places_are_found_at_any_depth() -> None:
    template = {"a": [{"b": "{query} {k}"}], "c": "{vector:json}"}
    assert list(placeholders_in(template)) == ["query", "k", "vector"]  # type: ignore[arg-type]


BASE: Mapping[str, object] = {
    **{"type": "http", "url": "http://h/", "body": {"q": "{query}"}, "hits": "h", "id": "id"},
    "revision": "1",
}


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("url", "ftp://h/", "must be an address that begins with http:// or https://"),
        ("url", "http:///x", "must be an address that begins with http:// or https://"),
        ("url", "http://h:99999/", "Port out of range 0-65535"),
        ("url", "http://me:pw@h/", "must hold no user, password or fragment"),
        ("url", "http://h/{query}", "has a placeholder before its `?`"),
        ("url", "http://h/?api_key=1234", "has a credential in 'api_key'; put it into headers"),
        ("url", "http://h/a b", "has characters that must be escaped as in %20"),
        ("headers", {"Authorization": "Bearer abc"}, "'Authorization' holds a credential"),
        ("headers", {"xapikey": "abc"}, "'xapikey' holds a credential"),
        ("headers", {"cookie": "abc"}, "'cookie' holds a credential"),
        ("headers", {"a b": "c"}, "'a b' is not the name of a header"),
        ("headers", {"x": "a\r\nb: c"}, "'x' must have printable ASCII characters only"),
    ],
)
def test_what_cannot_be_is_said(option: str, value: object, problem: str) -> None:
    with pytest.raises(ValidationError) as raised:
        HttpRetriever.model_validate({**BASE, option: value})
    (error,) = raised.value.errors()
    assert problem in error["msg"]


def test_parameters_and_headers_that_only_look_alike_are_allowed() -> None:
    url = "http://h/?author=1&tokenizer=2&keywords=3"
    config = HttpRetriever.model_validate({**BASE, "url": url, "headers": {"X-Keyboard": "qwerty"}})
    assert (config.url, config.headers) == (url, {"x-keyboard": "qwerty"})


def test_only_values_of_variables_are_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ES_KEY", "abc123")
    headers = {"authorization": "ApiKey ${ES_KEY}", "x-tenant": "acme"}
    sent = {"authorization": "ApiKey abc123", "x-tenant": "acme"}
    assert headers_of(headers) == (sent, ["abc123", "ApiKey abc123"])


def test_user_and_password_are_secret_too(monkeypatch: pytest.MonkeyPatch) -> None:
    value = base64.b64encode(b"operator:hunter2").decode()
    monkeypatch.setenv("BASIC", value)
    headers, secrets = headers_of({"authorization": "Basic ${BASIC}"})
    assert headers == {"authorization": f"Basic {value}"}
    assert secrets == [value, "operator:hunter2", "operator", "hunter2", f"Basic {value}"]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "environment variable ES_KEY of header 'authorization' is not set"),
        ("a\nb", "environment variable ES_KEY of header 'authorization' holds other characters"),
    ],
)
def test_a_variable_that_cannot_be_sent(
    value: str | None, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment: Mapping[str, str] = {} if value is None else {"ES_KEY": value}
    monkeypatch.delenv("ES_KEY", raising=False)
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(UsageError, match=problem) as raised:
        headers_of({"authorization": "ApiKey ${ES_KEY}"})
    assert value is None or value not in str(raised.value)
