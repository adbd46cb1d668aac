"""Numbers by content: pairs that a model scored, and how many tokens a text has.

The key of a score is the SHA-256 of the query's text, the document's text, and everything else that
determines the score, as its fingerprint. Several processes may read and write one folder at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.errors import DataError
from rag_assets.store.segments import KEY, Segments, same_types, text_keys

Scores = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_SCORES_SCHEMA = pa.schema([pa.field("key", KEY, False), pa.field("score", pa.float64(), False)])


class Pair(NamedTuple):
    """A query and a document, as the model reads them."""

    query: str
    document: str


class PairScoreCache:
    """The scores of one scorer: of everything that determines a score but the two texts."""

    def __init__(self, folder: Path, scorer: str) -> None:
        """Use ``folder``; it is created by the first ``put``.

        Args:
            folder: may be shared by all scorers.
            scorer: fingerprint of all that determines a score besides the texts.
        """
        self._scorer = _digest(scorer)
        self._segments = Segments(folder, ["score"], same_types(_SCORES_SCHEMA), "pair score cache")

    def get(self, pairs: Sequence[Pair]) -> tuple[Scores, Mask]:
        """Look pairs up.

        Returns:
            Scores, float64, shape (len(pairs),), NaN where nothing is known, and a mask, shape
            (len(pairs),), of what was found.
        """
        scores = np.full(len(pairs), np.nan)
        for part in self._segments.find(self._keys(pairs)):
            column = part.values.column("score").to_numpy()
            scores[part.asked] = column[part.rows]
        return scores, ~np.isnan(scores)

    def put(self, pairs: Sequence[Pair], scores: Scores) -> None:
        """Add scores, those of unknown pairs only.

        Args:
            pairs: what was scored.
            scores: float64, shape (len(pairs),).

        Raises:
            DataError: the shape does not fit, or a score is NaN or infinite.
            StoreError: the folder cannot be written.
        """
        if scores.shape != (len(pairs),) or scores.dtype != np.float64:
            raise DataError(
                f"{len(pairs)} pairs, but scores of shape {scores.shape}, {scores.dtype}"
            )
        if not np.isfinite(scores).all():
            raise DataError("a score of a pair is NaN or infinite and is not cached")
        keys = self._keys(pairs)
        new = self._segments.unknown(keys)
        if new.size:
            columns = [keys.take(pa.array(new)), pa.array(scores[new])]
            self._segments.add(pa.Table.from_arrays(columns, schema=_SCORES_SCHEMA))

    def _keys(self, pairs: Sequence[Pair]) -> pa.Array:
        """Return the keys; parts are hashed before they are joined, so no two pairs read alike."""
        digests = {text: _digest(text) for text in {text for pair in pairs for text in pair}}
        joined = (self._scorer + digests[one.query] + digests[one.document] for one in pairs)
        return pa.array([hashlib.sha256(parts).digest() for parts in joined], KEY)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


Counts = npt.NDArray[np.int32]

UNKNOWN = -1

_COUNTS_SCHEMA = pa.schema([pa.field("key", KEY, False), pa.field("n_tokens", pa.int32(), False)])
_COUNTS_WRITING = {"compression": "none", "use_dictionary": False, "write_statistics": False}


class TokenCountCache:
    """The numbers of one space: of everything that determines them but the text."""

    def __init__(self, root: Path, space: str) -> None:
        """Use the folder ``root/<space, 16 characters>``; it is created by the first ``put``."""
        folder = root / space[:16]
        self._segments = Segments(
            folder, ["n_tokens"], same_types(_COUNTS_SCHEMA), "token count cache", _COUNTS_WRITING
        )

    def get(self, texts: Sequence[str]) -> Counts:
        """Return the number of tokens of each text, or :data:`UNKNOWN`; int32, shape (texts,)."""
        counts = np.full(len(texts), UNKNOWN, dtype=np.int32)
        for part in self._segments.find(text_keys(texts)):
            counts[part.asked] = part.values.column("n_tokens").to_numpy()[part.rows]
        return counts

    def put(self, texts: Sequence[str], counts: Counts) -> None:
        """Add the numbers of unknown texts; int32, shape (texts,).

        Raises:
            StoreError: the folder cannot be written.
        """
        keys = text_keys(texts)
        new = self._segments.unknown(keys)
        if new.size:
            columns = [keys.take(pa.array(new)), pa.array(counts[new])]
            self._segments.add(pa.Table.from_arrays(columns, schema=_COUNTS_SCHEMA))
