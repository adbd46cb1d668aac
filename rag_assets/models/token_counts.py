"""What the tokenizer of a model makes of texts: how many tokens, and how many it cannot read.

A text that was counted before is looked up. What is beyond a model's maximum length has no effect.

A tokenizer has one token for all that is not in its vocabulary (``[UNK]`` in BERT's). Texts of a
language that a model never saw become rows of it, and are all alike to the model. What a tokenizer
takes apart into bytes or letters is never unknown, read or not: a low share proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.code_versions.versions import filled_by
from rag_assets.models.model_files import ModelFiles, declared_max_seq_length, tokenizer_file
from rag_assets.models.model_names import open_tokenizer
from rag_assets.package_versions import version
from rag_assets.store.canonical import fingerprint
from rag_assets.store.content_cache import ContentCache, text_keys

if TYPE_CHECKING:
    from tokenizers import Tokenizer


Counts = npt.NDArray[np.int32]

_STORED = pa.schema([pa.field("n_tokens", pa.int32(), False)])

TEXTS_AT_ONCE = 1_000


TOO_MANY_UNKNOWN = 0.05
"""A share above it is worth a warning: English, German, Russian or Arabic texts have about none."""


SAMPLE = 200


CHARACTERS = 2_000


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

    Raises:
        ModelUnavailable: ``tokenizer.json`` cannot be read.
        StoreError: the cache cannot be written.
    """
    file = tokenizer_file(files.path)
    if file is None:
        return None
    return counts_by(file, files.tokenizer_sha256, [prompt + text for text in texts], cache)


def counts_by(
    file: Path,
    digest: str,
    texts: Sequence[str],
    cache: Path | None,
    *,
    special: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Counts:
    """Return how many tokens each text has by a tokenizer.

    Args:
        file: its ``tokenizer.json``.
        digest: the SHA-256 of that file.
        texts: the texts.
        cache: folder of the numbers that are known; None remembers nothing.
        special: whether special tokens are counted.
        progress: told how many of the texts that were not known have been counted.

    Raises:
        ModelUnavailable: the file cannot be read.
        StoreError: the cache cannot be written.
    """
    if cache is None:
        return _counted(texts, open_tokenizer(file), special=special, progress=progress)
    space = {
        "tokenizer_sha256": digest,
        "tokenizers": version("tokenizers"),
        "special": special,
        "code": filled_by(f"{__name__}:_counted"),
    }
    known, keys = ContentCache(cache / fingerprint(space)[:16], _STORED), text_keys(texts)
    counts = np.full(len(texts), -1, dtype=np.int32)
    for hits in known.find(keys):
        counts[hits.asked] = hits.chosen().column("n_tokens").to_numpy()
    missing = np.flatnonzero(counts < 0)
    if missing.size:
        new = [texts[row] for row in missing.tolist()]
        counts[missing] = _counted(new, open_tokenizer(file), special=special, progress=progress)
        known.put(keys.take(pa.array(missing)), [pa.array(counts[missing])])
    return counts


def _counted(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    special: bool,
    progress: Callable[[int], None] | None,
) -> Counts:
    counts = np.empty(len(texts), dtype=np.int32)
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        batch = list(texts[start : start + TEXTS_AT_ONCE])
        found = tokenizer.encode_batch_fast(batch, add_special_tokens=special)
        counts[start : start + len(batch)] = [len(one.ids) for one in found]
        if progress is not None:
            progress(start + len(batch))
    return counts


def count_truncated(
    texts: Sequence[str], files: ModelFiles, prompt: str = "", cache: Path | None = None
) -> int | None:
    """Return how many texts have more tokens, special ones counted, than the model reads.

    Args:
        texts: without prompt.
        files: the model's files.
        prompt: put before every text.
        cache: folder of the numbers that are known; None remembers nothing.

    Returns:
        0 for a model without a limit; None for one whose tokenizer is no ``tokenizer.json``.

    Raises:
        ModelUnavailable: ``tokenizer.json`` cannot be read.
        StoreError: the cache cannot be written.
    """
    limit = declared_max_seq_length(files.path)
    if limit is None:
        return 0
    counts = token_counts(texts, files, prompt, cache)
    return int((counts > limit).sum()) if counts is not None else None


def truncation_facts(n_truncated: int | None, n_texts: int) -> dict[str, Any]:
    """Return ``n_truncated`` where it is known, with a note for people where it is not 0."""
    if n_truncated is None:
        return {}
    note = f"{n_truncated} of {n_texts} chunks are longer than the model reads; what is beyond has "
    notes = {"notes": [f"{note}no effect"]} if n_truncated else {}
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
    unknown = _unknown_id(tokenizer)
    if unknown is None:
        return 0.0
    step = max(1, -(-len(texts) // SAMPLE))
    sample = [text[:CHARACTERS] for text in texts[::step]]
    found = tokenizer.encode_batch(sample, add_special_tokens=False)
    n_tokens = sum(len(one.ids) for one in found)
    return sum(one.ids.count(unknown) for one in found) / n_tokens if n_tokens else 0.0


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
        f"its model '{files.name}'; take a model that reads their language"
    )


def _unknown_id(tokenizer: Tokenizer) -> int | None:
    model = json.loads(tokenizer.to_str())["model"]
    if model.get("unk_id") is not None:  # Unigram
        return int(model["unk_id"])
    token = model.get("unk_token")
    found: int | None = tokenizer.token_to_id(token) if token is not None else None
    return found
