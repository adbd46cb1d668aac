"""Timings and costs, kept apart from results: they never enter a digest.

One small JSON file for each measured thing, named by the fingerprint of what was computed and the
machine. What is measured:

- the name of an asset: its computation, and its bytes on disk;
- ``search``: a retriever's ranking of all queries at once, its inputs' rankings not included;
- ``embed``: the texts of one artifact; ``cached`` tells those taken from the vector cache;
- ``ask``: requests to a language model, documents that a reranking server or model scored, for
  one artifact; ``cached`` tells those that were known;
- ``encode``: single queries through the embedding model, one at a time, without the vector cache;
- ``answer``: all queries by a search that is not ours, as many at once as it is asked with, and
  ``single``: a sample of them, one at a time;
- ``write``: a language model's answers for a query set, those of a query added;
- ``rerank``: a server's scores or orders for the candidates of single queries;
- ``latency``: single queries from text to hits, one at a time, with all of these that they need;
  ``cached``: with known vectors. Its ``cost`` is money for ``amount`` queries.
- ``cell``: the same queries at the cut-off of one cell; its :func:`cost_time` is their mean.

A time of a server is that of its request when it was made: what is known is not asked again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TypedDict, Unpack

from rag_assets.store.artifacts import short
from rag_assets.store.atomic import write_text
from rag_assets.store.remote.mirror import working_copy_of

_log = logging.getLogger(__name__)

MEASUREMENTS = "measurements"
"""Their folder below the store; a folder in it for each ``what``."""

MEASURED_FILES = f"{MEASUREMENTS}/*/*.json"
"""Pattern below the store."""

CHECKSUM = "sha256"
"""Last key of a stored measurement; one of an older version has none."""


class Percentiles(TypedDict, total=False):
    """Times of single queries in milliseconds, and query id -> time, from which they are."""

    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    samples_ms: Mapping[str, float] | None


class Details(Percentiles, total=False):
    """What is known of some measurements only.

    Attributes:
        asset: the asset that was computed.
        experiment: the experiment that measured it; None: an older version did not say.
        retriever: the retriever of that experiment for which it was.
        model: that it asked; None: none, or an older version did not say.
        bytes: size on disk.
        cached: whether the result of an embedding model was known beforehand.
        tokens: tokens that an API counted.
        cost: money that it charged for them, or for ``amount`` queries.
        measured: when it was measured, in ISO 8601.
    """

    asset: str | None
    experiment: str | None
    retriever: str | None
    model: str | None
    bytes: int | None
    cached: bool | None
    tokens: int | None
    cost: float | None
    measured: str | None


class Measurement(Details):
    """Seconds of wall time for ``amount`` units (queries, texts, partitions) of one artifact."""

    what: str
    fingerprint: str
    seconds: float | None
    amount: int


class Measurements:
    """The measurements of a store: of the same work, whichever experiment asked for it."""

    def __init__(self, folder: Path, experiment: str | None = None) -> None:
        """Use a folder, created on the first write; rows say which experiment measured."""
        self.folder = folder
        self._experiment = experiment
        self._copy = working_copy_of(folder)

    def add(
        self,
        what: str,
        fingerprint: str,
        seconds: float | None,
        amount: int = 1,
        **details: Unpack[Details],
    ) -> None:
        """Keep one measurement; a newer one of the same thing replaces it."""
        row = {
            **{"what": what, "fingerprint": fingerprint, "seconds": seconds, "amount": amount},
            "experiment": self._experiment,
            "measured": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        file = self._file(what, fingerprint, details.get("cached"))
        # A power failure may take it: nothing depends on it, and a cold grid writes hundreds.
        write_text(file, _text({**row, **details}), durable=False)
        if self._copy is not None:
            self._copy.note(file, immutable=False)

    def find(
        self, what: str, fingerprint: str, *, cached: bool | None = None
    ) -> Measurement | None:
        """Return the measurement of one thing, if there is one that can be read.

        That of this machine comes first, then the newest one of another or of an older version.
        Whatever a retriever is called, it is measured by what it computes.
        """
        file = self._file(what, fingerprint, cached)
        own = _read(file)
        if own is not None or not file.parent.is_dir():
            return own
        name = short(fingerprint)
        others = [
            _read(other)
            for other in file.parent.iterdir()
            if other.name.startswith((f"{name}+", f"{name}."))
        ]
        matching = [
            one for one in others if one is not None and bool(one["cached"]) is bool(cached)
        ]
        return max(matching, key=lambda one: one["measured"] or "", default=None)

    def cost_time(self, cell: str) -> tuple[float, int] | None:
        """Return the mean time of a query of a cell in milliseconds, and of how many it is.

        Args:
            cell: fingerprint of the cell.
        """
        measured = self.find("cell", cell)
        if measured is None or measured["seconds"] is None or not measured["amount"]:
            return None
        return 1000 * measured["seconds"] / measured["amount"], measured["amount"]

    def _file(self, what: str, fingerprint: str, cached: bool | None) -> Path:
        parts = [short(fingerprint), *(["cached"] if cached else []), f"at={machine()}"]
        return self.folder / what / f"{'+'.join(parts)}.json"


def measured_here(folder: Path, what: str) -> list[Measurement]:
    """Return all measurements of one kind that were made on this machine.

    Args:
        folder: of the measurements of a store.
        what: the name of an asset, ``embed`` or another kind.
    """
    end = f"at={machine()}.json"
    if not (folder / what).is_dir():
        return []
    own = (file for file in sorted((folder / what).iterdir()) if file.name.endswith(end))
    return [one for file in own if (one := _read(file)) is not None]


@cache
def machine() -> str:
    """Return the name by which the measurements of this machine are told from others."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


_UNKNOWN: Measurement = {
    "what": "",
    "fingerprint": "",
    "seconds": None,
    "amount": 0,
    **dict.fromkeys(Details.__annotations__),  # type: ignore[typeddict-item]
}


def _text(row: Mapping[str, object]) -> str:
    """Return a measurement as it is stored: JSON whose last key is the SHA-256 of the rest."""
    text = json.dumps(row)
    return f'{text[:-1]}, "{CHECKSUM}": "{hashlib.sha256(text.encode()).hexdigest()}"}}'


def _is_intact(text: str) -> bool:
    """Return whether a text is as it was written; one of an older version has no checksum."""
    rest, mark, stated = text.rpartition(f', "{CHECKSUM}": "')
    return not mark or stated == f'{hashlib.sha256(f"{rest}}}".encode()).hexdigest()}"}}'


def _read(file: Path) -> Measurement | None:
    try:
        text = file.read_text(encoding="utf-8")
        row = json.loads(text)
    except OSError:
        return None
    except ValueError:
        row = None
    known = {*_UNKNOWN, CHECKSUM}
    if not isinstance(row, dict) or row.keys() - known or not _is_intact(text):
        _log.warning("%s is damaged; its measurement is not used; delete it", file)
        return None
    row.pop(CHECKSUM, None)
    return {**_UNKNOWN, **row}
