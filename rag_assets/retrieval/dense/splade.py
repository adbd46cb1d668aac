"""``type: splade``: learned sparse vectors, searched exactly by inner product.

The score is the sum over the components that query and chunk share, in float64, of the products of
their weights, added in the order of the components: equal vectors have equal scores, whatever
stands beside them. A chunk without a component of the query is no hit, as in any inverted index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from rag_assets.models.cache_fill import SparseVector
from rag_assets.models.encoder import SparseTextEncoder
from rag_assets.models.model_files import tokenizer_file
from rag_assets.models.model_names import open_tokenizer
from rag_assets.ordering import Hits, top_k
from rag_assets.retrieval.array_folder import (
    POSTINGS,
    ArrayFolder,
    Entries,
    Segment,
    new_segments,
    sums,
    table_of,
)
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
        ids, earlier = chunks.column("chunk_id").to_pylist(), workspace.earlier
        embed = partial(self.vectors, kind="document", workspace=workspace)
        facts = build_index(ids, texts, folder, earlier, embed, self._name_of())
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
    segments: Sequence[Segment]

    @classmethod
    def load(cls, folder: Path) -> ComponentIndex:
        """Open what :func:`build_index` wrote."""
        files = ArrayFolder(folder)
        segments = [Segment.load(files, end) for end in files.ends()]
        ids = [name for each in segments for name in each.chunks.column("chunk_id").to_pylist()]
        return cls(ids, segments)

    def read(self, queries: pa.Table) -> list[SparseVector]:
        return sparse_vectors(queries)

    def ranked(self, query: SparseVector, depth: int) -> Hits:
        """Return the ``depth`` best chunks of those that share a component with a query.

        Order: score descending, then id descending by UTF-8 bytes, exact at the cut.
        """
        parts = [np.empty(0)]
        for segment in self.segments:
            held = query.components < segment.terms.num_rows  # what no chunk has is left out
            columns = [segment.column(number) for number in query.components[held].tolist()]
            factors = query.weights[held].astype(np.float64)
            parts.append(sums(columns, segment.chunks.num_rows, factors))
        scores = np.concatenate(parts)
        chunks = np.flatnonzero(scores)
        best = top_k(scores[chunks], self.ids_rank[chunks], depth)
        return Hits(chunks[best], scores[chunks][best])


def build_index(
    chunk_ids: Sequence[str],
    texts: Sequence[str],
    folder: Path,
    earlier: Path | None,
    embed: Callable[[Sequence[str]], Sequence[SparseVector]],
    name_of: Callable[[int], str | None] = str,
) -> dict[str, Any]:
    """Write an index into an existing folder; see :func:`.vector_index.build_vectors`.

    A component is called by the model's name of it; a nameless one is a number.
    """
    from scipy.sparse import csr_array

    files, names = ArrayFolder(folder), cache(lambda number: name_of(number) or str(number))
    rows, segments = new_segments(chunk_ids, texts, files, earlier)
    vectors = embed([texts[row] for row in rows])
    for end, ids, places in segments:
        parts = [vectors[place] for place in places]
        starts = np.cumsum([0, *(len(part.components) for part in parts)])
        components = np.concatenate([part.components for part in parts]).astype(np.int32)
        weights = np.concatenate([part.weights for part in parts]).astype(np.float32)
        shape = (len(ids), int(components.max(initial=-1)) + 1)
        turned = csr_array((weights, components, starts), shape=shape).tocsc()
        terms = pa.array([names(number) for number in range(shape[1])], pa.string())
        segment = Segment(
            table_of(chunk_id=pa.array(ids, pa.string())),
            table_of(term=terms, document_frequency=np.diff(turned.indptr.astype(np.int64))),
            Entries(turned.indices.astype(np.int32), turned.data),
        )
        files.save(**{name + end: table for name, table in segment.tables().items()})
    postings = (pq.read_metadata(files.table_file(POSTINGS + end)) for end in files.ends())
    n_entries = sum(about.num_rows for about in postings)
    return {
        "chunks": len(chunk_ids),
        "bytes": files.size,
        "mean_components": round(n_entries / max(len(chunk_ids), 1), 3),
    }
