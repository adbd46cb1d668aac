"""How fast each retriever is and what its index cost: rows for programs, and sheets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from rag_assets.engine.measurements import MEASUREMENTS, Measurement, Measurements
from rag_assets.experiment.experiment import Experiment
from rag_assets.query_sets.query_set import PromptedQuerySet
from rag_assets.report.formats import rough
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sheet import ROUGH, TEXT, Column, Sheet
from rag_assets.retrieval.base import BaseRetriever
from rag_assets.retrieval.external.base import ExternalRetriever
from rag_assets.retrieval.external.stage import ANSWER, ExternalRankings
from rag_assets.retrieval.lexical.stage import term_counts_key

Row = dict[str, Any]

ASKED = ExternalRankings.name
_INDEXES = ("lexical_index", "embedding_index")
_EMBEDDED = ("embedding_index", "embedding_queries")


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
    - ``concurrency``: how many queries a search that is not ours is asked at once, and
      ``concurrent_p50_ms``, ``concurrent_p95_ms``, ``concurrent_p99_ms``: of single queries then.
    - ``query_cost``: money that servers take for a query, on average; 0 where none is asked, None
      where a part of it is not known.
    - ``known_p50_ms``, ``known_p95_ms``, ``known_p99_ms``: the same with known vectors; None for
      a retriever without an embedding model.
    - ``index_seconds``: building the index, with analysing its texts and without embedding;
      ``index_bytes``: its size on disk.
    - ``rerank_seconds``: of a reranker for the candidates of all queries, with what it looked up.
    - ``n_asked``, ``n_asked_before``: requests to a language model, texts sent to a server,
      documents that a reranker scored, and those whose answer was kept from before; for this
      retriever and its query set.
    - ``api_tokens``: tokens that the server counted; ``api_cost``: money for them, where the
      experiment has prices.
    - ``n_embedded``, ``n_from_cache``: texts (chunks and queries) that the model embedded, and
      that the vector cache had; ``embed_seconds``: for all, with loading the model.
    """
    measured = _RetrieverMeasurements(result, experiment)
    names = [name for name in experiment.retrievers if name in retrievers]
    return [
        {
            "retriever": name,
            "queries_per_second": measured.queries_per_second(name),
            **measured.latency(name),
            **measured.concurrent(name),
            **measured.index(name),
            **measured.embedded(name),
            "rerank_seconds": measured.rerank_seconds(name),
            **measured.asked(name),
        }
        for name in names
        if name in result.run_retrievers
    ]


class _RetrieverMeasurements:
    """The measurements of the artifacts that an evaluation names."""

    def __init__(self, result: EvaluationResult, experiment: Experiment) -> None:
        self._measurements = Measurements(result.root.parent / MEASUREMENTS)
        self._experiment = experiment
        self._rankings = result.rankings()
        self._fingerprints = {
            (entry.asset, entry.partition["retriever"]): entry.fingerprint
            for asset in {*_INDEXES, *_EMBEDDED, ASKED}
            for entry in result.evaluation.entries_of(asset)
        }
        self._counts = {
            entry.partition["analysis"]: entry.fingerprint
            for entry in result.evaluation.entries_of("term_counts")
        }
        self._asking = {name: _asking(result, experiment, name) for name in result.run_retrievers}

    def queries_per_second(self, retriever: str) -> float | None:
        seconds, n_queries = 0.0, 0
        for name in (retriever, *self._experiment.inputs(retriever)):
            if self._is_written(name) or any(one["amount"] for one in self._known_scores(name)):
                return None
            if self._experiment.family(name) == "external":
                search = self._of(ANSWER, ASKED, name)
            else:
                search = self._measurements.find("search", self._rankings.get(name, ""))
            if search is None or search["seconds"] is None:
                return None
            seconds, n_queries = seconds + search["seconds"], search["amount"]
        return n_queries / seconds if seconds else None

    def _is_written(self, retriever: str) -> bool:
        """Return whether a language model writes what a retriever searches for."""
        config = self._experiment.retrievers[retriever]
        query_set = config.query_set if isinstance(config, BaseRetriever) else ""
        return isinstance(self._experiment.query_sets.get(query_set), PromptedQuerySet)

    def _known_scores(self, retriever: str) -> list[Measurement]:
        if self._experiment.retrievers[retriever].family != "reranked":
            return []
        runs = self._asking.get(retriever, [])
        lookups = [self._measurements.find("ask", one, cached=True) for one in runs]
        return [one for one in lookups if one is not None]

    def latency(self, retriever: str) -> Row:
        ranking = self._rankings.get(retriever, "")
        row: Row = {}
        for cached, prefix in ((False, ""), (True, "known_")):
            measured = self._measurements.find("latency", ranking, cached=cached)
            for name in ("p50_ms", "p95_ms", "p99_ms"):
                row[f"{prefix}{name}"] = measured.get(name) if measured else None
            if not cached:
                row["n_timed"] = measured["amount"] if measured else None
                cost = measured["cost"] if measured and measured["amount"] else None
                row["query_cost"] = (
                    cost / measured["amount"] if measured and cost is not None else None
                )
        return row

    def concurrent(self, retriever: str) -> Row:
        config = self._experiment.retrievers[retriever]
        measured = self._of(ANSWER, ASKED, retriever)
        n_at_once = config.concurrency if isinstance(config, ExternalRetriever) else None
        row: Row = {"concurrency": n_at_once}
        for name in ("p50_ms", "p95_ms", "p99_ms"):
            row[f"concurrent_{name}"] = measured.get(name) if measured and n_at_once else None
        return row

    def index(self, retriever: str) -> Row:
        for asset in _INDEXES:
            built = self._of(asset, asset, retriever)
            if built is not None and built["seconds"] is not None:
                embed = self._of("embed", asset, retriever, cached=False)
                embedding = (embed["seconds"] or 0.0) if embed else 0.0
                seconds = max(0.0, built["seconds"] - embedding) + self._analysing(retriever)
                return {"index_seconds": seconds, "index_bytes": built["bytes"]}
        return {"index_seconds": None, "index_bytes": None}

    def _analysing(self, retriever: str) -> float:
        """Return the seconds for the analysed texts, which others may share."""
        key = term_counts_key(self._experiment, retriever)
        fingerprint = self._counts.get(key["analysis"], "") if key is not None else ""
        measured = self._measurements.find("term_counts", fingerprint)
        return (measured["seconds"] or 0.0) if measured else 0.0

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

    def rerank_seconds(self, retriever: str) -> float | None:
        if self._experiment.retrievers[retriever].family != "reranked":
            return None
        ranking = self._rankings.get(retriever, "")
        measured = self._measurements.find("search", ranking)
        return measured["seconds"] if measured else None

    def asked(self, retriever: str) -> Row:
        """Return what APIs were asked for, its inputs left out."""
        new = self._asked(retriever, cached=False)
        old = self._asked(retriever, cached=True)
        counted = [one for one in new if one["what"] == "ask" or one["tokens"] is not None]
        tokens = [one["tokens"] for one in counted if one["tokens"] is not None]
        costs = [one["cost"] for one in counted if one["cost"] is not None]
        return {
            "n_asked": sum(one["amount"] for one in counted) if counted else None,
            "n_asked_before": sum(one["amount"] for one in old) if counted and old else None,
            "api_tokens": sum(tokens) if tokens else None,
            "api_cost": sum(costs) if costs else None,
        }

    def _asked(self, retriever: str, *, cached: bool) -> list[Measurement]:
        measured = [self._of("embed", asset, retriever, cached=cached) for asset in _EMBEDDED]
        for fingerprint in self._asking.get(retriever, []):
            measured.append(self._measurements.find("ask", fingerprint, cached=cached))
        return [one for one in measured if one is not None]

    def _of(
        self, what: str, asset: str, retriever: str, *, cached: bool | None = None
    ) -> Measurement | None:
        fingerprint = self._fingerprints.get((asset, retriever))
        if fingerprint is None:
            return None
        return self._measurements.find(what, fingerprint, cached=cached)


