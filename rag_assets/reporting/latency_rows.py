"""How fast each retriever is and what its index cost, as rows for programs."""

from __future__ import annotations

from collections.abc import Collection

from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.measurements import Measurement, Measurements
from rag_assets.reporting.result import EvaluationResult
from rag_assets.reporting.rows import Row

_INDEXES = ("lexical_index", "embedding_index")
_EMBEDDED = ("embedding_index", "embedding_queries")


def latency_rows(
    result: EvaluationResult, experiment: Experiment, retrievers: Collection[str]
) -> list[Row]:
    """Return one mapping a retriever; what was not measured is None.

    Keys:

    - ``queries_per_second``: all queries at once, with known vectors; a fusion after its inputs.
    - ``p50_ms``, ``p95_ms``, ``p99_ms``: of single queries one at a time, with what an embedding
      model takes for them; ``n_timed`` is their number.
    - ``known_p50_ms``, ``known_p95_ms``, ``known_p99_ms``: the same with known vectors; None for
      a retriever without an embedding model.
    - ``index_seconds``: building the index, without embedding; ``index_bytes``: its size on disk.
    - ``n_embedded``, ``n_from_cache``: texts (chunks and queries) that the model embedded, and
      that the vector cache had; ``embed_seconds``: for all, with loading the model.
    """
    found = _Found(result, experiment)
    names = [name for name in experiment.retrievers if name in retrievers]
    return [
        {
            "retriever": name,
            "queries_per_second": found.queries_per_second(name),
            **found.latency(name),
            **found.index(name),
            **found.embedded(name),
        }
        for name in names
        if name in result.run_retrievers
    ]


class _Found:
    """The measurements of the artifacts that an evaluation names."""

    def __init__(self, result: EvaluationResult, experiment: Experiment) -> None:
        self._measurements = Measurements(result.root / "measurements")
        self._experiment = experiment
        self._rankings = result.rankings()
        self._fingerprints = {
            (entry.asset, entry.partition["retriever"]): entry.fingerprint
            for asset in {*_INDEXES, *_EMBEDDED}
            for entry in result.evaluation.entries_of(asset)
        }

    def queries_per_second(self, retriever: str) -> float | None:
        seconds, n_queries = 0.0, 0
        for name in (retriever, *self._experiment.inputs(retriever)):
            ranking = self._rankings.get(name, "")
            search = self._measurements.find("search", ranking, name)
            if search is None or search["seconds"] is None:
                return None
            seconds, n_queries = seconds + search["seconds"], search["amount"]
        return n_queries / seconds if seconds else None

    def latency(self, retriever: str) -> Row:
        ranking = self._rankings.get(retriever, "")
        row: Row = {}
        for cached, prefix in ((False, ""), (True, "known_")):
            found = self._measurements.find("latency", ranking, retriever, cached=cached)
            for name in ("p50_ms", "p95_ms", "p99_ms"):
                row[f"{prefix}{name}"] = found.get(name) if found else None
            if not cached:
                row["n_timed"] = found["amount"] if found else None
        return row

    def index(self, retriever: str) -> Row:
        for asset in _INDEXES:
            built = self._of(asset, asset, retriever)
            if built is not None and built["seconds"] is not None:
                embed = self._of("embed", asset, retriever, cached=False)
                embedding = (embed["seconds"] or 0.0) if embed else 0.0
                seconds = max(0.0, built["seconds"] - embedding)
                return {"index_seconds": seconds, "index_bytes": built["bytes"]}
        return {"index_seconds": None, "index_bytes": None}

    def embedded(self, retriever: str) -> Row:
        new = [self._of("embed", asset, retriever, cached=False) for asset in _EMBEDDED]
        old = [self._of("embed", asset, retriever, cached=True) for asset in _EMBEDDED]
        if not any(new):
            return dict.fromkeys(("n_embedded", "n_from_cache", "embed_seconds"))
        return {
            "n_embedded": sum(one["amount"] for one in new if one),
            "n_from_cache": sum(one["amount"] for one in old if one),
            "embed_seconds": sum(one["seconds"] or 0.0 for one in new if one),
        }

    def _of(
        self, what: str, asset: str, retriever: str, *, cached: bool | None = None
    ) -> Measurement | None:
        fingerprint = self._fingerprints.get((asset, retriever))
        if fingerprint is None:
            return None
        return self._measurements.find(what, fingerprint, retriever, cached=cached)
