"""The base of every retriever type that asks a search which is not ours."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, ClassVar, Protocol, Self

from pydantic import Field, model_validator

from rag_assets.models.encoder import Encoder
from rag_assets.models.known_prompts import Prompts, prompts_of
from rag_assets.models.model_files import PACKAGES
from rag_assets.options import Depth, Number, Options
from rag_assets.package_versions import version
from rag_assets.retrieval.base import BASE, Retriever, Role
from rag_assets.retrieval.external.hits import QueryResult, Rejected
from rag_assets.retrieval.workspace import NO_WORKSPACE, Workspace, measured
from rag_assets.servers.client import Outage
from rag_assets.servers.failures import ServerFailure

Search = Callable[[Sequence[str], int], Iterator[QueryResult]]
"""Asks for the best k hits of each text of a query, and yields the results in order.

``concurrency`` queries are asked at once. A query that fails is a result with an ``error``.
"""

ALWAYS = "always"
"""The revision of a search that is asked again in each evaluation."""


class RevisionQuery(Options):
    """SQL whose one value says which state of a database is asked; each evaluation asks it."""

    sql: Annotated[str, Field(min_length=1)]


class Connection(Protocol):
    """A server, a database or code that several threads may ask at once."""

    def ask(self, values: Mapping[str, Any]) -> tuple[Any, float]:
        """Return an answer and the seconds until it came; raises ServerFailure if there is none.

        Args:
            values: ``query``, ``vector`` and ``k``.
        """

    def line(self, reason: str) -> str:
        """Return why there is no result on one short line without a credential."""

    def close(self) -> None:
        """Close the connections."""


class ExternalRetriever(Retriever, ABC):
    """Options of a retriever that asks a search which is not ours.

    ``chunking`` names the chunks that its ids are of; without it, ids are those of documents, and
    texts and spans are chunks of its own. What the search holds cannot be seen from here, so
    ``revision`` says it: a text, of a database ``{sql: query}``, or ``always``, which asks again in
    each evaluation. As long as it is the same, and the queries are, stored
    answers are believed. ``k`` hits are asked for, or as many as anything reads.
    ``concurrency`` queries are asked at once, each for ``timeout`` seconds at most.
    """

    family: ClassVar[str] = "external"
    level: ClassVar[int] = BASE
    needs_revision: ClassVar[bool] = True
    """True if the state of the search cannot be derived from files or code."""
    answers_sql: ClassVar[bool] = False
    """True if its revision may be a query."""

    chunking: str | None = None
    revision: Annotated[
        Annotated[str, Field(min_length=1)] | RevisionQuery | None, Role.NOTHING
    ] = None
    k: Annotated[Depth | None, Role.NOTHING] = None
    concurrency: Annotated[int, Field(ge=1, le=256, strict=True), Role.NOTHING] = 1
    timeout: Annotated[Number, Field(gt=0, le=3600), Role.NOTHING] = 60.0

    @model_validator(mode="after")
    def _says_its_revision(self) -> Self:
        if self.needs_revision and self.revision is None:
            raise ValueError(
                "needs `revision`, since we cannot see what is searched: a text that "
                "you change with it, or always"
            )
        if isinstance(self.revision, RevisionQuery) and not self.answers_sql:
            raise ValueError("revision: {sql: ...} asks a database; this search is not a database")
        return self

    @abstractmethod
    def connect(self) -> Connection:
        """Load the code, open the file, or read what connecting needs.

        Raises:
            UsageError: what concerns all queries alike: a module or a variable is missing.
            DataError: the file of a database cannot be opened.
        """

    @abstractmethod
    def read(self, answer: Any, k: int) -> QueryResult:  # noqa: ANN401
        """Return what an answer says; raises Rejected if it is no list of hits."""

    def vectors(self, texts: Sequence[str], workspace: Workspace) -> Sequence[object]:
        """Return the vector of each text, None without an embedding model."""
        return [None] * len(texts)

    @contextmanager
    def opened(self, workspace: Workspace) -> Iterator[Search]:
        """Connect, and return the search; see :meth:`connect` for what it raises."""
        with closing(self.connect()) as connection:
            yield partial(self._search, connection, workspace)

    def _search(
        self, connection: Connection, workspace: Workspace, texts: Sequence[str], k: int
    ) -> Iterator[QueryResult]:
        vectors, outage = self.vectors(texts, workspace), Outage()

        def result(number: int) -> QueryResult:
            if outage.reason is not None:
                return QueryResult(error=f"not asked: {outage.reason}")
            values = {"query": texts[number], "vector": vectors[number], "k": k}
            try:
                answer, seconds = connection.ask(values)
                outage.note(None)
                result = self.read(answer, k)._replace(seconds=seconds)
            except (ServerFailure, Rejected) as problem:
                if isinstance(problem, ServerFailure):
                    outage.note(problem)
                result = QueryResult(error=str(problem))
            return QueryResult(error=connection.line(result.error)) if result.error else result

        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="rag_assets search") as pool:
            yield from pool.map(result, range(len(texts)))

    @abstractmethod
    def describe_for_plan(self) -> Sequence[str]:
        """Return lines: what would be run or asked (module and function; host). Runs nothing."""

    @property
    def runs_code(self) -> bool:
        """Whether code that the experiment names is run in this process."""
        return False

    @property
    def asks_revision(self) -> bool:
        """Whether each evaluation asks for the revision, by :meth:`current_revision`."""
        return self.revision == ALWAYS or isinstance(self.revision, RevisionQuery)

    def current_revision(self) -> str:
        """Return the revision as it is now; called by an evaluation, never by what only looks."""
        return datetime.now(UTC).isoformat(timespec="microseconds")

    def ranking_config(self) -> Mapping[str, Any]:
        """Return the options that determine what is found."""
        return self.described()


class QueryEmbedding(Options):
    """The model that the vectors of a search are of; ``query_prompt`` is put before every query.

    With ``normalise`` vectors have length 1, else the model's own.
    """

    model: str = Field(min_length=1)
    query_prompt: str | None = None
    normalise: Annotated[bool, Field(strict=True)] = True

    def vectors(self, texts: Sequence[str], workspace: Workspace) -> list[list[float]]:
        """Return the vector of each text; known ones come from the cache.

        Raises:
            ModelUnavailable: the model cannot be loaded.
        """
        encoder = self._encoder(workspace)
        array = measured(
            lambda progress: encoder.encode(texts, kind="query", progress=progress),
            texts,
            "query",
            workspace,
        )
        vectors: list[list[float]] = array.tolist()
        return vectors

    def seconds(self, text: str) -> float:
        """Return the wall time of embedding a query, past the cache."""
        encoder, before = self._encoder(NO_WORKSPACE), time.perf_counter()
        encoder.encode_now([text], kind="query")
        return time.perf_counter() - before

    def described(self) -> Mapping[str, Any]:
        """Return all that determines a vector, without loading the model."""
        return self._encoder(NO_WORKSPACE).describe("query")

    def prompts(self) -> Prompts:
        """Return what is put before queries.

        Raises:
            ModelUnavailable: the model's files cannot be had.
        """
        return prompts_of(self.model, self.query_prompt, "")

    def _encoder(self, workspace: Workspace) -> Encoder:
        return Encoder(
            self.model,
            query_prompt=self.prompts().for_encoder("query"),
            normalise=self.normalise,
            cache=workspace.cache_of("embeddings"),
            compute=workspace.compute,
        )


class ServedRetriever(ExternalRetriever, ABC):
    """A search that may want vectors of an embedding model of ours."""

    embedding: QueryEmbedding | None = None

    def vectors(self, texts: Sequence[str], workspace: Workspace) -> Sequence[object]:
        if self.embedding is None or not texts:
            return super().vectors(texts, workspace)
        return self.embedding.vectors(texts, workspace)

    def ranking_config(self) -> Mapping[str, Any]:
        embedding = {} if self.embedding is None else {"embedding": self.embedding.described()}
        return {**super().ranking_config(), **embedding}

    def versions(self) -> Mapping[str, str]:
        return {name: version(name) for name in PACKAGES if self.embedding is not None}
