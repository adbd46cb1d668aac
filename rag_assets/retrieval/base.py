"""What every retriever type is, and base retrievers: those that search, or read a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

import pyarrow as pa
from pydantic import Field, model_validator

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.models.model_files import ModelFiles
from rag_assets.options import Depth, FileOptions, Number, Options, options_of
from rag_assets.options import Role as Role
from rag_assets.ordering import Hits, Positions, byte_order_ranks
from rag_assets.package_versions import version
from rag_assets.query_sets.variants import Method
from rag_assets.retrieval.recency import Recency
from rag_assets.retrieval.workspace import Workspace
from rag_assets.servers.client import RequestOptions

if TYPE_CHECKING:
    from rag_assets.llm.completions import Estimate

Queries = TypeVar("Queries", contravariant=True)

BASE, FUSED, RERANKED = 0, 1, 2
"""The levels of the types; what reads a reranked retriever stands :data:`SECOND` levels higher."""

SECOND = 2
MAX_DERIVED = 3
"""So many fusions and rerankings may stand one on the other."""

Report = Callable[[int], None]
"""Is told how many queries are done."""


class Searcher(ABC, Generic[Queries]):
    """An opened index: queries in, ranked chunks out.

    Attributes:
        chunk_ids: the ids that positions of hits refer to.
    """

    chunk_ids: Sequence[str]

    @cached_property
    def ids_rank(self) -> Positions:
        """``byte_order_ranks`` of the chunk ids."""
        return byte_order_ranks(self.chunk_ids)

    @abstractmethod
    def search(self, queries: Queries, depth: int, progress: Report | None) -> list[Hits]:
        """Return the best ``depth`` chunks of each query, in the order of ``ordering``."""

    def restricted_to(self, positions: Positions) -> Searcher[Queries] | None:
        """Return a searcher of the chunks at these positions, with the scores of the whole.

        Its own positions count from 0. Queries with filters are then searched among the chunks that
        match. None: that cannot be done; deeper hits are asked for until enough of them match.
        """
        return None


class QuerySearcher(Searcher[Queries]):
    """An index that is searched for one query after the other."""

    @abstractmethod
    def read(self, queries: Queries) -> Iterable[Any]:
        """Return each query as :meth:`ranked` takes it."""

    @abstractmethod
    def ranked(self, query: Any, depth: int) -> Hits:  # noqa: ANN401 (as it was read)
        """Return the best ``depth`` chunks of one query, in the order of ``ordering``."""

    def search(self, queries: Queries, depth: int, progress: Report | None = None) -> list[Hits]:
        hits: list[Hits] = []
        for query in self.read(queries):
            hits.append(self.ranked(query, depth))
            if progress is not None:
                progress(len(hits))
        return hits


_ELSEWHERE = frozenset({"chunking", "query_set", "inputs", "input", "expand", "filters", "recency"})
"""Options that stand in the inputs of a stage, or in recipes of the stages that they concern."""


class WindowExpansion(Options):
    """Return with each unit the ``chunks`` units before and after it in its document."""

    type: Literal["window"]
    chunks: Annotated[int, Field(ge=1, le=1000, strict=True)] = 1


class Rm3Expansion(Options):
    """Pseudo-relevance feedback: add words of the first chunks to the query, and search again.

    Of the first ``documents`` chunks the ``terms`` words that stand out most are added. The words
    of the query itself have the share ``original_weight`` of all weight.
    """

    type: Literal["rm3"]
    documents: Annotated[int, Field(ge=1, le=1000, strict=True)] = 10
    terms: Annotated[int, Field(ge=1, le=1000, strict=True)] = 10
    original_weight: Annotated[Number, Field(ge=0, le=1)] = 0.5


class Retriever(FileOptions):
    """Options of one retriever.

    Attributes:
        family: which assets compute it: ``lexical``, ``embedding``, ``external``, ``fused`` or
            ``reranked``.
        level: of the type; a retriever reads only retrievers of lower levels.
        model_kind: what runs its model, as the Dagster UI knows it by an icon; None: it has none.
        search_kind: what searches, likewise.
        packages: those whose versions determine results.
        expand: what is returned, and judged, around each unit; ranks stay as they are.
    """

    family: ClassVar[str]
    level: ClassVar[int]
    model_kind: ClassVar[str | None] = None
    search_kind: ClassVar[str | None] = None
    provider: ClassVar[str | None] = None
    packages: ClassVar[tuple[str, ...]] = ()

    type: str
    expand: WindowExpansion | None = None

    @classmethod
    def lookup(cls, name: str, retrievers: Mapping[str, Retriever]) -> Self:
        """Return a retriever that must be of this class.

        Raises:
            TypeError: it is of another family.
        """
        retriever = retrievers[name]
        if not isinstance(retriever, cls):
            raise TypeError(f"{name} is no {cls.__name__}")
        return retriever

    @property
    def neighbours(self) -> WindowExpansion | None:
        """How many neighbours are returned with each unit; None: only itself."""
        return self.expand if isinstance(self.expand, WindowExpansion) else None

    @property
    def compares_queries(self) -> bool:
        """Whether best scores differ between queries: not where each is made of its rank."""
        return True

    @property
    def input_names(self) -> tuple[str, ...]:
        """The retrievers that this one reads; none for a base retriever."""
        return ()

    def tokenizer_files(self) -> ModelFiles | None:
        """Return the files of the local model whose tokenizer reads the texts, if there is one.

        Raises:
            ModelUnavailable: the model's files cannot be had.
        """
        return None

    def versions(self) -> Mapping[str, str]:
        """Return the versions of everything that computes the results besides our own code."""
        return {name: version(name) for name in self.packages}

    def code_roots(self) -> list[Root]:
        """Return the roots of the type's code, and of what its options choose from tables."""
        return [root_of(type(self))]

    def described(self, *, exclude: frozenset[str] = frozenset()) -> Mapping[str, Any]:
        """Return the options that determine rankings: without names of retrievers and files."""
        chosen = self.options_for(Role.INDEX, Role.SEARCH)
        return {name: value for name, value in chosen.items() if name not in exclude}

    def options_for(self, *roles: Role) -> dict[str, Any]:
        """Return the options of some roles, without names of retrievers and files."""
        chosen = options_of(self, *roles).items()
        without_effect = self._without_effect()
        return {name: value for name, value in chosen if name not in without_effect}

    def _without_effect(self) -> set[str]:
        names = {*_ELSEWHERE, *self.file_options}
        return names | self.of_requests if isinstance(self, RequestOptions) else names


