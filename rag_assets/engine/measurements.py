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
- ``step``: single queries through a local reranker, timed once for its configuration;
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
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import median
from typing import TypedDict, Unpack

from rag_assets.store.artifacts import ArtifactKey, short
from rag_assets.store.atomic import write_text

_log = logging.getLogger(__name__)

MEASUREMENTS = "measurements"
"""Their folder below the store; a folder in it for each ``what``."""

MEASURED_FILES = f"{MEASUREMENTS}/*/*.json"
"""Pattern below the store."""

CHECKSUM = "sha256"
"""Last key of a stored measurement."""

MIN_TIMED = 20
"""Texts of the smallest measurement of an embedding model that counts."""


class Details(TypedDict, total=False):
    """What is known of some measurements only.

    Attributes:
        asset: the asset that was computed.
        experiment: the experiment that measured it.
        retriever: the retriever of that experiment for which it was.
        model: that it asked.
        bytes: size on disk.
        cached: whether the result of an embedding model was known beforehand.
        tokens: tokens that an API counted.
        cost: money that it charged for them, or for ``amount`` queries.
        measured: when it was measured, in ISO 8601.
        p50_ms, p95_ms, p99_ms: percentiles of the times of single queries, interpolated linearly.
        samples_ms: query id -> milliseconds.
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
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    samples_ms: Mapping[str, float] | None


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
            **details,
        }
        text = json.dumps(row)
        sealed = f'{text[:-1]}, "{CHECKSUM}": "{hashlib.sha256(text.encode()).hexdigest()}"}}'
        # A power failure may take it: nothing depends on it, and a cold grid writes hundreds.
        write_text(self._file(what, fingerprint, details.get("cached")), sealed, durable=False)

    def find(
        self, what: str, fingerprint: str, *, cached: bool | None = None
    ) -> Measurement | None:
        """Return the measurement of one thing, if there is one that can be read.

        That of this machine comes first, then the newest one of another. Whatever a retriever is
        called, it is measured by what it computes.
        """
        file = self._file(what, fingerprint, cached)
        measured_here = _read(file)
        if measured_here is not None or not file.parent.is_dir():
            return measured_here
        start = file.name.partition("at=")[0]
        others = (_read(path) for path in file.parent.iterdir() if path.name.startswith(start))
        matching = [row for row in others if row and bool(row["cached"]) is bool(cached)]
        return max(matching, key=lambda row: row["measured"] or "", default=None)

    def cost_time(self, cell: str) -> tuple[float, int] | None:
        """Return the mean milliseconds of a query of a cell, and of how many, by its print."""
        measured = self.find("cell", cell)
        if measured is None or measured["seconds"] is None or not measured["amount"]:
            return None
        return 1000 * measured["seconds"] / measured["amount"], measured["amount"]

    def _file(self, what: str, fingerprint: str, cached: bool | None) -> Path:
        parts = [short(fingerprint), *(["cached"] if cached else []), f"at={machine()}"]
        return self.folder / what / f"{'+'.join(parts)}.json"


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


def _read(file: Path) -> Measurement | None:
    try:
        text = file.read_text(encoding="utf-8")
        row = json.loads(text)
        content, _, _ = text.rpartition(f', "{CHECKSUM}": "')
        is_intact = row.pop(CHECKSUM) == hashlib.sha256(f"{content}}}".encode()).hexdigest()
    except OSError:
        return None
    except (ValueError, KeyError, AttributeError, TypeError):
        is_intact = False
    if not is_intact or row.keys() - _UNKNOWN.keys():
        _log.warning("%s is damaged; its measurement is not used; delete it", file)
        return None
    return {**_UNKNOWN, **row}


def longest_times(
    folder: Path, experiment: str, keys: Iterable[ArtifactKey]
) -> dict[ArtifactKey, float]:
    """Return the most seconds that partitions took in this experiment on this machine.

    Of a new partition those of its asset count. One whose asset was never computed is left out.
    """
    rows: dict[str, list[tuple[str | None, float]]] = {}
    times: dict[ArtifactKey, float] = {}
    for key in keys:
        if key.asset not in rows:
            files = (folder / key.asset).glob(f"*at={machine()}.json")
            read = (row for file in files if (row := _read(file)) is not None)
            rows[key.asset] = [
                (row["retriever"], row["seconds"])
                for row in read
                if row["experiment"] == experiment and row["seconds"] is not None
            ]
        retriever, every = dict(key.partition).get("retriever"), rows[key.asset]
        like = [row for row in every if row[0] == retriever] or every
        if like:
            times[key] = max(seconds for _, seconds in like)
    return times


def seconds_per_text(folder: Path, model: str) -> float | None:
    """Return the seconds that a model takes to embed a text, by any experiment; None: not measured.

    Measurements of few texts are ignored: they measure how long the model loads.
    """
    files = (folder / "embed").glob(f"*at={machine()}.json")
    rows = [row for file in files if (row := _read(file)) is not None and row["model"] == model]
    timed = [row for row in rows if row["amount"] >= MIN_TIMED]
    each = [row["seconds"] / row["amount"] for row in timed if row["seconds"] and not row["cached"]]
    return median(each) if each else None


def duration_text(seconds: float) -> str:
    """Return a rough time: ``a few seconds``, ``about 40 seconds``, ``about 3 minutes``."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 90:
        return f"about {round(seconds, -1):.0f} seconds"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:.1f} hours"
