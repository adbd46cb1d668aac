"""Base retrievers: those that search a chunking for a query set, and those that read a ranking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

import pyarrow as pa
from pydantic import Field, model_validator

from rag_assets.errors import UsageError
from rag_assets.options import Number
from rag_assets.package_versions import version
from rag_assets.query_sets.variants import Method
from rag_assets.retrieval.external.base import UNCHUNKED
from rag_assets.retrieval.external.hits import QueryResult
from rag_assets.retrieval.recency import Recency
from rag_assets.retrieval.retriever import BASE, Retriever, Role, Searcher
from rag_assets.retrieval.workspace import Workspace

if TYPE_CHECKING:
    from rag_assets.llm.completions import Estimate

ORIGINAL = "original"
"""The query set that always exists: it has the original queries."""

Weight = Annotated[Number, Field(ge=0)]


class BaseRetriever(Retriever, ABC):
    """Options of a retriever that searches.

    ``chunking`` names what is searched, ``query_set`` what is searched for. Where a query has
    several variants each is searched, and ``variants`` says how their rankings become one:
    ``rrf`` (k = 60), ``max`` or ``sum`` of the scores, or ``weighted``: the sum of the scores times
    ``variant_weights``, by the number of the variant (the last weight counts for all beyond).
    The first ``variant_candidates`` units of each ranking are read, whatever ``top_k`` is: a unit
    further below in one of them would change the order at the top.
    With ``filters`` a query finds only documents that match its ``filter``; without a word the
    experiment decides. With ``recency`` scores fall with the age of the document.
    """

    level: ClassVar[int] = BASE

    chunking: str | None = None
    query_set: str = Field(default=ORIGINAL, min_length=1)
    variants: Annotated[Method, Role.SEARCH] = "rrf"
    variant_weights: Annotated[tuple[Weight, ...] | None, Role.SEARCH] = None
    variant_candidates: Annotated[int, Field(ge=1, strict=True), Role.SEARCH] = 100
    filters: Annotated[bool, Field(strict=True)] | None = None
    recency: Recency | None = None

    @model_validator(mode="after")
    def _weights_belong_to_weighted(self) -> Self:
        if (self.variants == "weighted") != any(self.variant_weights or ()):
            raise ValueError("variant_weights belong to variants: weighted, which needs them")
        return self

    @model_validator(mode="after")
    def _variants_belong_to_a_query_set(self) -> Self:
        if self.query_set == ORIGINAL and self.model_fields_set & {
            "variants",
            "variant_weights",
            "variant_candidates",
        }:
            raise ValueError("variants need a query_set; else there is only the original query")
        return self

    @property
    def indexes_texts(self) -> bool:
        """Whether it indexes the texts that it is given, and so may be given several of a chunk."""
        return True

    def index_options(self) -> Mapping[str, Any]:
        """Return the options that determine the index."""
        return self.own(Role.INDEX)

    def search_config(self) -> Mapping[str, Any]:
        """Return the options that determine the ranking besides the index."""
        return self.own(Role.SEARCH)

    @abstractmethod
    def open(self, folder: Path) -> Searcher[Any]:
        """Open what ``build`` wrote, to be searched for texts, or by their vectors.

        The searcher of a lexical retriever takes a list of texts, that of an embedding retriever
        rows of :data:`rag_assets.schemas.QUERY_VECTORS`.
        """


class LexicalRetriever(BaseRetriever, ABC):
    """A retriever that finds chunks by their words."""

    family: ClassVar[str] = "lexical"

    @abstractmethod
    def build(self, chunks: pa.Table, texts: Sequence[str], folder: Path) -> Mapping[str, Any]:
        """Index chunks into an empty folder; equal input gives equal files.

        Args:
            chunks: table of :data:`rag_assets.schemas.CHUNKS`.
            texts: what is indexed of each chunk: title, headings where wanted, text.
            folder: where the files go.

        Returns:
            Facts worth showing.
        """


class EmbeddingRetriever(BaseRetriever, ABC):
    """A retriever that finds chunks by vectors."""

    family: ClassVar[str] = "embedding"
    search_packages: ClassVar[tuple[str, ...]] = ()
    """Those whose versions determine a search, without what embeds."""
    asks_server: ClassVar[bool] = False
    """Whether a server embeds: queries are then timed when it is asked, and not once more."""

    @abstractmethod
    def describe(self, kind: Literal["query", "document"]) -> Mapping[str, Any]:
        """Return all that determines the vectors of texts of this kind, without loading a model."""

    @abstractmethod
    def build(
        self, chunks: pa.Table, texts: Sequence[str], folder: Path, workspace: Workspace
    ) -> Mapping[str, Any]:
        """Embed and index chunks into an empty folder; see :meth:`LexicalRetriever.build`."""

    @abstractmethod
    def encode(self, variants: pa.Table, workspace: Workspace) -> pa.Table:
        """Return the vectors of queries, in the same order.

        Args:
            variants: table of :data:`rag_assets.schemas.QUERY_VARIANTS`.
            workspace: caches and progress.

        Returns:
            Table of :data:`rag_assets.schemas.QUERY_VECTORS`.
        """

    def encode_now(self, texts: Sequence[str]) -> bool:
        """Encode queries past every cache, for a measurement, when that loads nothing.

        Returns:
            Whether it was done.
        """
        return False

    def expected_requests(
        self, texts: Sequence[str], kind: Literal["query", "document"]
    ) -> Estimate | None:
        """Return what embedding texts asks of a server at most; None: that is not known."""
        return None

    def search_versions(self) -> Mapping[str, str]:
        """Return the versions of what searches, without what embeds."""
        return {name: version(name) for name in self.search_packages}

    def most_results(self) -> tuple[str, int] | None:
        """Return the option that bounds the results of a query, and its value; None: none does."""
        return None


class ImportedRetriever(Retriever, ABC):
    """Options of a retriever that is read, not computed.

    ``chunking`` names the chunks that its ids are of; ``own``: what was retrieved are texts and
    spans, which are located in the documents.
    """

    family: ClassVar[str] = "imported"
    level: ClassVar[int] = BASE

    chunking: str | None = None

    def read_hits(self, queries: pa.Table) -> Mapping[str, QueryResult]:
        """Return what was retrieved for each query, with ``chunking: own``: texts and spans.

        Args:
            queries: table of :data:`rag_assets.schemas.QUERIES`.

        Raises:
            DataError: the file cannot be read.
        """
        raise UsageError(f"`chunking: {UNCHUNKED}`: {self.type} has no texts or spans")

    @abstractmethod
    def read(self, queries: pa.Table, chunks: pa.Table, *, judge: str) -> Imported:
        """Return the rankings of the experiment's queries.

        Args:
            queries: table of :data:`rag_assets.schemas.QUERIES`.
            chunks: table of :data:`rag_assets.schemas.CHUNKS`.
            judge: ``document``, ``chunk`` or ``evidence``.

        Raises:
            DataError: the file cannot be read, or names a unit or query that does not exist.
        """


class Imported(NamedTuple):
    """Rankings from elsewhere: table of ``schemas.RUNS``, facts worth showing, failed queries."""

    table: pa.Table
    facts: Mapping[str, Any] = {}
    failures: Mapping[str, str] = {}
