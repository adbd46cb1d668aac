from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.llm.completions import BudgetReached
from rag_assets.retrieval.dense.embedding import OpenAIEmbedding
from rag_assets.retrieval.workspace import Workspace
from rag_assets.schemas import QUERY_VARIANTS
from tests.llm.server import Server, broken_json, error, json_reply, vector
from tests.tiny_experiment import Tiny

KEY = "sk-very-secret-0123456789"
VARIABLE = "TINY_EMBEDDING_KEY"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


def options(server: Server, **values: Any) -> dict[str, Any]:
    fixed = {"type": "openai_embedding", "model": "small", "base_url": server.base_url}
    return {**fixed, "api_key_env": VARIABLE, "backoff": 0.0, "retries": 2, **values}


def encode(config: OpenAIEmbedding, texts: list[str], cache: Path | None = None) -> np.ndarray:
    rows: list[dict[str, object]] = [
        {"query_id": f"q{number}", "variant": 0, "text": text} for number, text in enumerate(texts)
    ]
    table = config.encode(QUERY_VARIANTS.from_rows(rows), Workspace(cache))
    return np.array(table.column("vector").to_pylist(), dtype=np.float32)


def unit(text: str) -> np.ndarray:
    wide = np.array(vector(text))
    length: np.ndarray = wide / np.linalg.norm(wide)
    return length


def test_vectors_are_those_of_the_server_in_order(server: Server) -> None:
    texts = [f"text {number % 7}" for number in range(9)]
    config = OpenAIEmbedding(**options(server, batch_size=3, query_prompt="ask: ", dimensions=4))
    found = encode(config, texts)
    assert np.allclose(found, [unit(f"ask: {text}") for text in texts], atol=1e-6)
    assert sorted(len(request.body["input"]) for request in server.received) == [1, 3, 3]
    for request in server.received:
        assert request.path == "/v1/embeddings"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert (request.body["model"], request.body["dimensions"]) == ("small", 4)


def test_other_similarities_take_the_vectors_as_they_come(server: Server, tmp_path: Path) -> None:
    texts = ["a", "b", "c"]
    cosine = OpenAIEmbedding(**options(server))
    encode(cosine, texts, tmp_path / "cache")
    config = OpenAIEmbedding(**options(server, similarity="euclidean"))
    found = encode(config, texts, tmp_path / "cache")  # never those of length 1
    assert np.allclose(found, [vector(text) for text in texts])
    assert config.describe("query") != cosine.describe("query")


def test_a_text_is_asked_for_once(server: Server, tmp_path: Path) -> None:
    config = OpenAIEmbedding(**options(server))
    first = encode(config, ["a", "b"], tmp_path)
    again = encode(config, ["b", "c", "a"], tmp_path)
    assert [request.body["input"] for request in server.received] == [["a", "b"], ["c"]]
    assert np.array_equal(again[[2, 0]], first)
    encode(OpenAIEmbedding(**options(server, model="large")), ["a"], tmp_path)
    assert len(server.received) == 3


def test_an_edit_sends_the_texts_that_are_new(bm25_only: Tiny, server: Server) -> None:
    bm25_only.config["retrievers"] = {"vectors": options(server, chunking="parts")}
    bm25_only.config["baseline"] = "vectors"
    bm25_only.write_config()
    bm25_only.run()
    sent = len(server.received)
    bm25_only.replace("fares.md", "40 crowns", "42 crowns")
    bm25_only.run()
    ((new,),) = [request.body["input"] for request in server.received[sent:]]
    assert "42 crowns" in new


NOT_AVAILABLE = {
    "key": (error(401, f"bad key {KEY}"), "the API key is not accepted (HTTP 401: bad key [key])"),
    "model": (error(404, "no model"), "no such address or model (HTTP 404: no model)"),
    "too long": (error(400, "too long"), "HTTP 400: too long"),
    "server": (error(500, f"{KEY} broke"), "HTTP 500: [key] broke"),
    "no JSON": (broken_json(), "the answer does not follow the protocol: "),
    "one too few": (
        json_reply({"data": [{"index": 0, "embedding": [1.0]}]}),
        "the answer does not follow the protocol: 1 vectors for 2 texts",
    ),
    "an index twice": (
        json_reply({"data": [{"index": 0, "embedding": [1.0]}] * 2}),
        "the answer does not follow the protocol: 2 vectors for 2 texts",
    ),
    "uneven": (
        json_reply({"data": [{"index": i, "embedding": [1.0] * (i + 1)} for i in range(2)]}),
        "the answer does not follow the protocol: ",
    ),
}


@pytest.mark.parametrize("case", NOT_AVAILABLE)
def test_what_is_no_answer_is_said_without_the_key(server: Server, case: str) -> None:
    reply, reason = NOT_AVAILABLE[case]
    server.on("", reply)
    with pytest.raises(ModelUnavailable) as caught:
        encode(OpenAIEmbedding(**options(server)), ["x", "y"])
    start = f"model 'small' at {server.base_url} is not available: "
    assert str(caught.value).startswith(f"{start}{reason}")
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_key_is_nowhere(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    address = re.sub("//", f"//user:{KEY}@", server.base_url)
    config = OpenAIEmbedding(**options(server, base_url=address))
    told = [config.describe("query"), config.index_options(), config.search_config()]
    assert KEY not in json.dumps(told)
    assert VARIABLE not in json.dumps(told)
    assert config.describe("document")["server"] == server.base_url
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(UsageError, match=f"environment variable {VARIABLE} is not set") as caught:
        encode(config, ["x"])
    assert KEY not in str(caught.value)


def test_max_calls_are_never_passed_and_what_was_embedded_is_kept(
    server: Server, tmp_path: Path
) -> None:
    texts = [f"text {number}" for number in range(9)]
    few = OpenAIEmbedding(**options(server, batch_size=3, concurrency=4, max_calls=2))
    plain = OpenAIEmbedding(**options(server))
    assert few.describe("query") == plain.describe("query")
    assert few.search_config() == plain.search_config()
    with pytest.raises(BudgetReached, match=r"max_calls 2 would be passed \(2 requests\)"):
        encode(few, texts, tmp_path)
    assert len(server.received) == 2
    assert np.allclose(encode(few, texts, tmp_path), [unit(text) for text in texts], atol=1e-6)
    assert len(server.received) == 3
