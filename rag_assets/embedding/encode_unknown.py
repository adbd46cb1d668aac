"""Encodes those of some texts that a cache does not hold, each once, and keeps them there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from rag_assets.compute.compute import Compute

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
        prompt: stands before every text in the cache.
        cache: None remembers nothing.
        compute: where groups are encoded.
        group_size: texts of a group.
        progress: called with (texts encoded, texts to encode); not at all when none is unknown.
    """
    unique = list(dict.fromkeys(texts))
    known = cache.get([prompt + text for text in unique]) if cache is not None else {}
    found = {text: known[prompt + text] for text in unique if prompt + text in known}
    missing = sorted((t for t in unique if t not in found), key=len, reverse=True)
    groups = [missing[start : start + group_size] for start in range(0, len(missing), group_size)]
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
