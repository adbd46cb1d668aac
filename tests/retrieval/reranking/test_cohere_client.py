"""Cohere's client alone; what holds of any is in test_rerank_protocol.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.llm.server import Server
from tests.retrieval.reranking.servers import DOCUMENTS, KEY, QUERY, results, settings

pytest.importorskip("cohere", reason="needs the package cohere: pip install 'rag-assets[cohere]'")

from rag_assets.retrieval.reranking.cohere import CohereReranker

Opened = Callable[..., CohereReranker]


@pytest.fixture
def reranker(server: Server) -> Iterator[Opened]:
    """Opens clients for the server, which are closed in the end."""
    made: list[CohereReranker] = []

    def opened(max_tokens_per_doc: int | None = None) -> CohereReranker:
        made.append(CohereReranker(settings(server), max_tokens_per_doc=max_tokens_per_doc))
        return made[-1]

    yield opened
    for one in made:
        one.close()


def test_where_the_server_cuts_a_document(server: Server, reranker: Opened) -> None:
    reranker(max_tokens_per_doc=512).score(QUERY, DOCUMENTS)
    assert server.received[0].body["max_tokens_per_doc"] == 512


def test_another_key_of_the_environment_is_not_sent(
    server: Server, reranker: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client by itself takes CO_API_KEY."""
    monkeypatch.setenv("CO_API_KEY", KEY)
    reranker().score(QUERY, DOCUMENTS)
    assert "authorization" not in server.received[0].headers


def test_what_was_scored_and_what_was_charged(server: Server, reranker: Opened) -> None:
    asked = reranker()
    asked.score(QUERY, DOCUMENTS)
    assert (asked.n_asked, asked.searches, asked.tokens) == (3, None, None)
    server.on(
        QUERY,
        results(0.5, meta={"billed_units": {"search_units": 1, "input_tokens": 40}}),
        results(0.5, meta={"billed_units": {"search_units": 2}}),
        results(0.5, meta={"billed_units": {"search_units": "many"}}),
        results(0.5, meta={"billed_units": None}),
        results(meta={"billed_units": {"search_units": 1}}),
    )
    for _ in range(5):
        asked.score(QUERY, DOCUMENTS[:1])
    assert (asked.n_asked, asked.searches, asked.tokens) == (7, 3.0, 40)
