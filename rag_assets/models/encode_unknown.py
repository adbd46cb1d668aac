"""Encodes those of some texts that a cache does not hold, each once, and keeps them there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np

from rag_assets.compute.compute import Compute
from rag_assets.models.batches import Lengths, in_batches

Encoded = TypeVar("Encoded")


class Cache(Protocol[Encoded]):
    """What is known of texts, each with its prompt."""

    def get(self, texts: Sequence[str]) -> dict[str, Encoded]:
        """Return what is known of those texts that are known."""

    def put(self, vectors: Mapping[str, Encoded]) -> None:
        """Keep what was unknown."""


def encode_unknown(
    texts: Sequence[str],
    encode: Callable[[list[str]], list[Encoded]],
    *,
    lengths: Callable[[Sequence[str]], Lengths],
    prompt: str,
    cache: Cache[Encoded] | None,
    compute: Compute,
    group_size: int,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Encoded]:
    """Return text -> what it is encoded as.

    Unknown texts are encoded in groups, longest first, so that those of a group are of even length;
    each group is kept as soon as it is there.

    Args:
        texts: may repeat; each is encoded once.
        encode: encodes one group, and puts the prompt before its texts; it can be pickled.
        lengths: by what unknown texts are sorted, see ``batch_lengths``.
        prompt: stands before every text in the cache.
        cache: None remembers nothing.
        compute: where groups are encoded.
        group_size: texts of a group.
        progress: called with (texts encoded, texts to encode); not at all when none is unknown.
    """
    unique = list(dict.fromkeys(texts))
    known = cache.get([prompt + text for text in unique]) if cache is not None else {}
    found = {text: known[prompt + text] for text in unique if prompt + text in known}
    unknown = [text for text in unique if text not in found]
    missing = [unknown[row] for row in np.argsort(-lengths(unknown), kind="stable").tolist()]
    groups = [*in_batches(missing, group_size)]
    n_done = 0
    for number, part in compute.map(encode, ((group,) for group in groups)):
        new = dict(zip(groups[number], part, strict=True))
        if cache is not None:
            cache.put({prompt + text: one for text, one in new.items()})
        found |= new
        n_done += len(new)
        if progress is not None:
            progress(n_done, len(missing))
    return found
