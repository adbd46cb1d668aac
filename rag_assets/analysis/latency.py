"""How fast each retriever is and what its index cost: rows for programs, and sheets."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.engine.measurements import MEASUREMENTS, Measurement, Measurements
from rag_assets.experiment.experiment import Experiment
from rag_assets.query_sets.query_set import PromptedQuerySet
from rag_assets.retrieval.base import BaseRetriever
from rag_assets.retrieval.external.stage import ANSWER, ExternalRankings
from rag_assets.retrieval.lexical.stage import term_counts_key
from rag_assets.sheets.sheet import ROUGH, TEXT, Column, Sheet

ASKED = ExternalRankings.name
_INDEXES = ("lexical_index", "embedding_index")
_EMBEDDED = ("embedding_index", "embedding_queries")
_PERCENTILES = ("p50_ms", "p95_ms", "p99_ms")


def latency_rows(
    result: EvaluationResult, experiment: Experiment, retrievers: Collection[str]
) -> list[Row]:
    """Return one mapping a retriever; what was not measured is None.

    Keys:

    - ``queries_per_second``: all queries at once, with known vectors; a fusion after its inputs.
      None where a language model writes what is searched for, or where scores were known.
    - ``p50_ms``, ``p95_ms``, ``p99_ms``: of single queries one at a time, with all that they need:
      what models take to write and to encode them, searching, fusing and reranking. A server's
      part is that of its requests when they were made. ``n_timed`` is their number.
    - ``query_cost``: money that servers take for a query, on average; 0 where none is asked, None
      where a part of it is not known.
    - ``index_seconds``: building the index, with analysing its texts and without embedding;
      ``index_bytes``: its size on disk.
    - ``n_embedded``: texts (chunks and queries) that the model embedded; the vector cache had the
      others; ``embed_seconds``: for all, with loading the model.
    """
    measured = _Measured(result, experiment)
    present = result.run_retrievers
    names = [name for name in experiment.retrievers if name in retrievers and name in present]
    return [
        {
            **{"retriever": name, "queries_per_second": measured.queries_per_second(name)},
            **measured.latency(name),
            **measured.index(name),
            **measured.embedded(name),
        }
        for name in names
    ]


class _Measured:
    """The measurements of the artifacts that an evaluation names."""

    def __init__(self, result: EvaluationResult, experiment: Experiment) -> None:
        self._find = Measurements(result.root.parent / MEASUREMENTS).find
        self._result = result
        self._experiment = experiment
        self._rankings = result.rankings()
        self._fingerprints = {
            (entry.asset, name): entry.fingerprint
            for entry in result.evaluation.entries
            for name in (entry.partition.get("retriever") or entry.partition.get("analysis"),)
        }

    def queries_per_second(self, retriever: str) -> float | None:
        seconds, n_queries = 0.0, 0
        for name in (retriever, *self._experiment.inputs(retriever)):
            config = self._experiment.retrievers.get(name)
            query_set = config.query_set if isinstance(config, BaseRetriever) else ""
            is_written = isinstance(self._experiment.query_sets.get(query_set), PromptedQuerySet)
            if is_written or self._has_scores(name):
                return None
            if self._experiment.family(name) == "external":
                search = self._of(ANSWER, ASKED, name)
            else:
                search = self._find("search", self._rankings.get(name, ""))
            if search is None or search["seconds"] is None:
                return None
            seconds, n_queries = seconds + search["seconds"], search["amount"]
        return n_queries / seconds if seconds else None

    def _has_scores(self, retriever: str) -> bool:
        """Return whether a reranker knew scores from before."""
        if self._experiment.family(retriever) != "reranked":
            return False
        runs = [f for (asset, name), f in self._fingerprints.items() if name == retriever]
        lookups = (self._find("ask", run, cached=True) for run in runs)
        return any(lookup and lookup["amount"] for lookup in lookups)

    def latency(self, retriever: str) -> Row:
        alone = self._find("latency", self._rankings.get(retriever, ""))
        row: Row = {name: alone.get(name) if alone else None for name in _PERCENTILES}
        row["n_timed"] = alone["amount"] if alone else None
        cost = alone["cost"] if alone and alone["amount"] else None
        row["query_cost"] = cost / alone["amount"] if alone and cost is not None else None
        return row

    def index(self, retriever: str) -> Row:
        for asset in _INDEXES:
            built = self._of(asset, asset, retriever)
            if built is not None and built["seconds"] is not None:
                embedding = _seconds(self._of("embed", asset, retriever, cached=False))
                # Others may share the analysed texts.
                key = term_counts_key(self._experiment, retriever)
                analysis = key["analysis"] if key is not None else ""
                analysing = _seconds(self._of("term_counts", "term_counts", analysis))
                seconds = max(0.0, built["seconds"] - embedding) + analysing
                return {"index_seconds": seconds, "index_bytes": built["bytes"]}
        return {"index_seconds": None, "index_bytes": None}

    def embedded(self, retriever: str) -> Row:
        measured = [self._of("embed", asset, retriever, cached=False) for asset in _EMBEDDED]
        if not any(measured):
            return {"n_embedded": None, "embed_seconds": None}
        n_embedded = sum(lookup["amount"] for lookup in measured if lookup)
        return {"n_embedded": n_embedded, "embed_seconds": sum(map(_seconds, measured))}

    def _of(
        self, what: str, asset: str, name: str, *, cached: bool | None = None
    ) -> Measurement | None:
        fingerprint = self._fingerprints.get((asset, name))
        return None if fingerprint is None else self._find(what, fingerprint, cached=cached)


def _seconds(measured: Measurement | None) -> float:
    return (measured["seconds"] or 0.0) if measured else 0.0


def latency_sheet(experiment: str, rows: Sequence[Row]) -> Sheet:
    """Return one row a retriever."""
    timed = max((row["n_timed"] for row in rows if row["n_timed"]), default=0)
    is_charged = any(row["query_cost"] for row in rows)
    columns = (
        Column("retriever", "retriever", TEXT, min_width=8),
        Column("queries_per_second", "queries\nper s", ",.0f"),
        *(Column(name, name.replace("_", "\n"), ROUGH) for name in _PERCENTILES),
        *([Column("query_cost", "cost a\nquery", ".4g")] if is_charged else []),
        Column("index_seconds", "index\ns", ROUGH),
        Column("index_megabytes", "index\nMB", ROUGH),
        Column("n_embedded", "embed-\nded", ",d"),
        Column("embed_seconds", "embed\ns", ROUGH),
    )
    notes = [
        "p50, p95, p99: measured, with every step of a query included; -: a step was not measured.",
        "embedded: new texts out of all; the others were in the cache.",
    ]
    title = f"{experiment}: p50, p95 and p99 of {timed} single queries, one at a time"
    size = "index_bytes"
    lines = [
        {**row, "index_megabytes": None if row[size] is None else row[size] / 1_000_000}
        for row in rows
    ]
    return Sheet(title, columns, lines, notes=notes, is_narrow=True)
