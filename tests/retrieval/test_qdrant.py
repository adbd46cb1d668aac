"""The type ``qdrant``: the engine in this process, and a collection behind HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from rag_assets.errors import DataError, NotServed, UsageError
from rag_assets.retrieval.dense.qdrant import PointIndex, Qdrant, loaded
from rag_assets.retrieval.dense.vector_index import Similarity, VectorIndex, dense_table
from rag_assets.retrieval.workspace import Workspace

pytest.importorskip("qdrant_client", reason="needs pip install 'rag-assets[qdrant]'")

from qdrant_client import QdrantClient, models

KEY = "open sesame"


def vectors(count: int, dimension: int = 16, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=(count, dimension))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype=np.float32)


def index(content: np.ndarray) -> VectorIndex:
    return VectorIndex(tuple(f"c{row * 7 % len(content)}" for row in range(len(content))), content)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_the_engine_in_this_process_ranks_as_exact_search(
    similarity: Similarity,
) -> None:
    content = vectors(300)
    content[50:150] = content[50]  # more of them than are fetched at first
    content[200:] *= 1.0 if similarity == "cosine" else 3.0
    flat, queries = index(content), np.vstack([content[50:51], vectors(4, seed=1)])
    flat = replace(flat, similarity=similarity)
    expected = flat.nearest(queries, 10)
    told: list[int] = []
    found = loaded(flat).nearest(queries, 10, told.append)
    for own, exact in zip(found, expected, strict=True):
        assert own.positions.tolist() == exact.positions.tolist()
        assert own.scores.tolist() == exact.scores.tolist()
    assert told == [5]


@contextmanager
def serving(engine: QdrantClient) -> Iterator[str]:
    """Qdrant's own engine behind the part of its REST interface that a search needs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            if self._may(name):
                self._answer(engine.get_collection(name).model_dump(mode="json"))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            name = self.path.split("/")[2]
            if self._may(name):
                asked = [models.QueryRequest(**one) for one in json.loads(body)["searches"]]
                found = engine.query_batch_points(name, asked)
                self._answer([answer.model_dump(mode="json") for answer in found])

        def _may(self, name: str) -> bool:
            if self.headers["api-key"] != KEY:
                self.send_error(403, "Forbidden")
            elif not engine.collection_exists(name):
                self.send_error(404, "Not Found")
            else:
                return True
            return False

        def _answer(self, result: Any) -> None:
            content = json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def engine() -> QdrantClient:
    """Two points a document, as an index that holds passages has them."""
    made = QdrantClient(":memory:")
    size = models.VectorParams(size=16, distance=models.Distance.COSINE)
    made.create_collection("manuals", vectors_config={"text": size})
    for point, vector in enumerate(vectors(80)):
        payload = {"doc_id": f"d{point // 2}", "page": point}
        points = [models.PointStruct(id=point, vector={"text": vector.tolist()}, payload=payload)]
        made.upsert("manuals", points)
    return made


def of_server(url: str, **options: Any) -> Qdrant:
    named = {"type": "qdrant", "url": url, "collection": "manuals", "vector": "text"}
    return Qdrant.model_validate({**named, "api_key_env": "K", "id_field": "doc_id", **options})


def chunks(count: int) -> pa.Table:
    return pa.table({"chunk_id": [f"d{number}" for number in range(count)]})


def asked(queries: np.ndarray) -> pa.Table:
    numbers = pa.array(range(len(queries)), pa.int32())
    ids = pa.table({"query_id": numbers.cast(pa.string()), "variant": numbers})
    return dense_table(ids, queries)


