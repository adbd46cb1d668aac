"""Expected durations on this machine, from earlier measurements in the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rag_assets.engine.measurements import Measurement, measured_here
from rag_assets.store.artifacts import ArtifactKey

MIN_TIMED = 20
"""Measurements of fewer texts or pairs are ignored: they measure how long the model loads."""


class Durations:
    """Measured durations: those of one experiment where there are any, else of any experiment."""

    def __init__(
        self, folder: Path, experiment: str, models: Mapping[str, str | None] | None = None
    ) -> None:
        """Look into the measurements of a store; each kind is read when it is asked for.

        Args:
            folder: of the measurements.
            experiment: its name.
            models: retriever -> the model that it asks.
        """
        self._folder, self._experiment, self._models = folder, experiment, models or {}
        self._read: dict[str, list[Measurement]] = {}

    def partition(self, asset: str, retriever: str | None) -> float | None:
        """Return the seconds that a partition of an asset took on average, in this experiment.

        Those of the retriever count where there are any. None: it was not measured.
        """
        own = [one for one in self._of(asset) if one["experiment"] == self._experiment]
        nearest = [one for one in own if one["retriever"] == retriever] or own
        seconds = [one["seconds"] for one in nearest if one["seconds"] is not None]
        return sum(seconds) / len(seconds) if seconds else None

    def text(self, retriever: str | None, model: str | None = None) -> float | None:
        """Return the seconds that one text takes to be embedded; None: it was not measured.

        Args:
            retriever: of the experiment; its own measurements count where there are any, else
                those of its model. Another model's say nothing.
            model: the model, in place of the retriever's.
        """
        return self._each("embed", retriever, model)

    def pair(self, retriever: str | None) -> float | None:
        """Return the seconds that a reranker takes to score a pair; None: it was not measured."""
        return self._each("ask", retriever, None)

    def _each(self, what: str, retriever: str | None, model: str | None) -> float | None:
        timed = [one for one in self._of(what) if not one["cached"] and one["amount"] >= MIN_TIMED]
        model = model or self._models.get(retriever or "")
        own = [
            one
            for one in timed
            if _is_of(one, self._experiment, retriever) and one["model"] in (None, model)
        ]
        counted = own or [one for one in timed if model is not None and one["model"] == model]
        return _median(
            one["seconds"] / one["amount"] for one in counted if one["seconds"] is not None
        )

    def _of(self, what: str) -> list[Measurement]:
        if what not in self._read:
            self._read[what] = measured_here(self._folder, what)
        return self._read[what]


class ExpectedTime(NamedTuple):
    """How long an evaluation takes.

    Attributes:
        computed: seconds for what is computed in any case, as far as they are known.
        checked: seconds for the rest, if all of it is computed.
        unknown: assets without a measurement.
    """

    computed: float
    checked: float
    unknown: tuple[str, ...]


NO_TIME = ExpectedTime(0.0, 0.0, ())


def expected_time(
    durations: Durations, work: Iterable[tuple[ArtifactKey, bool, Mapping[str, int]]]
) -> ExpectedTime:
    """Return how long partitions take.

    Args:
        durations: what was measured.
        work: a partition; whether it is computed in any case; how many ``texts`` it embeds and
            ``pairs`` it scores at most, where that is known.
    """
    seconds = {True: 0.0, False: 0.0}
    unknown: dict[str, None] = {}
    for key, is_certain, amounts in work:
        retriever = dict(key.partition).get("retriever")
        known = durations.partition(key.asset, retriever)
        for what, seconds_each in (("texts", durations.text), ("pairs", durations.pair)):
            each = seconds_each(retriever) if what in amounts else None
            known = known if each is None else amounts[what] * each
        if known is None:
            unknown[key.asset] = None
        seconds[is_certain] += known or 0.0
    return ExpectedTime(seconds[True], seconds[False], tuple(unknown))


def _is_of(one: Measurement, experiment: str, retriever: str | None) -> bool:
    return (one["experiment"], one["retriever"]) == (experiment, retriever)


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return median(known) if known else None


def duration_text(seconds: float) -> str:
    """Return a rough time: ``a few seconds``, ``about 40 seconds``, ``about 3 minutes``."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 90:
        return f"about {round(seconds, -1):.0f} seconds"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:.1f} hours"
