"""``type: splade``: learned sparse vectors, searched exactly by inner product.

The score is the sum over the components that query and chunk share, in float64, of the products of
their weights, added in the order of the components: equal vectors have equal scores, whatever
stands beside them. A chunk without a component of the query is no hit, as in any inverted index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from rag_assets.models.cache_fill import SparseVector
from rag_assets.models.encoder import SparseTextEncoder
from rag_assets.models.model_files import tokenizer_file
from rag_assets.models.model_names import open_tokenizer
from rag_assets.ordering import Hits, Positions, byte_order_ranks, top_k
from rag_assets.retrieval.array_folder import ArrayFolder, Entries, Segment, sums, table_of
from rag_assets.retrieval.base import QuerySearcher, Role
from rag_assets.retrieval.dense.embedding import LocalModelRetriever
from rag_assets.retrieval.dense.vector_index import sparse_table, sparse_vectors
from rag_assets.retrieval.workspace import NO_WORKSPACE, Workspace


class Splade(LocalModelRetriever):
    """Learned sparse retrieval: a model weighs the words of its vocabulary for each text.

    ``model`` is one of sentence-transformers' sparse encoders, or a masked language model, which is
    pooled as in SPLADE v2. The prompts are put before every query or document; by default the
    model's own. The score is the inner product; a chunk that shares no word is not found.
    """

    search_kind: ClassVar[str | None] = "numpy"
    search_packages: ClassVar[tuple[str, ...]] = ("numpy",)

    type: Literal["splade"]
    model: Annotated[str, Field(min_length=1), Role.MODEL]

    def encoder(self, workspace: Workspace = NO_WORKSPACE) -> SparseTextEncoder:
        return SparseTextEncoder(**workspace.encoder_options(self, "sparse_embeddings"))

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        """Embed the texts and write their vectors.

        Among the facts are ``mean_components``, how many words a chunk has a weight for, and
        ``n_truncated``, how many chunks are longer than the model reads.
        """
        vectors = self.vectors(texts, "document", workspace)
        ids = chunks.column("chunk_id").to_pylist()
        facts = build_index(ids, vectors, folder, self._name_of())
        return {**facts, **self.truncation(texts, workspace)}

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        texts = variants.column("text").to_pylist()
        return sparse_table(variants, self.vectors(texts, "query", workspace))

    def open(self, folder: Path) -> ComponentIndex:
        return ComponentIndex.load(folder)

    def _name_of(self) -> Callable[[int], str | None]:
        """Return what names a component: the model's tokenizer, where it has a file of one."""
        file = tokenizer_file(self.encoder().files.path)
        return str if file is None else open_tokenizer(file).id_to_token


@dataclass(frozen=True)
class ComponentIndex(QuerySearcher[pa.Table]):
    """Sparse vectors that are searched exactly: a column for each component of the model."""

    chunk_ids: Sequence[str]
    segment: Segment

    @classmethod
    def load(cls, folder: Path) -> ComponentIndex:
        """Open what :func:`build_index` wrote."""
        segment = Segment.load(ArrayFolder(folder))
        return cls(segment.chunks.column("chunk_id").to_pylist(), segment)

    @cached_property
    def ids_rank(self) -> Positions:
        """``byte_order_ranks`` of the chunk ids."""
        return byte_order_ranks(self.chunk_ids)

    def read(self, queries: pa.Table) -> list[SparseVector]:
        return sparse_vectors(queries)

    def ranked(self, query: SparseVector, depth: int) -> Hits:
        """Return the ``depth`` best chunks of those that share a component with a query.

        Order: score descending, then id descending by UTF-8 bytes, exact at the cut.
        """
        held = query.components < self.segment.terms.num_rows  # what no chunk has is left out
        factors = query.weights[held].astype(np.float64)
        columns = [self.segment.column(number) for number in query.components[held].tolist()]
        scores = sums(columns, len(self.chunk_ids), factors.tolist())
        chunks = np.flatnonzero(scores)
        best = top_k(scores[chunks], self.ids_rank[chunks], depth)
        return Hits(chunks[best], scores[chunks][best])


def build_index(
    chunk_ids: Sequence[str],
    vectors: Sequence[SparseVector],
    folder: Path,
    name_of: Callable[[int], str | None] = str,
) -> dict[str, Any]:
    """Write an index into an existing folder, ordered by id; a nameless component is a number."""
    from scipy.sparse import csr_array

    order = np.argsort(byte_order_ranks(chunk_ids)).tolist()
    lengths = [len(vectors[row].components) for row in order]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    none = SparseVector(np.empty(0, np.int32), np.empty(0, np.float32))
    parts = [none, *(vectors[row] for row in order)]
    components = np.concatenate([part.components for part in parts]).astype(np.int32)
    weights = np.concatenate([part.weights for part in parts]).astype(np.float32)
    shape = (len(order), int(components.max(initial=-1)) + 1)
    turned = csr_array((weights, components, starts), shape=shape).tocsc()
    names = [name_of(number) or str(number) for number in range(shape[1])]
    holding = np.diff(turned.indptr.astype(np.int64))
    segment = Segment(
        table_of(chunk_id=pa.array([chunk_ids[row] for row in order], pa.string())),
        table_of(term=pa.array(names, pa.string()), document_frequency=holding),
        Entries(turned.indices.astype(np.int32), turned.data),
    )
    files = ArrayFolder(folder)
    files.save(**segment.tables())
    mean = round(float(np.mean(lengths)), 3) if lengths else 0.0
    return {
        "chunks": len(lengths),
        "bytes": files.size,
        "mean_components": mean,
    }
