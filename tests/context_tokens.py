"""A tokenizer that counts words, so that its counts can be checked by eye; tables of contexts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from rag_assets.schemas import RETRIEVER_CONTEXTS


def word_tokenizer(folder: Path) -> Path:
    """Write a ``tokenizer.json`` whose tokens are the words between blanks; return its path."""
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def context_table(tokens: Mapping[str, int]) -> pa.Table:
    """Contexts of a retriever: units of so many tokens; each is a document of its own."""
    return RETRIEVER_CONTEXTS.from_rows(
        [
            {
                "context_id": unit,
                "document_id": unit,
                "start": 0,
                "end": count,
                "n_tokens": count,
                "text_digest": "",
            }
            for unit, count in tokens.items()
        ]
    )
