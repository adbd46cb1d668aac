"""The recipes of docs/search_engines.md, each against a server that answers as its engine."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assets.called.hits import Hit
from rag_assets.called.http import filled, filled_url, headers_of, placeholders_in
from rag_assets.errors import UsageError
from rag_assets.retrieval.external.http import HttpRetriever
from rag_assets.retrieval.workspace import NO_WORKSPACE
from tests.retrieval.external.conftest import search
from tests.retrieval.external.loopback import Loopback, Reply, Request, serving
from tests.tiny_experiment import QUERIES
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


VARIABLES = {
    "ELASTIC_API_KEY": "es-key-0123456789",
    "OPENSEARCH_BASIC": "b3BlcmF0b3I6aHVudGVyMg==",
    "WEAVIATE_API_KEY": "weaviate-key-0123456789",
    "RAG_API_KEY": "rag-key-0123456789",
}
"""Variable -> the credential that its engine wants."""


def request_of(name: str, text: str, vector: object) -> tuple[str, dict[str, str], object]:
    """Return path, parameters and body that the engine of a recipe is to get for five hits."""
    match = {"match": {"text": text}}
    knn = {"field": "embedding", "query_vector": vector, "num_candidates": 500}
    both = [{"standard": {"query": match}}, {"knn": {**knn, "k": 100}}]
    near = {"knn": {"embedding": {"vector": vector, "k": 100}}}
    fields = {"size": 5, "_source": ["text", "file"]}
    literal, numbers = json.dumps(text, ensure_ascii=False), json.dumps(vector)
    tail = "limit: 5) {text file _additional {score}}}}\n"
    hybrid = tail.replace(" {text", "\n{text")
    yql = "select text, file from manual where "
    words, nearest = "userInput(@text)", "{targetHits: 100}nearestNeighbor(embedding, q)"
    body = {
        "elastic_bm25": {**fields, "query": match},
        "elastic_knn": {**fields, "knn": {**knn, "k": 5}},
        "elastic_hybrid": {
            **fields,
            "retriever": {"rrf": {"rank_window_size": 100, "retrievers": both}},
        },
        "opensearch_bm25": {**fields, "query": match},
        "opensearch_knn": {**fields, "query": {"knn": {"embedding": {"vector": vector, "k": 5}}}},
        "opensearch_hybrid": {**fields, "query": {"hybrid": {"queries": [match, near]}}},
        "weaviate_bm25": {"query": f"{{Get {{Manual(bm25: {{query: {literal}}}, {tail}"},
        "weaviate_near_vector": {
            "query": f"{{Get {{Manual(nearVector: {{vector: {numbers}}}, "
            f"{tail.replace('score', 'distance')}"
        },
        "weaviate_hybrid": {
            "query": f"{{Get {{Manual(hybrid: {{query: {literal}, vector: {numbers}, alpha: 0.5}}, "
            f"{hybrid}"
        },
        "vespa_bm25": {"yql": yql + words, "text": text, "hits": 5, "ranking": "bm25"},
        "vespa_vectors": {
            **{"yql": yql + nearest, "hits": 5, "ranking": "closeness"},
            "input.query(q)": vector,
        },
        "vespa_hybrid": {
            **{"yql": f"{yql}{words} or ({nearest})", "text": text, "hits": 5},
            **{"input.query(q)": vector, "ranking": "hybrid"},
        },
        "own_texts": {"question": text, "top_k": 5},
        "own_spans": None,
    }[name]
    parameters = {
        "opensearch_hybrid": {"search_pipeline": "manuals-hybrid"},
        "own_spans": {"question": text, "top_k": "5"},
    }
    path = {"weaviate": "/v1/graphql", "vespa": "/search/", "own": f"/{name[4:]}"}
    path["own_texts"] = "/retrieve"
    own = path.get(name, path.get(name.partition("_")[0], "/manuals/_search"))
    return own, parameters.get(name, {}), body


def search_api(hits: Sequence[Passage]) -> object:
    """Elasticsearch 8.19 and OpenSearch 3."""
    rows = [
        {"_index": "m", "_id": "1", "_score": score, "_source": {"text": text, "file": file}}
        for file, _, text, score in hits
    ]
    total = {"value": len(rows), "relation": "eq"}
    return {
        **{"took": 3, "timed_out": False},
        "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
        "hits": {"total": total, "max_score": rows[0]["_score"] if rows else None, "hits": rows},
    }


def weaviate(hits: Sequence[Passage]) -> object:
    """GraphQL of 1.3x, which says a score as text."""
    rows = [
        {"text": text, "file": file, "_additional": {"score": str(score), "distance": 1 - score}}
        for file, _, text, score in hits
    ]
    return {"data": {"Get": {"Manual": rows}}}


def vespa(hits: Sequence[Passage]) -> object:
    """The default result format, which has no list where there is nothing."""
    rows = [
        {"id": "index:m/0/1", "relevance": score, "fields": {"text": text, "file": file}}
        for file, _, text, score in hits
    ]
    coverage = {"coverage": 100, "documents": 8, "full": True, "nodes": 1, "results": 1}
    root = {"id": "toplevel", "relevance": 1.0, "fields": {"totalCount": len(rows)}}
    return {"root": {**root, "coverage": coverage, **({"children": rows} if rows else {})}}


def service(hits: Sequence[Passage]) -> object:
    """A service of one's own: texts, and spans."""
    texts = [{"content": t, "metadata": {"source": f}, "score": s} for f, _, t, s in hits]
    spans = [{"document": f, "range": [at, at + len(t)]} for f, at, t, _ in hits]
    return {"contexts": texts, "spans": spans}