@pytest.mark.filterwarnings("ignore:Local mode performs exact")
def test_a_collection_of_a_server_is_searched_as_it_is(
    engine: QdrantClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K", KEY)
    queries = vectors(5, seed=1)
    with serving(engine) as url:
        config = of_server(url, exact=True)
        facts = config.build(chunks(40), [""] * 40, tmp_path, Workspace())
        assert facts == {
            "chunks": 40,
            "points": 80,
            "dimension": 16,
            "distance": "Cosine",
            "ef_construct": 100,
        }
        found = config.open(tmp_path).search(asked(queries), 20, None)
        with pytest.raises(DataError, match="has dimension 16; the model gives 8"):
            config.open(tmp_path).search(asked(vectors(1, 8)), 1, None)
    of_points = (queries.astype(np.float64) @ vectors(80).T.astype(np.float64)).reshape(5, 40, 2)
    best = of_points.max(axis=2)  # of the points of a document the best counts
    for hits, scores in zip(found, best, strict=True):
        assert hits.positions.tolist() == np.argsort(-scores)[:20].tolist()
        assert np.allclose(hits.scores, scores[hits.positions], atol=1e-6)


@pytest.mark.filterwarnings("ignore:Local mode performs exact")
def test_a_graph_is_asked_alike_for_every_depth(
    engine: QdrantClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server's graph finds others when it is asked for more points: here it misses the best."""
    monkeypatch.setenv("K", KEY)
    answer, limits = engine.query_batch_points, []

    def by_graph(name: str, requests: list[Any]) -> Any:
        limits.append((requests[0].limit, requests[0].params.hnsw_ef))
        found = answer(name, requests)
        for one in found:
            one.points = one.points[80 // requests[0].limit :]
        return found

    monkeypatch.setattr(engine, "query_batch_points", by_graph)
    for options, asked_for in (({}, 80), ({"ef_search": 16}, 16)):
        limits.clear()
        with serving(engine) as url:
            config = of_server(url, **options)
            config.build(chunks(40), [""] * 40, tmp_path, Workspace())
            searcher = config.open(tmp_path)
            deep, shallow = (searcher.search(asked(vectors(3, seed=1)), k, None) for k in (30, 3))
        assert {limit for limit, _ in limits} == {asked_for}
        assert {ef for _, ef in limits} == {options.get("ef_search", 100)}
        for own, other in zip(shallow, deep, strict=True):
            assert own.positions.tolist() == other.positions[:3].tolist()
    assert config.most_results() == ("ef_search", 16)


def test_what_a_server_cannot_give_is_said(
    engine: QdrantClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(**options: Any) -> Any:
        return of_server(url, **options).build(chunks(40), [""] * 40, tmp_path, Workspace())

    monkeypatch.delenv("K", raising=False)
    with serving(engine) as url:
        with pytest.raises(UsageError, match="environment variable K is not set"):
            built()
        monkeypatch.setenv("K", "wrong")
        with pytest.raises(NotServed, match="'manuals': HTTP 403"):
            built()
        monkeypatch.setenv("K", KEY)
        with pytest.raises(NotServed, match="'other': HTTP 404"):
            built(collection="other")
        with pytest.raises(DataError, match="has no vector 'image'; it has text"):
            built(vector="image")
        with pytest.raises(DataError, match="compares by Cosine; similarity: dot is Dot"):
            built(similarity="dot")
        built(id_field="page")
        with pytest.raises(DataError, match=r"has page = \d+, which is not the id of a chunk"):
            of_server(url, id_field="page").open(tmp_path).search(asked(vectors(1)), 1, None)
    with pytest.raises(NotServed, match="Qdrant, collection 'manuals'"):
        built()


SERVED = {"url": "http://127.0.0.1:6333", "collection": "manuals"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"url": "http://127.0.0.1:6333"}, "url and collection belong together"),
        ({"collection": "manuals"}, "url and collection belong together"),
        ({"exact": True}, "exact belongs to url"),
        ({"timeout": 5.0}, "timeout belongs to url"),
        ({"id_field": "doc"}, "id_field belongs to url"),
        ({**SERVED, "document_prompt": "passage: "}, "document_prompt: the chunks of a server"),
        ({**SERVED, "exact": True, "ef_search": 9}, "ef_search belongs to a search by the graph"),
        ({"url": "http://a:b@127.0.0.1", "collection": "manuals"}, "no user, password or query"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Qdrant.model_validate({"type": "qdrant", **options})


def test_of_several_scores_of_a_chunk_the_best_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def repeating(self: PointIndex, queries: np.ndarray, limit: int) -> list[list[Any]]:
        pairs = [(0, 1.0), (0, 5.0), (1, 2.0), (1, 5.0), (2, 3.0), (2, 4.0)][:limit]
        return [[SimpleNamespace(id=i, score=score) for i, score in pairs] for _ in queries]

    monkeypatch.setattr(PointIndex, "_points", repeating)
    index = PointIndex(("a", "b", "c"), None, "manuals", "dot", 6)
    (hits,) = index.nearest(vectors(1), 3)
    assert (hits.positions.tolist(), hits.scores.tolist()) == ([1, 0, 2], [5.0, 5.0, 4.0])


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr("rag_assets.retrieval.dense.qdrant.version", absent)
    with pytest.raises(UsageError, match=r"needs the package qdrant-client: pip install"):
        Qdrant(type="qdrant").search_versions()
