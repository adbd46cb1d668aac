"""Tokens that were counted before: of a text that an earlier artifact has, they are not again.

An artifact of contexts holds of each text a digest and its number of tokens. The newest one of the
same partition, by the same tokenizer and code, so knows all texts but those that are new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import StoreError
from rag_assets.evaluation.contexts import text_digest
from rag_assets.store.artifacts import Artifact, ArtifactKey, ArtifactStore, Manifest
from rag_assets.store.atomic import TEMPORARY_MARK

COUNTED_BY = "token_counts"
"""Where the versions of an artifact name the code that counted."""

Positions = npt.NDArray[np.int64]


def counted_before(
    store: ArtifactStore, key: ArtifactKey, versions: Mapping[str, str]
) -> pa.Table | None:
    """Return ``text_digest`` and ``n_tokens`` of the newest artifact of a partition.

    Args:
        store: the experiment's.
        key: the partition.
        versions: of the tokenizer and of the code that counts, and the hash of its file.

    Returns:
        None where there is none, where it was made by other code or another tokenizer, or where it
        is damaged.
    """
    artifact = _newest(store, key)
    if artifact is None or not _is_counted_by(artifact.manifest, versions):
        return None
    try:
        return artifact.table().select(["text_digest", "n_tokens"])
    except StoreError:
        return None


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


def _newest(store: ArtifactStore, key: ArtifactKey) -> Artifact | None:
    folder = store.path(key, "").parent
    try:
        paths = [path for path in folder.glob("*.parquet") if TEMPORARY_MARK not in path.name]
        newest = max(paths, key=lambda path: path.stat().st_mtime_ns, default=None)
    except OSError:  # another process removed one
        return None
    return None if newest is None else store.read(newest)


def _is_counted_by(manifest: Manifest, versions: Mapping[str, str]) -> bool:
    return all(manifest.versions.get(name) == value for name, value in versions.items())
