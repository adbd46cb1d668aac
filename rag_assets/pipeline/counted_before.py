"""Tokens that were counted before: of a text that an earlier artifact has, they are not again.

An artifact of contexts holds of each text a digest and its number of tokens. The newest ones, by
the same tokenizer and code, so know all texts but those that are new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import StoreError
from rag_assets.evaluation.contexts import text_digest
from rag_assets.store.artifacts import Artifact, ArtifactStore, Manifest

NEWEST = 4
"""How many artifacts are looked into: those of a few chunkings may be as new."""

COUNTED_BY = "token_counts"
"""Where the versions of an artifact name the code that counted."""

Positions = npt.NDArray[np.int64]


def counted_before(
    store: ArtifactStore, asset: str, versions: Mapping[str, str]
) -> pa.Table | None:
    """Return ``text_digest`` and ``n_tokens`` of the newest artifacts of an asset.

    Args:
        store: the experiment's.
        asset: its name.
        versions: of the tokenizer and of the code that counts, and the hash of its file.

    Returns:
        None where there is none, or all were made by other code or another tokenizer, or are
        damaged.
    """
    found = []
    for artifact in _newest(store, asset):
        if _is_counted_by(artifact.manifest, versions):
            with suppress(StoreError):
                found.append(artifact.table().select(["text_digest", "n_tokens"]))
    return pa.concat_tables(found) if found else None


def with_known_counts(
    texts: Sequence[str], known: pa.Table | None, count: Callable[[list[str]], Sequence[int]]
) -> list[int]:
    """Return the tokens of each text; ``count`` is asked for those only that are not known."""
    if known is None:
        return list(count(list(texts)))
    digests = pa.array([text_digest(text) for text in texts], pa.string())
    places = pc.index_in(digests, value_set=known["text_digest"].combine_chunks())
    found = pc.take(known["n_tokens"].combine_chunks(), places).to_pylist()
    new: Positions = np.flatnonzero(pc.is_null(places).to_numpy(zero_copy_only=False))
    counts = count([texts[place] for place in new]) if new.size else []
    for place, n_tokens in zip(new.tolist(), counts, strict=True):
        found[place] = n_tokens
    return list(found)


def _newest(store: ArtifactStore, asset: str) -> list[Artifact]:
    paths = [store.objects / asset / name for name in store.names(asset)]
    try:
        paths.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    except OSError:  # another process removed one, or it is on another machine
        return []
    found = [store.read(path) for path in paths[:NEWEST]]
    return [one for one in found if one is not None]


def _is_counted_by(manifest: Manifest, versions: Mapping[str, str]) -> bool:
    return all(manifest.versions.get(name) == value for name, value in versions.items())
