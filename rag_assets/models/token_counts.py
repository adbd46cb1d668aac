"""What the tokenizer of a model makes of texts: how many tokens, and how many it cannot read.

A text that was counted before is looked up. What is beyond a model's maximum length has no effect.

A tokenizer has one token for all that is not in its vocabulary (``[UNK]`` in BERT's). Texts of a
language that a model never saw become rows of it, and are all alike to the model. What a tokenizer
takes apart into bytes or letters is never unknown, read or not: a low share proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rag_assets.code_versions.versions import filled_by
from rag_assets.models.cache_fill import Lengths, Rows, ValueCache, Values, filled, numbers
from rag_assets.models.model_files import (
    ModelFiles,
    declared_max_seq_length,
    sha256,
    tokenizer_file,
)
from rag_assets.models.model_names import open_tokenizer
from rag_assets.package_versions import version
from rag_assets.store.canonical import fingerprint
from rag_assets.store.content_cache import text_keys

Counts = npt.NDArray[np.int32]
Item = TypeVar("Item")

TOKEN_COUNTS = numbers("n_tokens", np.int32)
TEXTS_AT_ONCE = 1_000

TOO_MANY_UNKNOWN = 0.05
"""A share above it is worth a warning: English, German, Russian or Arabic texts have about none."""

SAMPLE = 200
MAX_CHARACTERS = 2_000


def in_batches(items: Sequence[Item], size: int) -> Iterator[list[Item]]:
    """Yield ``size`` items at a time, in their order.

    A batch that sentence-transformers is given by itself stays the batch that it is.
    """
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def batch_lengths(
    texts: Sequence[str], files: ModelFiles, batch_size: int, prompt: str = ""
) -> Lengths:
    """Return by what texts are sorted before they are cut into batches.

    Tokens that the model reads, where they can be counted. Letters of what is one batch anyway, and
    of texts of a model without a limit, a static one, which fills up no batch.

    Args:
        texts: without prompt.
        files: the model's files.
        batch_size: texts that the model reads at once.
        prompt: put before every text.
    """
    limit = declared_max_seq_length(files.path)
    if limit is not None and len(texts) > batch_size:
        counts = token_counts(texts, files, prompt)
        if counts is not None:
            return np.minimum(counts, limit).astype(np.int_)
    return np.array([len(text) for text in texts], dtype=np.int_)


def token_counts(
    texts: Sequence[str], files: ModelFiles, prompt: str = "", cache: Path | None = None
) -> Counts | None:
    """Return how many tokens each text has, special ones counted, whatever the model reads of them.

    Args:
        texts: without prompt.
        files: the model's files.
        prompt: put before every text.
        cache: folder of the numbers that are known; None remembers nothing.

    Returns:
        int32, shape (len(texts),); None for a model whose tokenizer is no ``tokenizer.json``.
        Errors are those of :func:`counts_by`.
    """
    file = tokenizer_file(files.path)
    return None if file is None else counts_by(file, [prompt + text for text in texts], cache)


def counts_by(
    file: Path,
    texts: Sequence[str],
    cache: Path | None,
    *,
    special: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Counts:
    """Return how many tokens each text has by a tokenizer.

    Args:
        file: its ``tokenizer.json``.
        texts: the texts.
        cache: folder of the numbers that are known; None remembers nothing.
        special: whether special tokens are counted.
        progress: told how many of the texts that were not known have been counted.

    Raises:
        ModelUnavailable: the file cannot be read.
        StoreError: the cache cannot be written.
    """
    opened = None
    if cache is not None:
        space = {
            "tokenizer_sha256": sha256(file),
            "tokenizers": version("tokenizers"),
            "special": special,
            "code": filled_by(f"{__name__}:_counted"),
        }
        opened = ValueCache.of_space(cache, fingerprint(space), TOKEN_COUNTS)

    def tell(done: int, _: int) -> None:
        if progress is not None:
            progress(done)

    return filled(
        text_keys(texts),
        TOKEN_COUNTS,
        opened,
        lambda rows: _counted(texts, rows, file, special=special),
        progress=tell,
    )


def _counted(
    texts: Sequence[str], rows: Rows, file: Path, *, special: bool
) -> Iterator[tuple[Rows, Values]]:
    tokenizer = open_tokenizer(file)
    for start in range(0, len(rows), TEXTS_AT_ONCE):
        some = rows[start : start + TEXTS_AT_ONCE]
        batch = [texts[row] for row in some.tolist()]
        encoded = tokenizer.encode_batch_fast(batch, add_special_tokens=special)
        yield some, np.array([len(text.ids) for text in encoded], dtype=np.int32)


def truncation_facts(
    texts: Sequence[str], files: ModelFiles, prompt: str = "", cache: Path | None = None
) -> dict[str, Any]:
    """Return ``n_truncated``, how many texts have more tokens than the model reads.

    Arguments and errors are those of :func:`token_counts`. There is a note for people where it is
    not 0, and nothing of a model whose tokenizer is no ``tokenizer.json``.
    """
    limit = declared_max_seq_length(files.path)
    counts = token_counts(texts, files, prompt, cache) if limit is not None else np.zeros(0)
    if counts is None:
        return {}
    n_truncated = int((counts > (limit or 0)).sum())
    note = f"{n_truncated} of {len(texts)} chunks are longer than the model's limit; the rest"
    notes = {"notes": [f"{note} has no effect"]} if n_truncated else {}
    return {"n_truncated": n_truncated, **notes}


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
    model = json.loads(tokenizer.to_str())["model"]
    unknown = model.get("unk_id")  # of Unigram; others name the token
    if unknown is None and model.get("unk_token") is not None:
        unknown = tokenizer.token_to_id(model["unk_token"])
    if unknown is None:
        return 0.0
    step = max(1, -(-len(texts) // SAMPLE))
    sample = [text[:MAX_CHARACTERS] for text in texts[::step]]
    encoded = tokenizer.encode_batch(sample, add_special_tokens=False)
    n_tokens = sum(len(text.ids) for text in encoded)
    return sum(text.ids.count(unknown) for text in encoded) / n_tokens if n_tokens else 0.0


def unreadable_warning(what: str, share: float | None, files: ModelFiles) -> str | None:
    """Return the line that warns of a model that cannot read, None where it can.

    Args:
        what: what was read, such as ``queries``.
        share: :func:`unknown_share` of it.
        files: the model's files.
    """
    if share is None or share <= TOO_MANY_UNKNOWN:
        return None
    return (
        f"{share:.0%} of the tokens of the {what} are unknown to "
        f"its model '{files.name}'; choose a model for their language"
    )
