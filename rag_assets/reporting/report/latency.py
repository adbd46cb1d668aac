"""Milliseconds of single queries, of a kind that can be compared between retrievers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag_assets.pipeline.measurements import MEASUREMENTS, Measurements
from rag_assets.reporting.result import EvaluationResult

ENCODED = "median of single queries, encoding them included"
KNOWN = "median of single queries whose vectors are known"


@dataclass(frozen=True)
class Latency:
    """Retriever -> milliseconds, and what they are; empty where too little was measured."""

    what: str
    milliseconds: dict[str, float]


def latency(result: EvaluationResult, retrievers: Sequence[str]) -> Latency:
    """Return the median time of a query, from its text to its hits, with all that is read.

    Encoding included where that is known of all retrievers, else with known query vectors for all:
    the two are never mixed. A retriever without an embedding model has one time, which is both.
    """
    measurements = Measurements(result.root / MEASUREMENTS)
    encoded: dict[str, float] = {}
    known: dict[str, float] = {}
    for name, ranking in result.rankings().items():
        for cached, found in ((False, encoded), (True, known)):
            row = measurements.find("latency", ranking, name, cached=cached)
            if row is not None and row["p50_ms"] is not None:
                found[name] = row["p50_ms"]
    known = {**encoded, **known}
    for what, found in ((ENCODED, encoded), (KNOWN, known)):
        if retrievers and found.keys() >= set(retrievers):
            return Latency(what, {name: found[name] for name in retrievers})
    return Latency("", {})
