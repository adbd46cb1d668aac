"""``type: embedding``: vectors of a bi-encoder, searched exactly or by a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, ValidationInfo, field_validator

from rag_assets.models.encoder import Encoder, Progress
from rag_assets.models.loading import PACKAGES, precision_facts, resolve_precision
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.models.token_counts import count_truncated, truncation_facts
from rag_assets.models.unit_vectors import Vectors
from rag_assets.models.vector_cache import MakeVectors
from rag_assets.options import Options
from rag_assets.package_versions import version
from rag_assets.retrieval.base import EmbeddingRetriever
from rag_assets.retrieval.dense import flat_index, hnsw_index
from rag_assets.retrieval.dense.exact import ExactSearcher
from rag_assets.retrieval.dense.hnsw_index import HnswSearcher
from rag_assets.retrieval.dense.query_vectors import dense_table
from rag_assets.retrieval.retriever import Searcher
from rag_assets.retrieval.workspace import NO_WORKSPACE, Workspace, measured


class HnswOptions(Options):
    """A graph: ``m`` links a chunk, made from ``ef_construction`` candidates each.

    A search looks at ``ef_search`` chunks: no query has more results, however large top_k is.
    """

    m: Annotated[int, Field(ge=2, le=256, strict=True)] = 32
    ef_construction: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 200
    ef_search: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 256


class BiEncoder(EmbeddingRetriever):
    """Embedding retrieval: vectors of a bi-encoder.

    The prompts are put before every query or document; by default the model's own.
    ``similarity: cosine`` brings vectors to length 1; ``dot`` is the inner product of the model's
    own, ``euclidean`` the negative of their distance. ``index: flat`` is exact; ``hnsw`` follows a
    graph, and may miss chunks. ``precision: auto`` computes in bfloat16 where the processor has it;
    what is used is part of every fingerprint and said with the result.
    """

    model_kind: ClassVar[str | None] = "sentence-transformers"
    search_kind: ClassVar[str | None] = "faiss"
    search_packages: ClassVar[tuple[str, ...]] = ("faiss-cpu",)

    type: Literal["embedding"]
    model: str = Field(default=DEFAULT_MODEL, min_length=1)
    query_prompt: str | None = None
    document_prompt: str | None = None
    similarity: Literal["cosine", "dot", "euclidean"] = "cosine"
    index: Literal["flat", "hnsw"] = "flat"
    hnsw: HnswOptions | None = Field(default=None, validate_default=True)
    precision: Literal["auto", "float32", "bfloat16"] = "float32"

    @field_validator("hnsw")
    @classmethod
    def _belongs_to_hnsw(cls, hnsw: HnswOptions | None, info: ValidationInfo) -> HnswOptions | None:
        if info.data.get("index", "hnsw") == "hnsw":
            return HnswOptions() if hnsw is None else hnsw
        if hnsw is not None:
            raise ValueError("hnsw belongs to index: hnsw")
        return None

    def describe(self, kind: Literal["query", "document"]) -> Mapping[str, Any]:
        """Return weights, tokenizer, prompt, maximum length, pooling and the like."""
        return self._encoder().describe(kind)

    def tokenizer_files(self) -> ModelFiles:
        """Return the model's files."""
        return self._encoder().files

    def index_options(self) -> Mapping[str, Any]:
        """Return what a graph is made by; all else that counts is in :meth:`describe`."""
        if self.hnsw is None:
            return {}
        own = self.hnsw.model_dump(exclude={"ef_search"})
        return {"index": "hnsw", **own, "similarity": self.similarity}

    def search_config(self) -> Mapping[str, Any]:
        """Return the options that determine the ranking besides the index, but the defaults."""
        config = dict(super().search_config())
        if self.similarity != "cosine":
            config["similarity"] = self.similarity
        if self.hnsw is not None:
            config["ef_search"] = self.hnsw.ef_search
        return config

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds, and of what makes the graph."""
        graph = () if self.hnsw is None else ("faiss-cpu",)
        return {name: version(name) for name in (*PACKAGES, *graph)}

    def most_results(self) -> tuple[str, int] | None:
        """Return ``ef_search`` of a graph."""
        return None if self.hnsw is None else ("hnsw.ef_search", self.hnsw.ef_search)

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        """Embed the texts and write their vectors.

        Among the facts are ``n_truncated``, how many chunks are longer than the model reads, and
        ``precision``.
        """
        # A graph is made of its chunks in another order.
        make = np.zeros if self.hnsw is not None else flat_index.vectors_on_disk(folder)
        vectors = self._vectors(texts, "document", workspace, make)
        facts = self._write(chunks.column("chunk_id").to_pylist(), vectors, folder)
        encoder = self._encoder()
        counted = workspace.cache_of("token_counts")
        n_truncated = count_truncated(texts, encoder.files, encoder.prompt("document"), counted)
        told = (truncation_facts(n_truncated, len(texts)), precision_facts(self.precision))
        notes = [note for one in told for note in one.get("notes", ())]
        return {**facts, **told[0], **told[1], **({"notes": notes} if notes else {})}

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        """Embed the queries."""
        texts = variants.column("text").to_pylist()
        return dense_table(variants, self._vectors(texts, "query", workspace))

    def encode_now(self, texts: Sequence[str]) -> bool:
        """Embed queries past the cache, when the model is in memory."""
        encoder = self._encoder()
        if not encoder.is_loaded:
            return False
        encoder.encode_now(texts, kind="query")
        return True

    def open(self, folder: Path) -> Searcher[pa.Table]:
        """Open the vectors, and the graph where there is one."""
        if self.hnsw is not None:
            return HnswSearcher(hnsw_index.load(folder, self._measure()), self.hnsw.ef_search)
        return ExactSearcher(flat_index.FlatIndex.load(folder), self.similarity)

    def _write(self, ids: Sequence[str], vectors: Vectors, folder: Path) -> Mapping[str, Any]:
        if self.hnsw is not None:
            options = self.hnsw.model_dump(exclude={"ef_search"})
            return hnsw_index.build(ids, vectors, folder, measure=self._measure(), **options)
        if self.similarity == "cosine":
            return flat_index.build(ids, vectors, folder)
        return flat_index.save(ids, vectors, folder)

    def _measure(self) -> hnsw_index.Measure:
        # The inner product of vectors of length 1 is their cosine.
        return "euclidean" if self.similarity == "euclidean" else "dot"

    def _vectors(
        self,
        texts: Sequence[str],
        kind: Literal["query", "document"],
        workspace: Workspace,
        make: MakeVectors = np.zeros,
    ) -> Vectors:
        def encode(progress: Progress) -> Vectors:
            return self._encoder(workspace).encode(texts, kind=kind, progress=progress, make=make)

        return measured(encode, texts, kind, workspace)

    def _encoder(self, workspace: Workspace = NO_WORKSPACE) -> Encoder:
        return Encoder(
            **workspace.encoder_options(self, "embeddings"),
            normalise=self.similarity == "cosine",
            precision=resolve_precision(self.precision),
        )
