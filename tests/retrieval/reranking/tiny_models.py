"""Models of a few thousand random weights, from a fixed seed, in folders as the hub has them."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

LONGEST = 64


def cross_encoder(folder: Path, *, seed: int = 0, labels: int = 1) -> Path:
    """Save a BERT of two layers that reads letters."""
    return _saved_bert(folder, "BertForSequenceClassification", seed, num_labels=labels)


def masked_language_model(folder: Path, *, seed: int = 0) -> Path:
    """Save a BERT of two layers that reads letters and guesses them: SPLADE over an alphabet."""
    return _saved_bert(folder, "BertForMaskedLM", seed)


def _saved_bert(folder: Path, kind: str, seed: int, **options: Any) -> Path:
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    words = _letters(folder)
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LONGEST,
        initializer_range=0.5,  # so that different texts score differently
        **options,
    )
    getattr(transformers, kind)(config).save_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, model_max_length=LONGEST)
    tokenizer.save_pretrained(folder)
    return folder


def colbert(folder: Path, *, seed: int = 0) -> Path:
    """Save a BERT of two layers that reads letters, and gives each of them 8 numbers."""
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    base = masked_language_model(folder / "base", seed=seed)
    torch.manual_seed(seed)
    reader = Transformer(
        str(base),
        query_expansion={"strategy": "fixed", "attend": False, "length": 16},
        max_seq_length=LONGEST,
    )
    projection = Dense(16, 8, bias=False, module_input_name="token_embeddings")
    last = [
        MultiVectorMask(skiplist_words=["##x"]),
        Normalize(module_input_name="token_embeddings"),
    ]
    model = MultiVectorEncoder(modules=[reader, projection, *last], device="cpu")
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    return folder / "model"


def _letters(folder: Path) -> list[str]:
    """Write the vocabulary of letters, and return it."""
    letters = [*string.ascii_lowercase, *string.digits]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    return words