def _asking(result: EvaluationResult, experiment: Experiment, retriever: str) -> list[str]:
    """Return the fingerprints of what may have asked an API: the runs, and the query set."""
    config = experiment.retrievers.get(retriever)
    query_set = config.query_set if isinstance(config, BaseRetriever) else None
    return [
        entry.fingerprint
        for entry in result.evaluation.entries
        if (entry.asset.endswith("_runs") and entry.partition["retriever"] == retriever)
        or (entry.asset == "query_set_answers" and entry.partition["query_set"] == query_set)
    ]


def latency_sheets(experiment: str, rows: Sequence[Row]) -> list[Sheet]:
    """Return one row a retriever, and what rerankers took and servers counted."""
    timed = max((row["n_timed"] for row in rows if row["n_timed"]), default=0)
    columns = (
        Column("retriever", "retriever", TEXT, min_width=8),
        Column("queries_per_second", "queries\nper s", ",.0f"),
        Column("p50_ms", "p50\nms", ROUGH),
        Column("p95_ms", "p95\nms", ROUGH),
        Column("p99_ms", "p99\nms", ROUGH),
        Column("known_p50_ms", "known\np50", ROUGH),
        Column("index_seconds", "index\ns", ROUGH),
        Column("index_megabytes", "index\nMB", ROUGH),
        Column("texts", "embed-\nded", "s"),
        Column("embed_seconds", "embed\ns", ROUGH),
    )
    notes = [
        "p50, p95, p99: with all that a query needs, as measured; -: a part was not measured.",
        "known p50: with known vectors, in ms. embedded: new texts of all; the others were cached.",
        *_at_once(rows),
    ]
    title = f"{experiment}: p50, p95 and p99 of {timed} single queries, one at a time"
    first = Sheet(title, columns, [_line(row) for row in rows], notes=notes, is_narrow=True)
    asked = [row for row in rows if any(row.get(column.name) for column in _API_COLUMNS)]
    lead = Column("retriever", "retriever", TEXT)
    return [first, *([Sheet("", (lead, *_API_COLUMNS), asked)] if asked else [])]


_API_COLUMNS = (
    Column("rerank_seconds", "rerank s", ROUGH),
    Column("n_asked", "asked", ",d"),
    Column("n_asked_before", "known", ",d"),
    Column("api_tokens", "API tokens", ",d"),
    Column("api_cost", "API cost", ".4g"),
    Column("query_cost", "cost a query", ".4g"),
)


def _line(row: Row) -> Row:
    """Return a row with its index in MB, and how many texts were embedded, of how many."""
    size, new = row["index_bytes"], row["n_embedded"]
    return {
        **row,
        "index_megabytes": None if size is None else size / 1_000_000,
        "texts": None if new is None else f"{new}/{new + row['n_from_cache']}",
    }


def _at_once(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each search that is asked several queries at once."""
    for row in rows:
        if (row["concurrency"] or 0) > 1:
            times = (row[f"concurrent_{p}_ms"] for p in ("p50", "p95", "p99"))
            texts = ("-" if time is None else rough(time) for time in times)
            yield (
                f"{row['retriever']}, {row['concurrency']} queries at once: p50, p95 and p99 of "
                f"{', '.join(texts)} ms"
            )
