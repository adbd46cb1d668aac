"""A real model that embeds in microseconds: the mean of random vectors of words."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np


def save_static_model(folder: Path, texts: Iterable[str], *, seed: int = 7) -> Path:
    """Save a StaticEmbedding of the words of some texts; an unknown word counts for little."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    words = sorted({word.strip(".").lower() for text in texts for word in text.split()})
    tokenizer = Tokenizer(WordLevel({w: i for i, w in enumerate(["[UNK]", *words])}, "[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    weights = np.random.default_rng(seed).normal(size=(len(words) + 1, 64)).astype(np.float32)
    weights[0] = 1e-3
    module = StaticEmbedding(tokenizer, embedding_weights=weights)
    SentenceTransformer(modules=[module], device="cpu").save_pretrained(str(folder))
    return folder
