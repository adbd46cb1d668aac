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
from pydantic import TypeAdapter, ValidationError

from rag_assets.errors import UsageError
from rag_assets.retrieval.external.request_template import (
    Body,
    Headers,
    Url,
    filled,
    filled_url,
    fixed_headers,
    places_in,
    secret_headers,
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
    template = {"v": "{vector}", "in": "near({vector})", "qs": "{queries}", "n": 1, "x": None}
    assert sent(template, vector=vector, queries=["a", "b"]) == {
        "v": vector,
        "in": "near([0.5, -1.0])",
        "qs": ["a", "b"],
        "n": 1,
        "x": None,
    }


def test_keys_and_other_braces_stay() -> None:
    template = {"{query}": "{targetHits: 100}nearestNeighbor(e, q) {Query} { query }"}
    assert sent(template, query="x") == template
    assert list(places_in(template)) == []  # type: ignore[arg-type]


def test_places_are_found_at_any_depth() -> None:
    template = {"a": [{"b": "{query} {k}"}], "c": "{vector:json}"}
    assert list(places_in(template)) == ["query", "k", "vector"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        (Url, "ftp://h/", "must be an address that begins with http:// or https://"),
        (Url, "http:///x", "must be an address that begins with http:// or https://"),
        (Url, "http://h:99999/", "must be an address with a host and a port from 0 to 65535"),
        (Url, "http://me:pw@h/", "must hold no user, password or fragment"),
        (Url, "http://h/#x", "must hold no user, password or fragment"),
        (Url, "http://{query}/", "has a placeholder before its `?`"),
        (Url, "http://h/{query}", "has a placeholder before its `?`"),
        (Url, "http://h/?api_key=1234", "has a credential in 'api_key'; put it into headers"),
        (Url, "http://h/a b", "has characters that must be escaped as in %20"),
        (Headers, {"Authorization": "Bearer abc"}, "'Authorization' holds a credential"),
        (Headers, {"X-Api-Key": "abc"}, "'X-Api-Key' holds a credential"),
        (Headers, {"xapikey": "abc"}, "'xapikey' holds a credential"),
        (Headers, {"cookie": "abc"}, "'cookie' holds a credential"),
        (Headers, {"a b": "c"}, "'a b' is not the name of a header"),
        (Headers, {"x": "a\r\nb: c"}, "'x' must have printable ASCII characters only"),
        (Headers, {"Host": "other"}, "'Host' is set by the connection; leave it out"),
        (Body, {"size": {"k": None}}, "{k} without quotes is a mapping in YAML; write '{k}'"),
        (Body, [{"a": {"query": None}}], "{query} without quotes is a mapping in YAML"),
        (Body, {"a": float("nan")}, ""),
    ],
)
def test_what_cannot_be_is_said(kind: Any, value: object, problem: str) -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(kind).validate_python(value)
    (error,) = raised.value.errors()
    assert problem in error["msg"]


def test_parameters_and_headers_that_only_look_alike_are_allowed() -> None:
    url = "http://h/?author=1&tokenizer=2&keywords=3"
    assert TypeAdapter(Url).validate_python(url) == url
    headers = {"X-Tenant": "acme", "x-keyboard": "qwerty"}
    assert TypeAdapter(Headers).validate_python(headers) == {
        "x-tenant": "acme",
        "x-keyboard": "qwerty",
    }


def test_only_values_of_variables_are_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ES_KEY", "abc123")
    headers = {"authorization": "ApiKey ${ES_KEY}", "x-tenant": "acme"}
    assert secret_headers(headers) == ({"authorization": "ApiKey abc123"}, ["abc123"])
    assert fixed_headers(headers) == {"x-tenant": "acme"}


def test_user_and_password_are_secret_too(monkeypatch: pytest.MonkeyPatch) -> None:
    value = base64.b64encode(b"operator:hunter2").decode()
    monkeypatch.setenv("BASIC", value)
    headers, secrets = secret_headers({"authorization": "Basic ${BASIC}"})
    assert headers == {"authorization": f"Basic {value}"}
    assert secrets == [value, "operator:hunter2", "operator", "hunter2"]


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
        secret_headers({"authorization": "ApiKey ${ES_KEY}"})
    assert value is None or value not in str(raised.value)