Passage = tuple[str, int, str, float]
HITS: list[Passage] = [
    ("fares.md", 92, "A dog needs a ticket of 10 crowns.", 0.75),
    ("crew.md", 8, "A crew of five sails each ferry.", 0.5),
]
REFUSED = {
    "Elasticsearch": {"error": {"type": "security_exception", "reason": "who are you"}},
    "Weaviate": {"error": [{"message": "who are you"}]},
    "A service of your own": {"detail": "who are you"},
}
REFUSED["OpenSearch"] = REFUSED["Elasticsearch"]
ENGINES: Mapping[str, tuple[Callable[[Sequence[Passage]], object], dict[str, str]]] = {
    "Elasticsearch": (search_api, {"authorization": "ApiKey es-key-0123456789"}),
    "OpenSearch": (search_api, {"authorization": "Basic b3BlcmF0b3I6aHVudGVyMg=="}),
    "Weaviate": (weaviate, {"authorization": "Bearer weaviate-key-0123456789"}),
    "Vespa": (vespa, {}),
    "A service of your own": (service, {"x-api-key": "rag-key-0123456789"}),
}
"""Heading on the page -> how its engine answers, and the credential that it wants."""


@pytest.fixture(params=RECIPES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """It finds nothing of "zzz"."""
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    heading = RECIPES[name][0]
    replies, credential = ENGINES[heading]

    def answer(request: Request) -> Reply:
        if any(request.headers.get(header) != value for header, value in credential.items()):
            return Reply(REFUSED[heading], 401)
        is_empty = "zzz" in json.dumps([request.body, request.parameters])
        return Reply(replies([] if is_empty else HITS))

    with serving(answer) as running:
        yield running


def recipe(name: str, server: Loopback, model: Path, **changes: Any) -> HttpRetriever:
    """Return what the page has, with the address of the test's server and a model that is here."""
    options = {**RECIPES[name][1], "retries": 0, "concurrency": 1, **changes}
    options["url"] = re.sub(r"^https?://[^/]+", server.root, options["url"])
    if "embedding" in options:
        options["embedding"] = {**options["embedding"], "model": str(model)}
    return HttpRetriever.model_validate(options)


def test_a_recipe_asks_and_reads_its_engine(
    name: str, server: Loopback, static_model: Path
) -> None:
    config = recipe(name, server, static_model)
    results = search(config, *TEXTS, "zzz", k=5)
    for text, request, result in zip([*TEXTS, "zzz"], server.received, results, strict=True):
        vector = config.embedding and config.embedding.vectors([text], NO_WORKSPACE)[0]
        wanted = request_of(name, text, vector)
        assert (request.path, request.parameters, request.body) == wanted
        assert request.method == ("GET" if name == "own_spans" else "POST")
        assert request.headers.get("x-tenant") == ("manuals" if name == "own_texts" else None)
        assert result.error is None
        hits = [] if "zzz" in json.dumps(wanted) else HITS  # a vector finds something
        if name == "own_spans":
            assert list(result.hits) == [
                Hit(document_id=file, start=at, end=at + len(words)) for file, at, words, _ in hits
            ]
            continue
        scores = [None if name == "weaviate_near_vector" else score for *_, score in hits]
        assert list(result.hits) == [
            Hit(text=words, source=file, score=score)
            for (file, _, words, _), score in zip(hits, scores, strict=True)
        ]


@pytest.mark.parametrize("name", [name for name in RECIPES if "headers" in RECIPES[name][1]])
def test_a_credential_that_is_refused_is_the_reason(
    name: str, server: Loopback, static_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = recipe(name, server, static_model)
    for variable in VARIABLES:
        monkeypatch.setenv(variable, "another-key-9876543210")
    (result,) = search(config, "dog")
    assert result.error == "HTTP 401: who are you"


FAILED: Mapping[str, list[tuple[object, str]]] = {
    "Elasticsearch": [
        (
            {"timed_out": True, "_shards": {"failed": 0}, "hits": {"hits": []}},
            "the server says: timed out",
        ),
        (
            {
                "timed_out": False,
                "_shards": {"failed": 1, "failures": [{"reason": {"reason": "no such shard"}}]},
                "hits": {"hits": []},
            },
            "the server says: no such shard",
        ),
    ],
    "Weaviate": [
        (
            {
                "data": {"Get": {"Manual": None}},
                "errors": [{"message": "vector lengths don't match: 384 vs 768"}],
            },
            "the server says: vector lengths don't match: 384 vs 768",
        )
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
            "the server says: searched a part only",
        ),
        ({"timing": {}}, "matches nothing in an object with the keys timing"),
    ],
    "A service of your own": [
        ({"problem": "no index", "contexts": []}, "the server says: no index")
    ],
}
FAILED = {**FAILED, "OpenSearch": FAILED["Elasticsearch"]}


@pytest.mark.parametrize(
    ("heading", "body", "reason"),
    [(heading, *one) for heading, several in FAILED.items() for one in several],
)
def test_what_an_engine_says_is_wrong_is_a_failed_query(
    heading: str, body: object, reason: str, static_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    first = next(name for name, (own, _) in RECIPES.items() if own == heading)
    with serving(lambda request: Reply(body)) as server:
        (result,) = search(recipe(first, server, static_model), "dog")
    assert reason in str(result.error)
    assert list(result.hits) == []


def test_every_engine_has_its_recipes() -> None:
    assert {heading for heading, _ in RECIPES.values()} == set(ENGINES)
    assert all(options["type"] == "http" for _, options in RECIPES.values())


OTHER_BRACES = {"{query}": "{targetHits: 100}nearestNeighbor(e, q) {Query} { query }"}
"""A key and texts that are no places."""


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(HARMFUL))
def test_a_query_in_another_language_is_one_literal(query: str) -> None:
    text = filled("{ Get(bm25: {query: {query:json}}, limit: {k}) }", {"query": query, "k": 3})
    head, tail = "{ Get(bm25: {query: ", "}, limit: 3) }"
    assert text.startswith(head)
    assert text.endswith(tail)
    assert json.loads(text[len(head) : -len(tail)]) == query


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(HARMFUL))
def test_a_query_in_a_url_is_one_parameter(query: str) -> None:
    parts = urlsplit(filled_url("http://h/s?q={query}&limit={k}", {"query": query, "k": 5}))
    assert (parts.netloc, parts.path, parts.fragment) == ("h", "/s", "")
    assert parse_qs(parts.query, keep_blank_values=True) == {"q": [query], "limit": ["5"]}


