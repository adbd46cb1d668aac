"""Strategy ``recursive``: cut at the largest unit of text that fits into so many tokens.

The cutting is done by the library semantic-text-splitter: it merges paragraphs, else sentences,
else words, up to the capacity, and repeats at most ``overlap`` tokens of the chunk before.
"""

from __future__ import annotations

import pyarrow as pa

from rag_assets.chunking.spans import Span, chunks_table
from rag_assets.embedding.models import load_tokenizer


def cut(documents: pa.Table, *, max_tokens: int, overlap: int, tokenizer: str) -> pa.Table:
    """Return the chunks of all documents.

    Args:
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        max_tokens: most tokens in a chunk, special tokens not counted.
        overlap: most tokens that a chunk repeats of the one before; less than ``max_tokens``.
        tokenizer: name of the model whose tokenizer counts.

    Raises:
        ModelUnavailable: the tokenizer cannot be had.
    """
    from semantic_text_splitter import TextSplitter

    splitter = TextSplitter.from_huggingface_tokenizer(
        load_tokenizer(tokenizer), max_tokens, overlap
    )
    texts = documents.column("text").to_pylist()
    pieces = splitter.chunk_all_indices(texts)
    return chunks_table(documents, ([_span(*piece) for piece in found] for found in pieces))


def _span(start: int, text: str) -> Span:
    return start, start + len(text)
