"""A tokenizer that counts words, and the file of it: what it says can be counted by eye."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit


def word_tokenizer(folder: Path) -> Path:
    """Write a ``tokenizer.json`` whose tokens are the words between blanks; return its path."""
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"
