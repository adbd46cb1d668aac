"""Language models of a few thousand random weights, which never end by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WORDS = ["<pad>", "</s>", "<unk>", "dog", "cat", "ticket", "harbour", "winter", "jacket"]
LONGEST = 32


def save_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="<unk>")
    plain = Tokenizer(words)
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    make: Any = PreTrainedTokenizerFast  # it has no types
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    make(tokenizer_object=plain, **special).save_pretrained(folder)


def save(model: Any, folder: Path) -> Path:
    """Save a model that never ends by itself: all its answers have as many tokens."""
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def save_t5(folder: Path) -> Path:
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    make: Any = T5Config  # its types lack what all configurations have
    config = make(
        vocab_size=len(WORDS),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
        initializer_factor=3.0,
    )
    return save(T5ForConditionalGeneration(config), folder)


def save_llama(folder: Path) -> Path:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=LONGEST,
        initializer_range=0.5,
    )
    return save(LlamaForCausalLM(config), folder)
