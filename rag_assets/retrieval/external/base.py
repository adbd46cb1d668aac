"""The base of every retriever type that asks a search which is not ours, and what it gives."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import pyarrow as pa
from pydantic import Field

from rag_assets.answers.answerers import AnswererOptions
from rag_assets.answers.generators import Generator, Question
from rag_assets.called.asked import AskedOptions, Asker, Connection
from rag_assets.called.hits import Hit, Rejected
from rag_assets.llm.completions import ModelSession
from rag_assets.models.encoder import Encoder
from rag_assets.models.model_files import PACKAGES
from rag_assets.options import Depth, Options
from rag_assets.package_versions import version
from rag_assets.retrieval.base import BASE, Retriever, Role
from rag_assets.retrieval.workspace import NO_WORKSPACE, Workspace, measured


class QueryResult(NamedTuple):
    """The outcome of one query, best hit first.

    Attributes:
        hits: empty if the search found nothing, which is a result.
        seconds: wall time from the question to the answer; None: not known.
        error: why it failed; the query then has no ranking and counts as failed.
    """

    hits: Sequence[Hit] = ()
    seconds: float | None = None
    error: str | None = None


Search = Callable[[Sequence[str], int], Iterator[QueryResult]]
"""Asks for the best k hits of each text of a query, and yields the results in order.

``concurrency`` queries are asked at once. A query that fails is a result with an ``error``.
"""


class ExternalRetriever(AskedOptions, Retriever, ABC):
    """Options of a retriever that asks a search which is not ours.

    ``chunking`` names the chunks that its ids are of; without it, ids are those of documents, and
    texts and spans are chunks of its own. What the search holds cannot be seen from here, so
    ``revision`` says it: a text, or ``always``, which asks again in each evaluation. As long as it
    is the same, and the queries are, stored answers are believed. ``k`` hits are asked for, or as
    many as anything reads. ``concurrency`` queries are asked at once, each for ``timeout`` seconds
    at most.
    """

    family: ClassVar[str] = "external"
    level: ClassVar[int] = BASE

    chunking: str | None = None
    k: Annotated[Depth | None, Role.NOTHING] = None

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
        vectors, asker = self.vectors(texts, workspace), Asker(connection)

        def result(number: int) -> QueryResult:
            values = {"query": texts[number], "vector": vectors[number], "k": k}
            try:
                result, seconds = asker.ask(values, lambda answer: self.read(answer, k))
            except Rejected as problem:
                return QueryResult(error=str(problem))
            return result._replace(seconds=seconds)

        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="rag_assets search") as pool:
            yield from pool.map(result, range(len(texts)))

    def asked_as(self) -> Mapping[str, Any]:
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
        encoder = self.encoder(workspace)
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
        encoder, before = self.encoder(), time.perf_counter()
        encoder.encode_now([text], kind="query")
        return time.perf_counter() - before

    def encoder(self, workspace: Workspace = NO_WORKSPACE) -> Encoder:
        """Return the model with its prompt and cache; it is loaded for the first unknown text."""
        options = workspace.encoder_options(self, "embeddings")
        return Encoder(**options, normalise=self.normalise)


class ServedRetriever(ExternalRetriever, ABC):
    """A search that may want vectors of an embedding model of ours."""

    embedding: QueryEmbedding | None = None

    def vectors(self, texts: Sequence[str], workspace: Workspace) -> Sequence[object]:
        if self.embedding is None or not texts:
            return super().vectors(texts, workspace)
        return self.embedding.vectors(texts, workspace)

    def asked_as(self) -> Mapping[str, Any]:
        asked = super().asked_as()
        if self.embedding is None:
            return asked
        return {**asked, "embedding": self.embedding.encoder().describe("query")}

    def versions(self) -> Mapping[str, str]:
        return {name: version(name) for name in PACKAGES if self.embedding is not None}


class ImportedRetriever(Retriever, ABC):
    """Options of a retriever that is read, not asked; its hits are located as those of a search.

    ``chunking`` names the chunks that its ids are of; ``own``: what was retrieved are texts and
    spans.
    """

    family: ClassVar[str] = "external"
    level: ClassVar[int] = BASE

    chunking: str | None = None

    @abstractmethod
    def read(self, queries: pa.Table) -> Mapping[str, QueryResult]:
        """Return what was retrieved for each query that is there, or why that failed.

        Args:
            queries: table of :data:`rag_assets.schemas.QUERIES`.

        Raises:
            DataError: the file cannot be read.
        """


class AnsweredRetriever(Retriever, ABC):
    """Options of a retriever whose hits come with the answers of one of the ``generators``.

    Ids are those of documents; texts and spans are located, as those of a search.
    """

    family: ClassVar[str] = "external"
    level: ClassVar[int] = BASE

    generator: str = Field(min_length=1)
    chunking: Literal["own"] = "own"

    @abstractmethod
    def asked(self, generator: Generator, revision: str | None) -> Mapping[str, str]:
        """Return what stands for the generator in a fingerprint."""

    @abstractmethod
    def read(
        self, generator: Generator, questions: Sequence[Question], session: ModelSession
    ) -> list[QueryResult]:
        """Return the contexts of each question; answers that are stored are not asked for."""


def reads_its_own(options: AnswererOptions, retrievers: Mapping[str, Retriever]) -> bool:
    """Return whether an answerer's context is what its generator retrieves by itself."""
    read = retrievers.get(options.retriever or "")
    is_own = isinstance(read, AnsweredRetriever) and read.generator == options.generator
    return is_own and options.context is None
