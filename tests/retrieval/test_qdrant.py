"""The type ``qdrant``: a collection behind HTTP."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from rag_assets.errors import DataError, NotServed, UsageError
from rag_assets.retrieval.dense.qdrant import Qdrant
from rag_assets.retrieval.dense.vector_index import dense_table
from rag_assets.retrieval.workspace import Workspace
from tests.retrieval.qdrant_server import serving

pytest.importorskip("qdrant_client", reason="needs pip install 'rag-assets[qdrant]'")

from qdrant_client import QdrantClient, models

KEY = "open sesame"


def vectors(count: int, dimension: int = 16, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=(count, dimension))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype=np.float32)


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
    with serving(engine, KEY) as url:
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
        with serving(engine, KEY) as url:
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
    with serving(engine, KEY) as url:
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
        ({"url": "http://127.0.0.1:6333"}, "collection\n  Field required"),
        ({"collection": "manuals"}, "url\n  Field required"),
        ({**SERVED, "document_prompt": "passage: "}, "document_prompt: the chunks on the server"),
        ({**SERVED, "exact": True, "ef_search": 9}, "ef_search is only for approximate search"),
        ({**SERVED, "url": "http://a:b@127.0.0.1"}, "no user, password or query"),
        ({**SERVED, "url": "http://127.0.0.1:port"}, "a port from 0 to 65535"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Qdrant.model_validate({"type": "qdrant", **options})


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr("rag_assets.retrieval.dense.qdrant.version", absent)
    with pytest.raises(UsageError, match=r"needs the package qdrant-client: pip install"):
        of_server("http://127.0.0.1:6333").search_versions()
