"""What every retriever type is: options, a family, what determines and expands its results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import Field, model_validator
from pydantic.fields import FieldInfo

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.models.model_files import ModelFiles
from rag_assets.options import FileOptions, Number, Options
from rag_assets.ordering import Hits, Positions
from rag_assets.package_versions import version
from rag_assets.servers.client import RequestOptions

Queries = TypeVar("Queries", contravariant=True)

BASE, FUSED, RERANKED = 0, 1, 2
"""The levels of the types; what reads a reranked retriever stands :data:`SECOND` levels higher."""

SECOND = 2
MAX_DERIVED = 3
"""So many fusions and rerankings may stand one on the other."""


class Searcher(ABC, Generic[Queries]):
    """An opened index: queries in, ranked chunks out.

    Attributes:
        chunk_ids: the ids that positions of hits refer to.
    """

    chunk_ids: Sequence[str]

    @abstractmethod
    def search(
        self, queries: Queries, depth: int, progress: Callable[[int], None] | None
    ) -> list[Hits]:
        """Return the best ``depth`` chunks of each query, in the order of ``ordering``."""

    def restricted_to(self, positions: Positions) -> Searcher[Queries] | None:
        """Return a searcher of the chunks at these positions, with the scores of the whole.

        Its own positions count from 0. Queries with filters are then searched among the chunks that
        match. None: that cannot be done; deeper hits are asked for until enough of them match.
        """
        return None

    def exact(self) -> Searcher[Queries] | None:
        """Return a searcher of the same chunks that misses none; None: this one misses none."""
        return None


class Role(Enum):
    """What an option determines, where it is declared; one without a role determines the index."""

    INDEX = "index"
    SEARCH = "search"
    MODEL = "model"  # and stands in ``describe``
    NOTHING = "nothing"


_ELSEWHERE = frozenset({"chunking", "query_set", "inputs", "input", "expand", "filters", "recency"})
"""Options that stand in the inputs of a stage, or in recipes of the stages that they concern."""


def options_of(options: Options, role: Role) -> dict[str, Any]:
    """Return the options that have a role, those in blocks too."""
    dumped, chosen = options.model_dump(mode="json"), dict[str, Any]()
    for name, field in type(options).model_fields.items():
        value = getattr(options, name)
        if isinstance(value, Options):
            chosen |= {name: block} if (block := options_of(value, role)) else {}
        elif _role(field) is role:
            chosen[name] = dumped[name]
    return chosen


def _role(field: FieldInfo) -> Role:
    return next((part for part in field.metadata if isinstance(part, Role)), Role.INDEX)


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
        family: which assets compute it: ``lexical``, ``embedding``, ``imported``, ``external``,
            ``fused`` or ``reranked``.
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

    @model_validator(mode="before")
    @classmethod
    def _can_weigh_by_time(cls, data: object) -> object:
        if isinstance(data, dict) and "recency" in data and "recency" not in cls.model_fields:
            raise ValueError(
                f"recency is no option of {data.get('type')}: it weighs the scores of lexical, "
                "embedding and fused retrievers; put it on one that this one reads, or on a "
                "fusion that reads this one"
            )
        return data

    @classmethod
    def named(cls, name: str, retrievers: Mapping[str, Retriever]) -> Self:
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
        of_others = {
            name
            for name, field in type(self).model_fields.items()
            if _role(field) in (Role.MODEL, Role.NOTHING)
        }
        names = self._without_effect() | of_others | exclude
        return self.model_dump(mode="json", exclude=names)

    def own(self, role: Role) -> dict[str, Any]:
        """Return the options of a role, without names of retrievers and files."""
        chosen = options_of(self, role).items()
        return {name: value for name, value in chosen if name not in self._without_effect()}

    def _without_effect(self) -> set[str]:
        names = {*_ELSEWHERE, *self.file_options}
        return names | self.of_requests if isinstance(self, RequestOptions) else names
