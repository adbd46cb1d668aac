"""Engines in this process: what holds for all of them, and what each does by its options.

A test of an engine is skipped where its package is absent; ``make engines`` installs them into an
environment of their own.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from rag_assets.errors import DataError, StoreError, UsageError
from rag_assets.models.unit_vectors import Vectors
from rag_assets.ordering import Hits
from rag_assets.retrieval.dense import engine_search, flat_index, vector_engine
from rag_assets.retrieval.dense.chroma import Chroma
from rag_assets.retrieval.dense.engine_search import Found
from rag_assets.retrieval.dense.lancedb import LanceDb
from rag_assets.retrieval.dense.milvus_lite import MilvusLite
from rag_assets.retrieval.dense.qdrant import Qdrant
from rag_assets.retrieval.dense.query_vectors import dense_table
from rag_assets.retrieval.dense.similarity_search import search as exact_search
from rag_assets.retrieval.dense.similarity_search import searchable
from rag_assets.retrieval.dense.vector_engine import DATABASE, DatabaseRetriever, EngineRetriever
from rag_assets.retrieval.retriever import Approximate, Divisible, Searcher
from rag_assets.retrieval.workspace import Workspace

WIDE: Mapping[type[EngineRetriever], Mapping[str, Any]] = {
    Qdrant: {"type": "qdrant"},
    LanceDb: {"type": "lancedb", "probes": 1_000, "refine": 1_000},
    MilvusLite: {"type": "milvus_lite", "index": "flat"},
    Chroma: {"type": "chroma", "ef_search": 1_000},
}
"""Options by which an engine looks at all of a few hundred chunks."""

SIMILARITIES = ("cosine", "dot", "euclidean")


def needs(kind: type[EngineRetriever]) -> None:
    module = getattr(kind, "module", "qdrant_client")
    if find_spec(module) is None:
        extra = str(kind.model_fields["type"].annotation.__args__[0]).replace("_", "-")  # type: ignore[union-attr]
        pytest.skip(f"needs pip install 'rag-assets[{extra}]'")


def vectors(count: int, dimension: int = 16, seed: int = 0) -> Vectors:
    drawn = np.random.default_rng(seed).normal(size=(count, dimension))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype=np.float32)


def asked(queries: Vectors) -> pa.Table:
    numbers = pa.array(range(len(queries)), pa.int32())
    ids = pa.table({"query_id": numbers.cast(pa.string()), "variant": numbers})
    return dense_table(ids, queries)


class Content(NamedTuple):
    """Ids in another order than that of the rows, and vectors."""

    ids: list[str]
    vectors: Vectors

    def exact(self, queries: Vectors, k: int, similarity: str) -> list[Hits]:
        flat = flat_index.FlatIndex(tuple(self.ids), self.vectors)
        measure: Any = "euclidean" if similarity == "euclidean" else "dot"
        return exact_search(searchable(flat, measure), queries, k)


def content(count: int, *, twins: int = 0, scale: float = 1.0) -> Content:
    made = vectors(count)
    made[:twins] = made[:1]
    made[count // 2 :] *= scale
    return Content([f"c{row * 7 % count}" for row in range(count)], made)


def opened(
    kind: type[EngineRetriever], options: Mapping[str, Any], given: Content, folder: Path
) -> Searcher[pa.Table]:
    """Return a searcher of vectors that no model has made."""
    config = kind.model_validate(options)
    flat_index.save(given.ids, given.vectors, folder)
    if isinstance(config, DatabaseRetriever):
        flat = flat_index.FlatIndex.load(folder)
        (folder / DATABASE).mkdir()
        if given.ids:
            order = np.argsort(flat.ids_rank)
            config.create(order, flat.vectors[order], folder / DATABASE)
    return config.open(folder)


def recall(found: list[Hits], exact: list[Hits], k: int) -> float:
    both = zip(found, exact, strict=True)
    return float(np.mean([len(set(a.positions[:k]) & set(b.positions[:k])) / k for a, b in both]))


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("kind", WIDE)
def test_an_engine_that_looks_at_all_ranks_as_exact_search(
    kind: type[EngineRetriever], similarity: str, tmp_path: Path
) -> None:
    """Also where more chunks are alike than are wanted, and ids alone decide."""
    needs(kind)
    # A graph links equal vectors to each other alone, and leads to none of them.
    twins = 2 if kind is Chroma else 80
    given = content(300, twins=twins, scale=1.0 if similarity == "cosine" else 3.0)
    queries = np.vstack([given.vectors[:1], vectors(4, seed=1)])
    searcher = opened(kind, {**WIDE[kind], "similarity": similarity}, given, tmp_path)
    told: list[int] = []
    found = searcher.search(asked(queries), 10, told.append)
    for own, exact in zip(found, given.exact(queries, 10, similarity), strict=True):
        assert own.positions.tolist() == exact.positions.tolist()
        assert own.scores.tolist() == exact.scores.tolist()
    assert told == [5]


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("count", [0, 1, 2, 101])
def test_few_chunks_are_all_found(kind: type[EngineRetriever], count: int, tmp_path: Path) -> None:
    needs(kind)
    given, queries = content(count), vectors(3, seed=1)
    searcher = opened(kind, WIDE[kind], given, tmp_path)
    found = searcher.search(asked(queries), 500, None)
    assert [len(hits.positions) for hits in found] == [count] * 3
    for own, exact in zip(found, given.exact(queries, 500, "cosine"), strict=True):
        assert own.positions.tolist() == exact.positions.tolist()


NARROW: Mapping[str, tuple[type[DatabaseRetriever], Mapping[str, Any]]] = {
    "lancedb": (LanceDb, {"type": "lancedb", "partitions": 4, "probes": 2}),
    "lancedb, refine": (LanceDb, {"type": "lancedb", "partitions": 4, "probes": 2, "refine": 40}),
    "milvus_lite, hnsw": (MilvusLite, {"type": "milvus_lite", "m": 4, "ef_search": 16}),
    "milvus_lite, hnsw_sq": (
        MilvusLite,
        {"type": "milvus_lite", "index": "hnsw_sq", "m": 4, "ef_search": 16},
    ),
    "milvus_lite, ivf_flat": (
        MilvusLite,
        {"type": "milvus_lite", "index": "ivf_flat", "partitions": 16, "probes": 4},
    ),
    "milvus_lite, ivf_sq8": (
        MilvusLite,
        {"type": "milvus_lite", "index": "ivf_sq8", "partitions": 16, "probes": 4},
    ),
    "chroma": (Chroma, {"type": "chroma", "m": 4, "ef_construction": 16, "ef_search": 16}),
}


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("name", NARROW)
def test_an_index_that_misses_chunks_keeps_to_the_rules(
    name: str, similarity: str, tmp_path: Path
) -> None:
    kind, options = NARROW[name]
    needs(kind)
    given, queries = content(1_200, twins=20), vectors(40, seed=1)
    searcher = opened(kind, {**options, "similarity": similarity}, given, tmp_path)
    deep, short = (searcher.search(asked(queries), k, None) for k in (60, 10))
    exact = given.exact(queries, 10, similarity)
    for long, cut in zip(deep, short, strict=True):
        assert long.positions[:10].tolist() == cut.positions.tolist()
        ids = [searcher.chunk_ids[position].encode() for position in long.positions]
        keys = list(zip(long.scores.tolist(), ids, strict=True))
        assert keys == sorted(keys, reverse=True)
        assert len(set(long.positions.tolist())) == len(long.positions)
    share = recall(short, exact, 10)
    assert 0.15 < share < 1.0
    assert isinstance(searcher, Approximate)
    for own, best in zip(searcher.exact().search(asked(queries), 10, None), exact, strict=True):
        assert own.positions.tolist() == best.positions.tolist()
    bound = kind.model_validate(options).most_results()
    if bound is not None:
        assert {len(hits.positions) for hits in deep} == {bound[1]}


@pytest.mark.parametrize("name", NARROW)
def test_an_index_gives_the_same_whenever_it_is_opened(name: str, tmp_path: Path) -> None:
    """And what searches writes nothing into it, nor leaves anything behind."""
    kind, options = NARROW[name]
    needs(kind)
    queries = vectors(20, seed=1)
    first = opened(kind, options, content(1_200), tmp_path)
    files = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    found = first.search(asked(queries), 10, None)
    second = kind.model_validate(options).open(tmp_path)
    again = second.search(asked(queries), 10, None)
    for one, other in zip(found, again, strict=True):
        assert one.positions.tolist() == other.positions.tolist()
        assert one.scores.tolist() == other.scores.tolist()
    assert files == {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert len(copies()) >= 2
    del first, second
    gc.collect()
    assert copies() == []


@pytest.mark.parametrize("kind", [LanceDb, MilvusLite, Chroma])
def test_a_database_that_is_damaged_is_named(kind: type[DatabaseRetriever], tmp_path: Path) -> None:
    needs(kind)
    opened(kind, WIDE[kind], content(20), tmp_path)
    gc.collect()
    before = len(copies())
    for file in (tmp_path / DATABASE).rglob("*"):
        if file.is_file():
            file.write_bytes(b"damaged")
    with pytest.raises(StoreError, match=f"database cannot be read by {kind.package}: ."):
        kind.model_validate(WIDE[kind]).open(tmp_path)
    assert len(copies()) == before


def test_what_an_engine_refuses_is_an_error_of_the_type(
    tmp_path: Path, static_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("too few rows\nsecond line")

    monkeypatch.setattr(LanceDb, "create", refuse)
    config = LanceDb.model_validate({"type": "lancedb", "model": str(static_model)})
    chunks = pa.table({"chunk_id": ["a", "b"]})
    told = r"^type lancedb: lancedb makes no index of 2 vectors of dimension \d+: too few rows$"
    with pytest.raises(DataError, match=told):
        config.build(chunks, ["dog", "ferry"], tmp_path, Workspace())


def copies() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("rag-assets-*"))


@pytest.fixture(autouse=True)
def own_folder_for_copies(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = str(tmp_path_factory.mktemp("copies"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        yield


def test_milvus_lite_makes_equal_indexes_of_equal_vectors(tmp_path: Path) -> None:
    needs(MilvusLite)
    queries, found = vectors(20, seed=1), []
    for number in range(2):
        (folder := tmp_path / str(number)).mkdir()
        searcher = opened(*NARROW["milvus_lite, hnsw"], content(1_200), folder)
        found.append([hits.positions.tolist() for hits in searcher.search(asked(queries), 9, None)])
    assert found[0] == found[1]


def test_more_probes_and_refining_find_more_by_lancedb(tmp_path: Path) -> None:
    needs(LanceDb)
    given, queries = content(1_200), vectors(40, seed=1)
    fixed = {"type": "lancedb", "partitions": 4}
    opened(LanceDb, fixed, given, tmp_path)
    shares = []
    for options in ({"probes": 1}, {"probes": 4}, {"probes": 4, "refine": 200}):
        searcher = LanceDb.model_validate({**fixed, **options}).open(tmp_path)
        found = searcher.search(asked(queries), 10, None)
        shares.append(recall(found, given.exact(queries, 10, "cosine"), 10))
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > 0.9


def test_scores_of_compressed_vectors_are_those_of_the_engine(tmp_path: Path) -> None:
    needs(LanceDb)
    given, queries = content(1_200), vectors(5, seed=1)
    searcher = opened(LanceDb, {"type": "lancedb", "probes": 1_000}, given, tmp_path)
    for query, hits in zip(queries, searcher.search(asked(queries), 10, None), strict=True):
        exact = given.vectors[hits.positions] @ query
        assert np.abs(hits.scores - exact).max() > 1e-3
        # The codebook is drawn at random, so a single score may be far off.
        assert np.abs(hits.scores - exact).mean() < 0.5


def test_a_part_is_searched_exactly(tmp_path: Path) -> None:
    needs(MilvusLite)
    given, queries = content(300), vectors(2, seed=1)
    searcher = opened(*NARROW["milvus_lite, hnsw"], given, tmp_path)
    assert isinstance(searcher, Divisible)
    part = searcher.among(np.arange(5))
    assert [sorted(h.positions.tolist()) for h in part.search(asked(queries), 9, None)] == [
        [0, 1, 2, 3, 4]
    ] * 2


@pytest.mark.parametrize("kind", [LanceDb, MilvusLite, Chroma])
def test_a_package_that_is_missing_is_named_with_its_extra(
    kind: type[DatabaseRetriever], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(package: str) -> str:
        raise PackageNotFoundError(package)

    config = kind.model_validate({"type": WIDE[kind]["type"]})
    told = (
        f"type {config.type} needs the package {kind.package}: "
        f"pip install 'rag-assets\\[{config.type.replace('_', '-')}\\]'"
    )
    monkeypatch.setattr(vector_engine, "version", absent)
    with pytest.raises(UsageError, match=told):
        config.search_versions()
    monkeypatch.setattr(kind, "module", "no_such_package_of_an_engine")
    with pytest.raises(UsageError, match=told):
        config.library()


WRONG: Mapping[str, tuple[type[EngineRetriever], dict[str, Any], str]] = {
    "bits": (LanceDb, {"type": "lancedb", "bits": 6}, "Input should be 4 or 8"),
    "no probes": (LanceDb, {"type": "lancedb", "probes": 0}, "greater than or equal to 1"),
    "probes of a graph": (
        MilvusLite,
        {"type": "milvus_lite", "probes": 3},
        "probes belongs to index: ivf_flat and ivf_sq8",
    ),
    "links of partitions": (
        MilvusLite,
        {"type": "milvus_lite", "index": "ivf_flat", "m": 3},
        "m belongs to index: hnsw and hnsw_sq",
    ),
    "links of nothing": (
        MilvusLite,
        {"type": "milvus_lite", "index": "flat", "ef_search": 3},
        "ef_search belongs to index: hnsw and hnsw_sq",
    ),
    "too few links": (Chroma, {"type": "chroma", "m": 1}, "greater than or equal to 2"),
}


@pytest.mark.parametrize("case", WRONG)
def test_options_that_do_not_fit(case: str) -> None:
    kind, options, problem = WRONG[case]
    with pytest.raises(ValidationError, match=problem):
        kind.model_validate(options)


def test_sub_vectors_must_divide_the_dimension(tmp_path: Path) -> None:
    config = LanceDb.model_validate({"type": "lancedb", "sub_vectors": 5})
    with pytest.raises(UsageError, match="sub_vectors 5 does not divide 16"):
        config.create(np.arange(3), vectors(3), tmp_path)


def test_what_is_searched_with_makes_no_new_index() -> None:
    one, other = (
        LanceDb.model_validate({"type": "lancedb", "probes": probes}) for probes in (1, 20)
    )
    assert one.index_options() == other.index_options()
    assert one.search_config() != other.search_config()
    assert one.index_options()["partitions"] is None
    assert not {"model", "query_prompt"} & set(one.index_options())


class Repeating:
    """An engine that gives every chunk twice, the worse score first."""

    count = 6
    candidates: int | None = None
    rescored = False

    def nearest(self, queries: Vectors, limit: int) -> list[Found]:
        scores = np.array([1.0, 5.0, 2.0, 5.0, 3.0, 4.0])[:limit]
        return [Found(np.array([0, 0, 1, 1, 2, 2])[:limit], scores) for _ in queries]


def test_of_several_scores_of_a_chunk_the_best_counts() -> None:
    index = engine_search.EngineIndex(("a", "b", "c"), Repeating(), "dot")
    (hits,) = engine_search.search(index, vectors(1), 3)
    assert (hits.positions.tolist(), hits.scores.tolist()) == ([1, 0, 2], [5.0, 5.0, 4.0])
    with pytest.raises(UsageError, match="k is 0"):
        engine_search.search(index, vectors(1), 0)
