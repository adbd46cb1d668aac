"""One system of ``vector_search.py`` in a process of its own; its last line is what it measured."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from peers import peak_bytes

DIMENSION = 384
PORTION = 2_000
"""Texts of a segment of the cache, as the encoder writes it."""

Vectors = npt.NDArray[np.float32]
Search = Callable[[Vectors, int], list[npt.NDArray[np.int64]]]


def chunk_text(number: int) -> str:
    """Return the text that the cache knows the vector of."""
    return f"chunk {number}"


def chunk_ids(count: int) -> list[str]:
    """Return the ids of chunks."""
    return [f"c{number:07}" for number in range(count)]


def make(folder: Path, count: int, n_queries: int) -> dict[str, Any]:
    """Write vectors, queries, and a vector cache that knows them, where they are not there."""
    if (folder / "queries.npy").is_file():
        return {}
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(20_261_121)
    shape = (count, DIMENSION)
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, shape)
    for start in range(0, count, 50_000):
        part = vectors[start : start + 50_000]
        part[:] = unit(generator.standard_normal(part.shape, dtype=np.float32))
    vectors.flush()
    fill_cache(folder / "cache", vectors)
    queries = unit(generator.standard_normal((n_queries, DIMENSION), dtype=np.float32))
    np.save(folder / "queries.npy", queries)
    return {}


def unit(vectors: Vectors) -> Vectors:
    """Return rows of length 1."""
    of_length_1: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return of_length_1


def fill_cache(cache: Path, vectors: Vectors) -> None:
    """Let a vector cache know the vectors of texts, as if the default model had made them."""
    from rag_assets.models.cache_fill import DENSE_VECTORS, ValueCache
    from rag_assets.models.encoder import Encoder
    from rag_assets.store.content_cache import text_keys

    encoder = Encoder()
    prompt, space = encoder.prompt("document"), encoder.space("document")
    for start in range(0, len(vectors), PORTION):
        part = np.asarray(vectors[start : start + PORTION])
        texts = [prompt + chunk_text(start + row) for row in range(len(part))]
        # A cache of its own: it would look each portion up in all before it.
        own = ValueCache.of_space(cache / "embeddings" / f"{start}", space, DENSE_VECTORS)
        own.put(text_keys(texts), part)
    target = cache / "embeddings" / space[:16]
    target.mkdir(parents=True)
    for file in sorted((cache / "embeddings").glob("*/*/*.parquet")):
        file.rename(target / file.name)


def build(folder: Path, count: int) -> dict[str, Any]:
    """Measure what the stage ``embedding_index`` does where all vectors are in the cache."""
    import pyarrow as pa

    from rag_assets.retrieval.dense.embedding import BiEncoder
    from rag_assets.retrieval.workspace import Workspace

    chunks = pa.table({"chunk_id": chunk_ids(count)})
    texts = [chunk_text(number) for number in range(count)]
    index = folder / "index"
    index.mkdir()
    wall, cpu = time.perf_counter(), time.process_time()
    BiEncoder(type="embedding").build(chunks, texts, index, Workspace(cache=folder / "cache"))
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def ours(folder: Path) -> Search:
    """Open the index as the search stage does."""
    import pyarrow as pa

    from rag_assets.retrieval.dense.embedding import BiEncoder
    from rag_assets.retrieval.dense.vector_index import dense_table

    searcher = BiEncoder(type="embedding").open(folder / "index")

    def search(queries: Vectors, k: int) -> list[npt.NDArray[np.int64]]:
        numbers = pa.array(range(len(queries)), pa.int32())
        variants = pa.table({"query_id": numbers.cast(pa.string()), "variant": numbers})
        found = searcher.search(dense_table(variants, queries), k, None)
        return [hits.positions for hits in found]

    return search


def flat_faiss(folder: Path, settings: dict[str, dict[str, int]]) -> Search:
    """Read the vectors into memory; faiss searches them without a copy of its own."""
    import faiss

    vectors = np.load(folder / "vectors.npy")

    def search(queries: Vectors, k: int) -> list[npt.NDArray[np.int64]]:
        set_faiss(settings.get(str(k), {}))
        _, found = faiss.knn(queries, vectors, k, metric=faiss.METRIC_INNER_PRODUCT)
        return list(found)

    return search


def set_faiss(settings: dict[str, int]) -> None:
    """Set how many threads, how many vectors a product of matrices, and from how many numbers."""
    import faiss

    if settings:
        faiss.omp_set_num_threads(settings["threads"])
        faiss.cvar.distance_compute_blas_database_bs = settings["block"]
        faiss.cvar.distance_compute_blas_threshold = settings["matrix_from"]


def graph(folder: Path, count: int, directions: int) -> dict[str, Any]:
    """Measure a graph over vectors of so many independent directions, beside exact search."""
    from rag_assets.retrieval.dense.embedding import HnswIndex, HnswOptions, save_graph
    from rag_assets.retrieval.dense.vector_index import VectorIndex

    generator = np.random.default_rng(directions)
    axes = generator.standard_normal((directions, DIMENSION), dtype=np.float32)
    drawn = generator.standard_normal((count + 500, directions), dtype=np.float32)
    vectors = drawn if directions == DIMENSION else drawn @ axes
    content, queries = unit(vectors[:count]), unit(vectors[count:])
    index = folder / f"hnsw-{directions}"
    index.mkdir(parents=True)
    options = HnswOptions()
    making = options.model_dump(exclude={"ef_search"})
    started = time.perf_counter()
    save_graph(chunk_ids(count), content, index, similarity="cosine", **making)
    built = time.perf_counter() - started
    opened = HnswIndex.load(index, "cosine", options.ef_search)
    started = time.perf_counter()
    near = opened.nearest(queries, 10)
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    exact = VectorIndex.nearest(opened, queries, 10)
    exact_seconds = time.perf_counter() - started
    pairs = zip(near, exact, strict=True)
    same = [len(set(a.positions.tolist()) & set(b.positions.tolist())) / 10 for a, b in pairs]
    return {
        "build": built,
        "seconds": seconds,
        "exact_seconds": exact_seconds,
        "queries": len(queries),
        "recall": float(np.mean(same)),
    }


def measured(open_system: Callable[[], Search], queries: Vectors, hits: Path) -> dict[str, Any]:
    """Return seconds by k, those of opening, and the peak; ``hits`` receives what was found."""
    started = time.perf_counter()
    search = open_system()
    found: dict[str, Any] = {"open": time.perf_counter() - started}
    kept = {}
    for k in (10, 100):
        search(queries[:32], k)
        wall, cpu = time.perf_counter(), time.process_time()
        positions = search(queries, k)
        found[str(k)] = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        kept[str(k)] = np.array(positions)
    found["peak"] = peak_bytes()
    np.savez(hits, allow_pickle=False, **kept)
    return found


def tune(folder: Path) -> dict[str, Any]:
    """Return by k the settings of faiss that take least time."""
    import faiss

    queries = np.load(folder / "queries.npy")
    search = flat_faiss(folder, {})
    times: dict[int, list[tuple[float, dict[str, int]]]] = {10: [], 100: []}
    for threads in sorted({1, faiss.omp_get_max_threads()}):
        for block in (1_024, 4_096, 16_384):
            settings = {"threads": threads, "block": block, "matrix_from": 4_000}
            set_faiss(settings)
            for k, of_k in times.items():
                search(queries[:32], k)
                for _ in range(3):
                    started = time.perf_counter()
                    search(queries, k)
                    of_k.append((time.perf_counter() - started, settings))
    return {str(k): min(of_k, key=lambda one: one[0])[1] for k, of_k in times.items()}


def main(arguments: list[str]) -> dict[str, Any]:
    """Do what the first argument names."""
    what, given = arguments[0], json.loads(arguments[1])
    folder = Path(given["folder"])
    if what == "make":
        return make(folder, given["count"], given["queries"])
    if what == "build":
        return build(folder, given["count"])
    if what == "graph":
        return graph(folder, given["count"], given["directions"])
    if what == "tune":
        return tune(folder)
    queries = np.load(folder / "queries.npy")
    if what == "ours":
        return measured(lambda: ours(folder), queries, folder / "ours.npz")
    settings = given["settings"]
    return measured(lambda: flat_faiss(folder, settings), queries, folder / f"{what}.npz")


if __name__ == "__main__":
    result = main(sys.argv[1:])
    click.echo(json.dumps({"peak": peak_bytes(), **result}))
