"""``type: http``: a search behind an address: an engine, or a service of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from rag_assets.options import Number
from rag_assets.retrieval.external.answer_paths import (
    FIELDS,
    JmesPath,
    Unusable,
    hit_at,
    list_at,
    require_no_error,
)
from rag_assets.retrieval.external.base import ExternalRetriever, Hit, QueryResult, SearchSession
from rag_assets.retrieval.external.http_connection import Connection, Outage, RequestOptions
from rag_assets.retrieval.external.query_embedding import QueryEmbedding
from rag_assets.retrieval.external.request_template import (
    Body,
    Headers,
    Url,
    fixed_headers,
    places_in,
)
from rag_assets.retrieval.external.workers import in_order
from rag_assets.servers.failures import ServerFailure
from rag_assets.servers.transport import Server


class HttpRetriever(ExternalRetriever):
    """A search that is asked by HTTP.

    In ``body`` and behind the ``?`` of ``url``, ``{query}`` and ``{k}`` stand for what is asked,
    ``{vector}`` for the query's vector by ``embedding``. ``hits`` is a JMESPath to the list of hits
    in an answer; ``id``, ``text``, ``document_id``, ``start``, ``end``, ``score`` and ``source``
    lead on from one hit. What ``error`` leads to says why a search failed, whatever its status.
    ``{queries}`` or ``{vectors}`` stand for those of up to ``batch_size`` queries, and ``answers``
    leads to a list with one answer for each. ``${NAME}`` in ``headers`` is a variable of the
    environment; its value is never stored, shown or part of a fingerprint.
    """

    search_options: ClassVar[frozenset[str]] = ExternalRetriever.search_options | {
        "batch_size",
        "requests_per_second",
        "retries",
        "backoff",
    }

    type: Literal["http"]
    url: Url
    method: Literal["POST", "GET"] = "POST"
    headers: Headers = Field(default_factory=dict)
    body: Body = None
    hits: JmesPath
    id: JmesPath | None = None
    text: JmesPath | None = None
    document_id: JmesPath | None = None
    start: JmesPath | None = None
    end: JmesPath | None = None
    score: JmesPath | None = None
    source: JmesPath | None = None
    error: JmesPath | None = None
    embedding: QueryEmbedding | None = None
    answers: JmesPath | None = None
    batch_size: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1
    requests_per_second: Annotated[Number, Field(gt=0)] | None = None
    retries: Annotated[int, Field(ge=0, le=20, strict=True)] = 2
    backoff: Annotated[Number, Field(ge=0)] = 1.0

    @model_validator(mode="after")
    def _names_one_kind_of_hit(self) -> Self:
        is_span = None not in (self.document_id, self.start, self.end) and self.text is None
        if [self.id is not None, self.text is not None, is_span].count(True) != 1:
            raise ValueError(
                "a hit is one of three: `id`; `text`; or `document_id`, `start` and `end`"
            )
        if self.id is not None and {"document_id", "start", "end", "source"} & set(self._paths):
            raise ValueError("`id` is enough; leave out document_id, start, end and source")
        return self

    @model_validator(mode="after")
    def _asks_for_queries(self) -> Self:
        if (self.body is None) == (self.method == "POST"):
            raise ValueError("`method: POST` needs a body, `method: GET` has none")
        places = {*places_in(self.body), *places_in(self.url)}
        one, several = {"query", "vector"} & places, {"queries", "vectors"} & places
        if not one and not several:
            raise ValueError("`body` and `url` have no '{query}' and no '{vector}'")
        if self.answers is None and (several or self.batch_size > 1):
            raise ValueError("a request for several queries needs `answers`, the path to theirs")
        if self.answers is not None and (one or not several):
            raise ValueError("`answers` belongs to '{queries}' or '{vectors}', and to them alone")
        if bool({"vector", "vectors"} & places) != (self.embedding is not None):
            raise ValueError("`embedding` and a '{vector}' in the request belong together")
        return self

    @property
    def _paths(self) -> dict[str, str]:
        paths = {name: getattr(self, name) for name in FIELDS}
        return {name: path for name, path in paths.items() if path is not None}

    def ranking_config(self) -> Mapping[str, Any]:
        """Return the options that determine what is found; nothing of a credential."""
        own: dict[str, Any] = {"headers": fixed_headers(self.headers)}
        if self.embedding is not None:
            own["embedding"] = self.embedding.described()
        return {**super().ranking_config(), **own}

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds queries."""
        return self.embedding.versions() if self.embedding is not None else {}

    def describe_for_plan(self) -> list[str]:
        """Return who would be asked, and for how many queries by a request."""
        each = f"{self.batch_size} queries" if self.batch_size > 1 else "each query"
        at_once = f", {self.concurrency} at once" if self.concurrency > 1 else ""
        return [f"asks {Server(self.url).place} by {self.method}, a request for {each}{at_once}"]

    def search(
        self, queries: Sequence[tuple[str, str]], k: int, tools: SearchSession
    ) -> Iterator[QueryResult]:
        """Send the requests; times are those of the server, without embedding and waiting.

        Raises:
            UsageError: a variable of a header is not set, or holds what no header can.
            ModelUnavailable: the model of ``embedding`` cannot be loaded.
        """
        connection = tools.get_or_open("http", lambda: closing(Connection(self._request_options())))
        texts = [text for _, text in queries]
        vectors: Sequence[object] = [None] * len(texts)
        if self.embedding is not None and texts:
            vectors = self.embedding.vectors(texts, tools.workspace)
        outage, size = Outage(), self.batch_size
        works = [
            partial(
                self._results, connection, outage, texts[at : at + size], vectors[at : at + size], k
            )
            for at in range(0, len(texts), size)
        ]
        for results in in_order(works, self.concurrency):
            yield from results

    def _request_options(self) -> RequestOptions:
        return RequestOptions(
            self.url,
            self.method,
            self.headers,
            self.body,
            timeout=self.timeout,
            per_second=self.requests_per_second,
            retries=self.retries,
            backoff=self.backoff,
        )

    def _results(
        self,
        connection: Connection,
        outage: Outage,
        texts: Sequence[str],
        vectors: Sequence[object],
        k: int,
    ) -> list[QueryResult]:
        """Return the result of each query of one request."""
        values = {"query": texts[0], "queries": list(texts), "k": k}
        values |= {"vector": vectors[0], "vectors": list(vectors)}
        try:
            answer, seconds = outage.watched(lambda: connection.ask(values))
            answers = self._answers(answer, len(texts))
        except (ServerFailure, Unusable) as problem:
            return [QueryResult(error=connection.line(problem))] * len(texts)
        results = []
        for one in answers:
            try:
                # What one query of several took is not known.
                result = QueryResult(self._hits(one, k), seconds if len(texts) == 1 else None)
            except Unusable as problem:
                result = QueryResult(error=connection.line(problem))
            results.append(result)
        return results

    def _answers(self, answer: object, n_queries: int) -> list[Any]:
        """Return the answer to each query of a request."""
        if self.answers is None:
            return [answer]
        found = list_at("answers", self.answers, answer)
        if len(found) != n_queries:
            raise Unusable(
                f"`answers: {self.answers}` has {len(found)} elements for {n_queries} queries"
            )
        return found

    def _hits(self, answer: object, k: int) -> list[Hit]:
        if self.error is not None:
            require_no_error(self.error, answer)
        rows = list_at("hits", self.hits, answer)[:k]
        paths = self._paths
        return [hit_at(paths, row, rank) for rank, row in enumerate(rows, 1)]
