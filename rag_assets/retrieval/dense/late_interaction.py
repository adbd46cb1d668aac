"""``type: late_interaction``: one vector a token, searched exactly by MaxSim.

All tokens of all chunks lie one after the other in one memory-mapped file, in half precision.
Blocks of tokens are multiplied with many queries at once in fp32; what this may have rounded away
from the best k is then scored pair by pair, as a reranker scores it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.errors import StoreError, UsageError
from rag_assets.models.token_counts import in_batches
from rag_assets.models.token_encoder import NOTHING, TokenEncoder, maxsim
from rag_assets.models.vector_cache import TokenVectors
from rag_assets.ordering import Hits, Positions, byte_order_ranks, top_k
from rag_assets.retrieval.array_folder import CHUNK_IDS, ArrayFolder
from rag_assets.retrieval.dense.embedding import LocalModelRetriever
from rag_assets.retrieval.dense.query_vectors import token_table, token_vectors
from rag_assets.retrieval.retriever import Searcher
from rag_assets.retrieval.workspace import NO_WORKSPACE, Workspace

QUERIES_AT_ONCE = 32

TOKENS_AT_ONCE = 32_768
"""Of a block; with the queries at once, about 60 MB of cosines."""

Rough = npt.NDArray[np.float32]


class LateInteraction(LocalModelRetriever):
    """Late interaction with every chunk: each query token takes its best token of the chunk.

    ``model`` is one that was trained for it (ColBERT), or any bi-encoder. The score is the mean
    over the query tokens of the highest cosine, as that of ``maxsim``.
    """

    search_packages: ClassVar[tuple[str, ...]] = ("numpy",)

    type: Literal["late_interaction"]

    def encoder(self, workspace: Workspace = NO_WORKSPACE) -> TokenEncoder:
        """Return the model."""
        return TokenEncoder(**workspace.encoder_options(self, "token_vectors"))

    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        """Embed the texts and write the vectors of their tokens; ``mean_tokens`` is a fact."""
        vectors = self.vectors(texts, "document", workspace)
        ids = chunks.column("chunk_id").to_pylist()
        return save_tokens(ids, [vectors[text] for text in texts], folder)

    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        """Embed the queries."""
        texts = variants.column("text").to_pylist()
        vectors = self.vectors(texts, "query", workspace)
        return token_table(variants, [vectors[text] for text in texts])

    def open(self, folder: Path) -> TokenIndex:
        """Open the vectors."""
        return TokenIndex.load(folder)


@dataclass(frozen=True)
class TokenIndex(Searcher[pa.Table]):
    """Chunks and the vectors of their tokens, searched exactly.

    Attributes:
        chunk_ids: ids of the chunks; positions refer to this order.
        vectors: float16, shape (all tokens, dimension), rows of length 1.
        starts: int64, shape (len(chunk_ids) + 1,): where the tokens of each chunk begin.
    """

    chunk_ids: tuple[str, ...]
    vectors: TokenVectors
    starts: Positions

    @classmethod
    def load(cls, folder: Path) -> TokenIndex:
        """Open what ``save_tokens`` wrote; the vectors stay on disk until they are used.

        Raises:
            StoreError: the folder holds no such index, or its files do not fit together.
        """
        files = ArrayFolder(folder)
        chunk_ids, vectors = tuple(files.texts(CHUNK_IDS)), files.array("token_vectors")
        starts = files.array("first_tokens", mmap=False)
        if starts.shape != (len(chunk_ids) + 1,) or vectors.ndim != 2 or starts[-1] != len(vectors):
            raise StoreError(
                f"token index {folder} is damaged: {len(chunk_ids)} ids, {len(starts)} starts and "
                f"vectors of shape {vectors.shape}"
            )
        return cls(chunk_ids, vectors, starts)

    @cached_property
    def ids_rank(self) -> Positions:
        """``byte_order_ranks`` of the chunk ids."""
        return byte_order_ranks(self.chunk_ids)

    @cached_property
    def with_tokens(self) -> Positions:
        """Positions of the chunks that have a token; the others are never found."""
        return np.flatnonzero(np.diff(self.starts))

    def of(self, position: int) -> TokenVectors:
        """Return the vectors of one chunk."""
        return self.vectors[self.starts[position] : self.starts[position + 1]]

    def restricted_to(self, positions: Positions) -> TokenIndex:
        """Return the index of these chunks alone: a score depends on no other chunk."""
        parts = [self.vectors[:0], *(self.of(position) for position in positions.tolist())]
        starts = np.cumsum([len(part) for part in parts])
        chunk_ids = tuple(self.chunk_ids[position] for position in positions)
        return TokenIndex(chunk_ids, np.concatenate(parts), starts)

    def search(
        self, queries: pa.Table, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best chunks of each query."""
        vectors = token_vectors(queries, self.vectors.shape[1])
        return self.nearest(vectors, depth, progress)

    def nearest(
        self,
        queries: Sequence[TokenVectors],
        k: int,
        progress: Callable[[int], None] | None = None,
    ) -> list[Hits]:
        """Return for each query its ``k`` best chunks, of those that have a token.

        Order: score descending, then id descending by UTF-8 bytes, exact at the cut. The score is
        that of :func:`rag_assets.models.token_encoder.maxsim`. A query without a token finds
        nothing.

        Raises:
            UsageError: ``k`` is below 1.
        """
        if k < 1:
            raise UsageError(f"k is {k}; it must be at least 1")
        hits: list[Hits] = []
        for group in in_batches(queries, QUERIES_AT_ONCE):
            for query, scores in zip(group, self._rough_scores(group), strict=True):
                hits.append(self._exact_hits(query, scores, k))
            if progress is not None:
                progress(len(hits))
        return hits

    def _rough_scores(self, queries: Sequence[TokenVectors]) -> Rough:
        """Return scores rounded as fp32 rounds, shape (queries, chunks that have a token)."""
        scores = np.full((len(queries), len(self.with_tokens)), NOTHING, dtype=np.float32)
        asked = [row for row, query in enumerate(queries) if len(query)]
        if not asked:
            return scores
        tokens = np.concatenate([queries[row] for row in asked]).astype(np.float32)
        lengths = np.array([len(queries[row]) for row in asked])
        firsts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        for begin, end in self._blocks():
            chunks = self.with_tokens[begin:end]
            first, last = self.starts[chunks[0]], self.starts[chunks[-1] + 1]
            cosines = tokens @ self.vectors[first:last].astype(np.float32).T
            best = np.maximum.reduceat(cosines, self.starts[chunks] - first, axis=1)
            sums = np.add.reduceat(best, firsts, axis=0)
            scores[asked, begin:end] = sums / lengths[:, None]
        return scores

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of the chunks that have a token, of about ``TOKENS_AT_ONCE`` each."""
        ends = self.starts[self.with_tokens + 1]
        begin = 0
        while begin < len(ends):
            most = self.starts[self.with_tokens[begin]] + TOKENS_AT_ONCE
            end = max(begin + 1, int(np.searchsorted(ends, most, side="right")))
            yield begin, end
            begin = end

    def _exact_hits(self, query: TokenVectors, rough: Rough, k: int) -> Hits:
        """Return the hits of a query: all that may be among the best are scored by themselves."""
        if not len(query) or not rough.size:
            return Hits(np.empty(0, np.int64), np.empty(0))
        kept = np.arange(rough.size)
        if k < rough.size:
            kth_best = float(np.partition(rough, -k)[-k])
            kept = np.flatnonzero(rough >= kth_best - 4 * _rounding_error(query.shape))
        chunks = self.with_tokens[kept]
        scores = np.array([maxsim(query, self.of(position)) for position in chunks.tolist()])
        best = top_k(scores, self.ids_rank[chunks], k)
        return Hits(chunks[best], scores[best])


def _rounding_error(shape: tuple[int, ...]) -> float:
    """Return a bound of the error of a mean of fp32 inner products of rows of length about 1.

    Of each product (see :mod:`.dense.vector_index`), and of adding up and dividing.
    """
    n_tokens, dimension = shape
    return float((dimension + n_tokens + 4) * 2.0**-24 * 1.01)


def save_tokens(
    chunk_ids: Sequence[str], vectors: Sequence[TokenVectors], folder: Path
) -> dict[str, Any]:
    """Write an index into an existing folder, ordered by id.

    Returns:
        Facts for the manifest: ``chunks``, ``bytes``, and ``mean_tokens`` of a chunk.

    Raises:
        DataError: an id occurs twice.
    """
    order = np.argsort(byte_order_ranks(chunk_ids)).tolist()
    lengths = [len(vectors[row]) for row in order]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    shape = (int(starts[-1]), vectors[0].shape[1] if vectors else 0)
    file = folder / "token_vectors.npy"
    content = np.lib.format.open_memmap(file, mode="w+", dtype=np.float16, shape=shape)
    for row, begin, end in zip(order, starts.tolist(), starts[1:].tolist(), strict=False):
        content[begin:end] = vectors[row]
    content.flush()
    ids = [chunk_ids[row] for row in order]
    ArrayFolder(folder).save(first_tokens=starts, **{CHUNK_IDS: ids})
    mean = round(float(np.mean(lengths)), 3) if lengths else 0.0
    return {"chunks": len(lengths), "bytes": content.nbytes, "mean_tokens": mean}