ALL = "all"
"""Stands under ``candidates`` where every unit is scored, whatever the input ranks."""


class DerivedRetriever(Retriever, ABC):
    """A retriever that reads others to the depth of ``candidates``.

    ``candidates`` is a number, or ``top_k`` to read the lists already cut at the cell's top_k.
    """

    candidates: Depth | Literal["top_k", "all"]

    @property
    def scores_all(self) -> bool:
        """Whether it reads no ranking, but every unit that its inputs could return."""
        return self.candidates == ALL


SECTION_OF = {"chunking": "chunking", "query_set": "query_sets", "input": "retrievers"}
"""Option of a retriever -> the section of an ``experiment.yaml`` whose block its value names."""

UNCHUNKED = "own"
"""In place of a chunking: a search has chunks of its own, which it returns as texts or spans."""

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
            raise ValueError("variants: weighted and variant_weights need each other")
        return self

    @model_validator(mode="after")
    def _variants_belong_to_a_query_set(self) -> Self:
        if self.query_set == ORIGINAL and self.model_fields_set & {
            "variants",
            "variant_weights",
            "variant_candidates",
        }:
            raise ValueError("variants need a query_set")
        return self

    @property
    def indexes_texts(self) -> bool:
        """Whether it indexes the texts that it is given, and so may be given several of a chunk."""
        return True

    def index_options(self) -> Mapping[str, Any]:
        """Return the options that determine the index."""
        return self.options_for(Role.INDEX)

    def search_config(self) -> Mapping[str, Any]:
        """Return the options that determine the ranking besides the index."""
        return self.options_for(Role.SEARCH)

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
    """Whether a server embeds: a sample of queries is then timed once for a model, by asking."""

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
        """Encode queries past every cache, for a measurement, when that loads and asks nothing.

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
