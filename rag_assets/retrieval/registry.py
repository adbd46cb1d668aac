"""All retriever types: our own, each imported when it is first asked for, and those of packages.

A package adds a type by an entry point of the group ``rag_assets.retrievers``: its name is the
``type`` in an ``experiment.yaml``, its object a class of one of the six families.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import get_args

from rag_assets.errors import ConfigError
from rag_assets.retrieval.base import EmbeddingRetriever, ImportedRetriever, LexicalRetriever
from rag_assets.retrieval.derived import FusedRetriever, RerankedRetriever
from rag_assets.retrieval.external.base import ExternalRetriever
from rag_assets.retrieval.retriever import Retriever

GROUP = "rag_assets.retrievers"


class LazyTypes(Mapping[str, type[Retriever]]):
    """``type`` -> class; nothing is imported to list names, or to look whether there is one."""

    def __init__(
        self, places: Mapping[str, str], loaded: Mapping[str, type[Retriever]] | None = None
    ) -> None:
        """Take types that are to be imported, and those that are there.

        Args:
            places: name -> ``module:class``, the module in this package.
            loaded: name -> class, listed after the others.
        """
        self._places = places
        self._loaded = dict(loaded or {})
        self._names = dict.fromkeys([*places, *self._loaded])

    def and_also(self, types: Mapping[str, type[Retriever]]) -> LazyTypes:
        """Return these types and others, which are there."""
        return LazyTypes(self._places, {**self._loaded, **types})

    def __getitem__(self, name: str) -> type[Retriever]:
        """Return the class of a type."""
        if name not in self._loaded:
            module, _, of_class = self._places[name].partition(":")
            self._loaded[name] = getattr(import_module(f"{__package__}.{module}"), of_class)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is a type of this name."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """Return the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._names)


FAMILIES = (
    LexicalRetriever,
    EmbeddingRetriever,
    ImportedRetriever,
    ExternalRetriever,
    FusedRetriever,
    RerankedRetriever,
)
"""What a type is a class of."""


OWN_TYPES = LazyTypes(
    {
        "bm25": "lexical.bm25:BM25",
        "tfidf": "lexical.tfidf:TfIdf",
        "embedding": "dense.embedding:BiEncoder",
        "rrf": "fusion.rrf:RRF",
        "convex": "fusion.score_sums:Convex",
        "comb_sum": "fusion.score_sums:CombSum",
        "comb_mnz": "fusion.score_sums:CombMnz",
        "borda": "fusion.rank_sums:Borda",
        "isr": "fusion.rank_sums:InverseSquareRank",
        "maxsim": "reranking.maxsim:MaxSim",
        "cross_encoder": "reranking.cross_encoder:CrossEncoder",
        "query_likelihood": "reranking.query_likelihood:QueryLikelihood",
        "rerank_api": "reranking.rerank_api:RerankApi",
        "cohere": "reranking.cohere:Cohere",
        "listwise": "reranking.listwise:Listwise",
        "mmr": "reranking.mmr:MMR",
        "run_file": "imported.run_file:RunFileRetriever",
        "python": "external.python:PythonRetriever",
        "vectors": "dense.vectors:FileVectorsRetriever",
        "openai_embedding": "dense.openai_embedding:OpenAIEmbedding",
        "splade": "dense.splade:Splade",
        "late_interaction": "dense.late_interaction:LateInteraction",
        "qdrant": "dense.qdrant:Qdrant",
    }
)
"""``type`` -> module and class, in the order in which they are listed to people."""


def retriever_types() -> Mapping[str, type[Retriever]]:
    """Return our own types and those of installed packages.

    Raises:
        ConfigError: an entry point cannot be imported, takes a name that exists, or is no class of
            a family that answers to its name.
    """
    added: dict[str, type[Retriever]] = {}
    owners = dict.fromkeys(OWN_TYPES, "rag_assets")
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        if point.name in owners:
            raise _broken(point, f"the type exists already, in {owners[point.name]}")
        added[point.name] = _loaded(point)
        owners[point.name] = _owner(point)
    return OWN_TYPES.and_also(added)


def _loaded(point: EntryPoint) -> type[Retriever]:
    try:
        found = point.load()
        if isinstance(found, type) and issubclass(found, Retriever):
            found.model_rebuild()  # what is wrong with its options is told here
    except Exception as error:  # whatever the package does when it is imported
        raise _broken(point, f"cannot be imported: {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, FAMILIES)):
        families = ", ".join(family.__name__ for family in FAMILIES)
        raise _broken(point, f"is no class of a family, which are {families}")
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise _broken(point, f"lacks the methods {', '.join(missing)}")
    if get_args(found.model_fields["type"].annotation) != (point.name,):
        raise _broken(point, f'must have the option `type: Literal["{point.name}"]`')
    return found


def _broken(point: EntryPoint, problem: str) -> ConfigError:
    place = f"entry point {GROUP} '{point.name}' = '{point.value}' of {_owner(point)}"
    return ConfigError(f"{place}: {problem}")


def _owner(point: EntryPoint) -> str:
    """Return the installed package of an entry point and its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "no package"


RETRIEVER_TYPES = retriever_types()
"""Every ``type``; packages are looked up once, at import."""
