"""Vectors of a model in this process, ``type: embedding``, or of a server, ``openai_embedding``.

They are searched exactly, or by a graph. Malkov and Yashunin: Efficient and Robust Approximate
Nearest Neighbor Search Using Hierarchical Navigable Small World Graphs (2018), as faiss has it.
``m`` is how many neighbours a chunk is linked to (twice as many in the lowest layer),
``ef_construction`` how many candidates are looked at for each link, ``ef_search`` how many for a
query.

What a graph finds is approximate: a search gives ``ef_search`` candidates, whatever the depth that
is asked for, so that a shorter list is the beginning of a longer one. Score and order among the
candidates are exact, in float64. The graph is built by one thread in the order of the chunks' ids,
with the fixed seed of faiss: equal vectors give an equal file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, ValidationInfo, field_validator

from rag_assets.errors import StoreError
from rag_assets.llm.client import DEFAULT_BASE_URL
from rag_assets.llm.completions import MILLION, Estimate
from rag_assets.llm.models import OpenAIEmbeddings
from rag_assets.models.cache_fill import (
    DENSE_VECTORS,
    MakeArray,
    Progress,
    Rows,
    ValueCache,
    Vectors,
    as_wanted,
    checked_lengths,
    filled,
)
from rag_assets.models.encoder import Encoder, Kind
from rag_assets.models.model_files import PACKAGES, ModelFiles
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.models.token_counts import truncation_facts
from rag_assets.options import Number, Options
from rag_assets.ordering import Hits, byte_order_ranks
from rag_assets.package_versions import version
from rag_assets.retrieval.array_folder import LAYOUT, ArrayFolder, table_end
from rag_assets.retrieval.base import EmbeddingRetriever, Role, Searcher
from rag_assets.retrieval.dense.vector_index import (
    Similarity,
    VectorIndex,
    build_vectors,
    dense_table,
    save_vectors,
)
from rag_assets.retrieval.workspace import NO_WORKSPACE, Usage, Workspace, measured
from rag_assets.servers.client import ServedModelOptions, ServerAddress
from rag_assets.store.canonical import fingerprint
from rag_assets.store.content_cache import text_keys

GRAPH_FILE = "hnsw.faiss"


class LocalModelRetriever(EmbeddingRetriever, ABC):
    """Embedding retrieval by a model in this process."""

    model_kind: ClassVar[str | None] = "sentence-transformers"
    packages: ClassVar[tuple[str, ...]] = PACKAGES

    model: Annotated[str, Field(min_length=1), Role.MODEL] = DEFAULT_MODEL
    query_prompt: Annotated[str | None, Role.MODEL] = None
    document_prompt: Annotated[str | None, Role.MODEL] = None

    @abstractmethod
    def encoder(self, workspace: Workspace = NO_WORKSPACE) -> Any:  # noqa: ANN401
        """Return the model with its prompts and caches; it is loaded for the first unknown text."""

    def describe(self, kind: Kind) -> Mapping[str, Any]:
        return dict(self.encoder().describe(kind))

    def tokenizer_files(self) -> ModelFiles:
        files: ModelFiles = self.encoder().files
        return files

    def encode_now(self, texts: Sequence[str]) -> bool:
        encoder = self.encoder()
        if not encoder.is_loaded:
            return False
        encoder.encode_now(texts, kind="query")
        return True

    def vectors(
        self, texts: Sequence[str], kind: Kind, workspace: Workspace, **options: object
    ) -> Any:  # noqa: ANN401 (whatever the encoder gives)
        """Return what the texts are encoded as, and keep what it took."""
        encode = self.encoder(workspace).encode
        return measured(
            lambda progress: encode(texts, kind=kind, progress=progress, **options),
            texts,
            kind,
            workspace,
        )

    def truncation(self, texts: Sequence[str], workspace: Workspace) -> Mapping[str, Any]:
        """Return the facts of how many chunks are longer than the model reads."""
        encoder, counted = self.encoder(), workspace.cache_of("token_counts")
        return truncation_facts(texts, encoder.files, encoder.prompt("document"), counted)


class DenseRetriever(LocalModelRetriever, ABC):
    """One vector a text, of a bi-encoder in this process."""

    similarity: Annotated[Similarity, Role.SEARCH] = "cosine"

    def encoder(self, workspace: Workspace = NO_WORKSPACE) -> Encoder:
        return Encoder(
            **workspace.encoder_options(self, "embeddings"), normalise=self.similarity == "cosine"
        )

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        texts = variants.column("text").to_pylist()
        return dense_table(variants, self.vectors(texts, "query", workspace))


class HnswOptions(Options):
    """A graph: ``m`` links a chunk, made from ``ef_construction`` candidates each.

    A search looks at ``ef_search`` chunks: no query has more results, however large top_k is.
    """

    m: Annotated[int, Field(ge=2, le=256, strict=True)] = 32
    ef_construction: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 200
    ef_search: Annotated[int, Field(ge=1, le=100_000, strict=True), Role.SEARCH] = 256


class BiEncoder(DenseRetriever):
    """Embedding retrieval: vectors of a bi-encoder.

    The prompts are put before every query or document; by default the model's own.
    ``similarity: cosine`` brings vectors to length 1; ``dot`` is the inner product of the model's
    own, ``euclidean`` the negative of their distance. ``index: flat`` is exact; ``hnsw`` follows a
    graph, and may miss chunks.
    """

    search_kind: ClassVar[str | None] = "faiss"
    search_packages: ClassVar[tuple[str, ...]] = ("faiss-cpu",)

    type: Literal["embedding"]
    index: Literal["flat", "hnsw"] = "flat"
    hnsw: HnswOptions | None = Field(default=None, validate_default=True)

    @field_validator("hnsw")
    @classmethod
    def _belongs_to_hnsw(cls, hnsw: HnswOptions | None, info: ValidationInfo) -> HnswOptions | None:
        if info.data.get("index", "hnsw") == "hnsw":
            return HnswOptions() if hnsw is None else hnsw
        if hnsw is not None:
            raise ValueError("hnsw is only for index: hnsw")
        return None

    def index_options(self) -> Mapping[str, Any]:
        graph = {"similarity": self.similarity} if self.hnsw is not None else {}
        return {**super().index_options(), **graph}

    def versions(self) -> Mapping[str, str]:
        graph = () if self.hnsw is None else ("faiss-cpu",)
        return {**super().versions(), **{name: version(name) for name in graph}}

    def most_results(self) -> tuple[str, int] | None:
        return None if self.hnsw is None else ("hnsw.ef_search", self.hnsw.ef_search)

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        ids = chunks.column("chunk_id").to_pylist()
        if self.hnsw is None:
            embed = partial(self.vectors, kind="document", workspace=workspace)
            facts = build_vectors(ids, texts, folder, workspace.earlier, embed)
        else:
            options = self.hnsw.model_dump(exclude={"ef_search"})
            vectors = self.vectors(texts, "document", workspace)
            facts = save_graph(ids, vectors, folder, similarity=self.similarity, **options)
        return {**facts, **self.truncation(texts, workspace)}

    def open(self, folder: Path) -> Searcher[pa.Table]:
        if self.hnsw is not None:
            return HnswIndex.load(folder, self.similarity, self.hnsw.ef_search)
        return VectorIndex.load(folder, self.similarity)


@dataclass(frozen=True)
class HnswIndex(VectorIndex):
    """Vectors that are searched approximately, by a graph; a part of them exactly.

    Attributes:
        graph: faiss's index; it needs ``storage``, which is kept here for it.
        storage: faiss's copy of the vectors.
        ef_search: candidates of a query.
    """

    graph: Any = None
    storage: Any = None
    ef_search: int = 256

    @classmethod
    def load(
        cls, folder: Path, similarity: Similarity = "cosine", ef_search: int = 256
    ) -> HnswIndex:
        """Open what ``save_graph`` wrote."""
        faiss, index = _faiss(), VectorIndex.load(folder, similarity)
        try:
            graph = faiss.read_index(str(folder / GRAPH_FILE))
        except RuntimeError as error:
            what = str(error).splitlines()[0]
            raise StoreError(f"graph {folder / GRAPH_FILE} cannot be read: {what}") from error
        if graph.ntotal != len(index.chunk_ids) or graph.metric_type != _metric(similarity):
            raise StoreError(
                f"embedding index {folder} is damaged: {len(index.chunk_ids)} ids, and a graph of "
                f"{graph.ntotal} chunks"
            )
        storage = faiss.IndexFlat(graph.d, graph.metric_type)
        if index.chunk_ids:
            storage.add(np.ascontiguousarray(index.segments[0]))
        graph.storage, graph.own_fields = storage, False
        return cls(index.chunk_ids, index.segments, similarity, graph, storage, ef_search)

    def prepare(self) -> None:
        """Do nothing: the graph has what it needs."""

    def best_of_block(self, queries: Vectors, k: int) -> list[Hits]:
        """Return for each query the best ``k`` of the chunks that the graph leads to."""
        parameters = _faiss().SearchParametersHNSW(efSearch=self.ef_search)
        fetched = min(self.ef_search, len(self.chunk_ids))
        block = np.ascontiguousarray(queries)
        _, candidates = self.graph.search(block, fetched, params=parameters)
        pairs = zip(block, candidates, strict=True)  # -1: there are no more
        return [self.ranked(query, positions[positions >= 0], k) for query, positions in pairs]


def save_graph(
    chunk_ids: Sequence[str],
    vectors: Vectors,
    folder: Path,
    *,
    similarity: Similarity,
    m: int,
    ef_construction: int,
) -> dict[str, Any]:
    """Write vectors, ordered by id, in one segment, and their graph into an existing folder."""
    faiss = _faiss()
    order = np.argsort(byte_order_ranks(chunk_ids))
    ids = [chunk_ids[row] for row in order]
    ordered = np.ascontiguousarray(vectors[order], dtype=np.float32)
    files = ArrayFolder(folder)
    files.save(**{LAYOUT: {"segments": 1}})
    save_vectors(ids, ordered, folder, table_end(0))
    checked_lengths(ordered, lambda row: f"chunk '{ids[row]}'")
    facts = {"chunks": len(ids), "dimension": ordered.shape[1], "bytes": files.size}
    graph = faiss.IndexHNSWFlat(max(ordered.shape[1], 1), m, _metric(similarity))
    graph.hnsw.efConstruction = ef_construction
    # Several threads would link chunks in the order in which they happen to be done.
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        graph.add(ordered.reshape(len(ids), -1) if ids else np.empty((0, graph.d), np.float32))
    finally:
        faiss.omp_set_num_threads(threads)
    # The vectors lie beside it already.
    faiss.write_index(graph, str(folder / GRAPH_FILE), faiss.IO_FLAG_SKIP_STORAGE)
    return {**facts, "graph_bytes": (folder / GRAPH_FILE).stat().st_size}


def _metric(similarity: Similarity) -> int:
    """Return what a graph compares by: the cosine is the inner product of unit vectors."""
    faiss = _faiss()
    metric: int = faiss.METRIC_L2 if similarity == "euclidean" else faiss.METRIC_INNER_PRODUCT
    return metric


def _faiss() -> Any:  # noqa: ANN401 (its published types lack what is used here)
    import faiss

    return faiss


Count = Annotated[int, Field(ge=1, strict=True)]
Price = Annotated[Number, Field(ge=0)]


class OpenAIEmbedding(ServedModelOptions, EmbeddingRetriever):
    """Embedding retrieval by a server, searched exactly.

    ``similarity: cosine`` brings vectors to length 1; ``dot`` is the inner product as they come,
    ``euclidean`` the negative of their distance.

    The key is read from the environment variable ``api_key_env``, null for a server that needs
    none. ``dimensions`` asks for shorter vectors. The prompts are put before every query or
    document. How often and how fast is asked changes no result, nor does ``price``, that of a
    million tokens, for the cost that ``leaderboard --latency`` shows. ``max_calls`` bounds the
    requests of an index, or of the queries, besides those of ``latency_sample``.
    """

    asks_server: ClassVar[bool] = True
    model_kind: ClassVar[str | None] = "openai"
    search_kind: ClassVar[str | None] = "faiss"
    provider: ClassVar[str | None] = "openai"
    search_packages: ClassVar[tuple[str, ...]] = ("faiss-cpu",)

    type: Literal["openai_embedding"]
    model: Annotated[str, Field(min_length=1), Role.MODEL]
    base_url: Annotated[ServerAddress, Role.MODEL] = DEFAULT_BASE_URL
    api_key_env: str | None = "OPENAI_API_KEY"
    dimensions: Annotated[Count | None, Role.MODEL] = None
    query_prompt: Annotated[str, Role.MODEL] = ""
    document_prompt: Annotated[str, Role.MODEL] = ""
    similarity: Annotated[Similarity, Role.SEARCH] = "cosine"
    batch_size: Annotated[int, Field(ge=1, le=2048, strict=True), Role.NOTHING] = 64
    price: Annotated[Price | None, Role.NOTHING] = None

    def describe(self, kind: Kind) -> Mapping[str, Any]:
        """Return the model, its server and the prompt; never the key or the name of its variable.

        A server may exchange the weights behind a name: that cannot be seen from here.
        """
        return {
            "model": self.model,
            "server": self.place,
            "dimensions": self.dimensions,
            "prompt": self._prompt(kind),
            "normalisation": "l2" if self.similarity == "cosine" else "none",
            "backend": "openai",
        }

    def expected_requests(self, texts: Sequence[str], kind: Kind) -> Estimate:
        tokens = sum(len((self._prompt(kind) + text).encode()) for text in texts)
        cost = tokens * self.price / MILLION if self.price is not None else None
        return Estimate(0, -(-len(texts) // self.batch_size), cost, tokens)

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        ids = chunks.column("chunk_id").to_pylist()
        embed = partial(self._vectors, kind="document", workspace=workspace)
        return build_vectors(ids, texts, folder, workspace.earlier, embed)

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        texts = variants.column("text").to_pylist()
        return dense_table(variants, self._vectors(texts, "query", workspace))

    def open(self, folder: Path) -> VectorIndex:
        return VectorIndex.load(folder, self.similarity)

    def _vectors(
        self, texts: Sequence[str], kind: Kind, workspace: Workspace, make: MakeArray = np.zeros
    ) -> Vectors:
        """Return one vector for each text; what was answered is kept if a later one fails.

        Raises:
            UsageError: the key's variable is not set.
            ModelUnavailable: the server does not answer as it should.
            BudgetReached: ``max_calls`` allow no more.
            DataError: it gives NaN, or what no similarity is defined for, for a text.
        """
        opened: list[OpenAIEmbeddings] = []
        prompted = [self._prompt(kind) + text for text in texts]
        space = fingerprint(
            {name: v for name, v in self.describe(kind).items() if name != "prompt"}
        )
        folder = workspace.cache_of("embeddings")
        cache = None if folder is None else ValueCache.of_space(folder, space, DENSE_VECTORS)

        def compute(rows: Rows) -> Iterator[tuple[Rows, Vectors]]:
            opened.append(self._server())
            missing = [prompted[row] for row in rows.tolist()]
            for start, vectors in opened[0].embed(missing):
                some = slice(start, start + len(vectors))
                names = [repr(text[:80]) for text in missing[some]]
                is_unit = self.similarity == "cosine"
                yield rows[some], as_wanted(vectors, names.__getitem__, normalise=is_unit)

        def encode(progress: Progress) -> Vectors:
            keys = text_keys(prompted)
            return filled(keys, DENSE_VECTORS, cache, compute, progress=progress, make=make)

        def measure(usage: Usage) -> None:
            tokens = opened[0].tokens if opened and not usage.cached else None
            priced = tokens is not None and self.price is not None
            cost = (tokens or 0) * (self.price or 0.0) / MILLION if priced else None
            workspace.measure(replace(usage, tokens=tokens, cost=cost))

        return measured(encode, texts, kind, replace(workspace, measure=measure))

    def _server(self) -> OpenAIEmbeddings:
        return OpenAIEmbeddings(self, dimensions=self.dimensions, batch_size=self.batch_size)

    def _prompt(self, kind: Kind) -> str:
        return self.query_prompt if kind == "query" else self.document_prompt
