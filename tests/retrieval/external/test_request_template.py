"""What is put into a request is data, wherever it stands and whatever characters it has."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assets.errors import UsageError
from rag_assets.retrieval.external.http import (
    HttpRetriever,
    filled,
    filled_url,
    headers_of,
    placeholders_in,
)

HARMFUL = [
    'a "quoted" word',
    '"}, "size": 0, "x": {"y": "',
    "{k} and {query:json} and {vector}",
    "\\",
    "\n\r\t\x00\u2028",
    "'; DROP TABLE documents; --",
    "&q=2#end%20+",
    "",
    "\ud800",
    "日本語 😀",
]


def sent(template: object, **values: object) -> Any:
    """Return what a server reads of a body."""
    return json.loads(json.dumps(filled(template, values)).encode())  # type: ignore[arg-type]


@given(st.text() | st.sampled_from(HARMFUL), st.integers(1, 10_000))
def test_a_query_arrives_as_it_is(query: str, k: int) -> None:
    template = {"size": "{k}", "query": {"match": {"text": "{query}"}}, "also": ["query: {query}"]}
    wanted = {"size": k, "query": {"match": {"text": query}}, "also": [f"query: {query}"]}
    assert sent(template, query=query, k=k) == wanted


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(HARMFUL[:-2]))
def test_a_query_in_another_language_is_one_literal(query: str) -> None:
    found = sent({"query": "{ Get(bm25: {query: {query:json}}, limit: {k}) }"}, query=query, k=3)
    text = found["query"]
    head, tail = "{ Get(bm25: {query: ", "}, limit: 3) }"
    assert text.startswith(head)
    assert text.endswith(tail)
    assert json.loads(text[len(head) : -len(tail)]) == query


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(HARMFUL[:-2]))
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