@pytest.mark.parametrize(
    ("template", "values", "expected"),
    [
        # GraphQL knows no pairs of escapes for one character.
        ("f({query:json})", {"query": "😀\n"}, 'f("😀\\n")'),
        ("{vector}", {"vector": [0.5, -1.0]}, [0.5, -1.0]),
        ("near({vector})", {"vector": [0.5, -1.0]}, "near([0.5, -1.0])"),
        ({"n": 1, "x": ["a {query}"]}, {"query": "\ud800"}, {"n": 1, "x": ["a \ud800"]}),
        (OTHER_BRACES, {"query": "x"}, OTHER_BRACES),
    ],
)
def test_what_a_place_becomes(template: Any, values: dict[str, object], expected: object) -> None:
    assert filled(template, values) == expected


def test_half_a_character_in_a_url_becomes_a_question_mark() -> None:
    assert filled_url("http://h/?q={query}", {"query": "a\ud800"}) == "http://h/?q=a%3F"


def test_places_are_found_at_any_depth() -> None:
    assert list(placeholders_in(OTHER_BRACES)) == []  # type: ignore[arg-type]
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


BASIC = base64.b64encode(b"operator:hunter2").decode()


@pytest.mark.parametrize(
    ("scheme", "value", "secrets"),
    [
        ("ApiKey", "abc123", ["abc123"]),
        ("Basic", BASIC, [BASIC, "operator:hunter2", "operator", "hunter2"]),
    ],
)
def test_values_of_variables_are_secret(
    scheme: str, value: str, secrets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ES_KEY", value)
    sent = {"authorization": f"{scheme} {value}", "x-tenant": "acme"}
    headers = {"authorization": f"{scheme} ${{ES_KEY}}", "x-tenant": "acme"}
    assert headers_of(headers) == (sent, [*secrets, f"{scheme} {value}"])


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
    monkeypatch.delenv("ES_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("ES_KEY", value)
    with pytest.raises(UsageError, match=problem) as raised:
        headers_of({"authorization": "ApiKey ${ES_KEY}"})
    assert value is None or value not in str(raised.value)
