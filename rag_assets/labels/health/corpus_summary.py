"""What lies in a folder of documents, and about how long its first evaluation takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple, NoReturn

import pyarrow as pa

from rag_assets.chunking.chunker import Chunker, cut_documents
from rag_assets.chunking.index_texts import indexed_texts
from rag_assets.labels.health.near_duplicates import Pair, near_duplicates
from rag_assets.models.encoder import Encoder
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.retrieval.lexical.analyzers import AUTO, resolve_analyzer

CUT_CHARACTERS = 4_000_000
"""At most this many characters are cut; the number of chunks of a larger corpus is scaled up."""

MAX_COMPARED_DOCUMENTS = 20_000
"""Near-duplicates are searched for among at most this many documents: it is the slowest step."""

TIMED_CHUNKS = 32
"""Number of chunks that are embedded to measure the time of one."""

MIN_CHUNKS_TO_TIME = 200
"""Embedding fewer chunks takes too little time to be worth a measurement."""


class CorpusSummary(NamedTuple):
    """What documents hold.

    Attributes:
        lengths: characters of each document, ascending.
        language: the analyzer that fits, such as ``english``.
        pairs: near-duplicates, the most similar first; None: too many documents to search.
        chunks: number of chunks that the chunking makes.
        is_exact: True if all documents were cut to count them.
        sample: some chunks as they are indexed, evenly spaced.
    """

    lengths: list[int]
    language: str
    pairs: list[Pair] | None
    chunks: int
    is_exact: bool
    sample: list[str]

    @property
    def characters(self) -> int:
        """All characters together."""
        return sum(self.lengths)

    @property
    def median_length(self) -> int:
        """Characters of the document in the middle."""
        return round(median(self.lengths))


def summarise(documents: pa.Table, chunker: Chunker) -> CorpusSummary:
    """Return what documents hold, cut by a chunker that needs no model; there is one at least."""
    texts = documents.column("text").to_pylist()
    lengths = [len(text) for text in texts]
    step = max(1, -(-sum(lengths) // CUT_CHARACTERS))
    part = documents.take(list(range(0, documents.num_rows, step)))
    chunks = cut_documents(part, chunker.cutter(_no_model), whole=chunker.whole_documents)
    cut = sum(lengths[::step])
    scale = sum(lengths) / cut if cut else 1.0
    pairs = None
    if documents.num_rows <= MAX_COMPARED_DOCUMENTS:
        pairs = sorted(near_duplicates(documents.column("text")), key=lambda one: -one.similarity)
    indexed = indexed_texts(chunks)
    return CorpusSummary(
        sorted(lengths),
        resolve_analyzer(AUTO, texts),
        pairs,
        round(chunks.num_rows * scale),
        step == 1,
        indexed[:: max(1, -(-len(indexed) // TIMED_CHUNKS))],
    )


def seconds_a_text(texts: Sequence[str], model: str = DEFAULT_MODEL) -> float:
    """Return how long a text takes to be embedded here, by embedding some; loading apart."""
    encoder = Encoder(model)
    encoder.encode_now(texts[:1], kind="document")
    started = time.perf_counter()
    encoder.encode_now(texts, kind="document")
    return (time.perf_counter() - started) / len(texts)


def _no_model(model: str) -> NoReturn:
    raise ValueError(f"a chunking that needs {model} is not counted")
