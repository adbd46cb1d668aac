"""The type ``cohere``; its client is tested in tests/retrieval/reranking/test_cohere_client.py."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from rag_assets.errors import UsageError
from rag_assets.retrieval.derived import Reranked
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.cohere import Cohere
from rag_assets.retrieval.workspace import Measure, Usage, Workspace, unmeasured
from tests.llm.server import Server, error, json_reply, shared_words

DOCUMENTS = ["a dog", "the wind", "wind in the northern harbour", "a dog"]

needs_cohere = pytest.mark.skipif(
    find_spec("cohere") is None,
    reason="needs the package cohere: pip install 'rag-assets[cohere]'",
)


def config(server: Server, **options: object) -> Cohere:
    plain = {"type": "cohere", "input": "bm25", "base_url": server.root, "model": "tiny"}
    how = {"api_key_env": None, "retries": 1, "backoff": 0.0}
    return Cohere.model_validate({**plain, **how, **options})


def rerank(
    chosen: Cohere,
    queries: Sequence[str],
    cache: Path | None = None,
    measure: Measure = unmeasured,
) -> Reranked:
    asked = [
        Candidates(f"id of {query}", query, list("0123"), DOCUMENTS, np.zeros(4))
        for query in queries
    ]
    return chosen.rerank(asked, Workspace(cache, measure=measure))


@needs_cohere
def test_every_query_gets_its_scores_in_requests_of_a_size(server: Server, tmp_path: Path) -> None:
    queries = [f"wind {number}" for number in range(9)]
    found = rerank(config(server, batch_size=2), queries, tmp_path)
    for query, scores in zip(queries, found.scores, strict=True):
        assert scores.tolist() == [shared_words(query, text) for text in DOCUMENTS]
    sent = {tuple(one.body["documents"]) for one in server.received}
    assert sent == {tuple(DOCUMENTS[:2]), tuple(DOCUMENTS[2:3])}, "equal documents are sent once"
    server.received.clear()
    again = rerank(config(server, price=2.0), queries, tmp_path)
    assert server.received == []
    assert [scores.tolist() for scores in again.scores] == [s.tolist() for s in found.scores]


@needs_cohere
def test_a_query_that_fails_tells_why_and_takes_no_other_down(server: Server) -> None:
    server.on("storm", error(400, "too long"))
    found = rerank(config(server), ["wind", "storm", "dog"])
    assert found.failures == {"id of storm": "HTTP 400: too long"}
    assert np.isfinite([*found.scores[0], *found.scores[2]]).all()


@needs_cohere
def test_the_cost_is_that_of_the_searches_charged(server: Server) -> None:
    rows = [{"index": i, "relevance_score": 0.5} for i in range(3)]
    billed = {"billed_units": {"search_units": 2}}
    server.on("wind", json_reply({"results": rows, "meta": billed}))
    measured: list[Usage] = []
    rerank(config(server, price=2.5), ["wind 1", "wind 2"], measure=measured.append)
    new, known = measured
    assert new == Usage("ask", 6, new.seconds, cost=new.cost)
    assert new.cost == pytest.approx(4 * 2.5 / 1_000)
    assert known == Usage("ask", 0, cached=True)
    measured.clear()
    rerank(config(server), ["wind"], measure=measured.append)
    new = measured[0]
    assert new == Usage("ask", 3, new.seconds)
    assert new.seconds


def test_how_is_asked_and_the_price_determine_no_result(server: Server) -> None:
    one = config(server, api_key_env="A_KEY", timeout=1, price=3.0)
    other = config(server, batch_size=3)
    assert (one.described(), one.describe()) == (other.described(), other.describe())
    for option in ({"model": "other"}, {"max_tokens_per_doc": 10}, {"base_url": "http://other"}):
        assert config(server, **option).describe() != one.describe()


def test_the_defaults_are_cohere_itself() -> None:
    own = Cohere.model_validate({"type": "cohere", "input": "bm25", "model": "rerank-v3.5"})
    assert own.base_url == "https://api.cohere.com"
    assert own.api_key_env == "CO_API_KEY"


def test_an_address_holds_no_secret(server: Server) -> None:
    with pytest.raises(ValidationError, match="no user, password or query"):
        config(server, base_url="https://me:secret@example.org")


def test_without_the_package_the_error_says_what_to_install(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cohere", None)
    with pytest.raises(UsageError, match=r"pip install 'rag-assets\[cohere\]'"):
        rerank(config(server), ["wind"])
