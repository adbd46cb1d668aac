"""How much of some texts a model cannot read: the share of tokens that its tokenizer does not know.

A tokenizer has one token for all that is not in its vocabulary (``[UNK]`` in BERT's). Texts of a
language that a model never saw become rows of it, and are all alike to the model. What a tokenizer
takes apart into bytes or letters is never unknown, read or not: a low share proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rag_assets.models.model_files import ModelFiles, tokenizer_file
from rag_assets.models.model_names import open_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOO_MANY = 0.05
"""A share above it is worth a warning: English, German, Russian or Arabic texts have about none."""

SAMPLE = 200
CHARACTERS = 2_000


def unknown_share(texts: Sequence[str], files: ModelFiles) -> float | None:
    """Return the share of the tokens of a sample that are unknown.

    Args:
        texts: 200 of them are read, evenly spaced, 2,000 characters of each.
        files: the model's files.

    Returns:
        0 where there is no token; None for a model whose tokenizer is no ``tokenizer.json``.

    Raises:
        ModelUnavailable: ``tokenizer.json`` cannot be read.
    """
    file = tokenizer_file(files.path)
    if file is None:
        return None
    tokenizer = open_tokenizer(file)
    unknown = _unknown_id(tokenizer)
    if unknown is None:
        return 0.0
    step = max(1, -(-len(texts) // SAMPLE))
    sample = [text[:CHARACTERS] for text in texts[::step]]
    found = tokenizer.encode_batch(sample, add_special_tokens=False)
    n_tokens = sum(len(one.ids) for one in found)
    return sum(one.ids.count(unknown) for one in found) / n_tokens if n_tokens else 0.0


def warning(what: str, share: float | None, files: ModelFiles) -> str | None:
    """Return the line that warns of a model that cannot read, None where it can.

    Args:
        what: what was read, such as ``queries``.
        share: :func:`unknown_share` of it.
        files: the model's files.
    """
    if share is None or share <= TOO_MANY:
        return None
    return (
        f"{share:.0%} of the tokens of the {what} are unknown to "
        f"its model '{files.name}'; take a model that reads their language"
    )


def _unknown_id(tokenizer: Tokenizer) -> int | None:
    model = json.loads(tokenizer.to_str())["model"]
    if model.get("unk_id") is not None:  # Unigram
        return int(model["unk_id"])
    token = model.get("unk_token")
    found: int | None = tokenizer.token_to_id(token) if token is not None else None
    return found
