"""All retriever types: our own, and those that installed packages add.

A package adds a type by an entry point of the group ``rag_assets.retrievers``: its name is the
``type`` in an ``experiment.yaml``, its object a class of one of the five families.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import get_args

from rag_assets.errors import ConfigError
from rag_assets.retrievers.base import EmbeddingRetriever, LexicalRetriever
from rag_assets.retrievers.bm25 import BM25
from rag_assets.retrievers.cohere import Cohere
from rag_assets.retrievers.convex import Convex
from rag_assets.retrievers.cross_encoder import CrossEncoder
from rag_assets.retrievers.derived import FusedRetriever, RerankedRetriever
from rag_assets.retrievers.embedding import BiEncoder
from rag_assets.retrievers.imported import ImportedRetriever
from rag_assets.retrievers.late_interaction import LateInteraction
from rag_assets.retrievers.listwise import Listwise
from rag_assets.retrievers.maxsim import MaxSim
from rag_assets.retrievers.mmr import MMR
from rag_assets.retrievers.openai_embedding import OpenAIEmbedding
from rag_assets.retrievers.qdrant import Qdrant
from rag_assets.retrievers.query_likelihood import QueryLikelihood
from rag_assets.retrievers.rank_sums import Borda, InverseSquareRank
from rag_assets.retrievers.rerank_api import RerankApi
from rag_assets.retrievers.retriever import Retriever
from rag_assets.retrievers.rrf import RRF
from rag_assets.retrievers.run_file import RunFileRetriever
from rag_assets.retrievers.score_sums import CombMnz, CombSum
from rag_assets.retrievers.splade import Splade
from rag_assets.retrievers.tfidf import TfIdf
from rag_assets.retrievers.vectors import FileVectorsRetriever

GROUP = "rag_assets.retrievers"

FAMILIES = (
    LexicalRetriever,
    EmbeddingRetriever,
    ImportedRetriever,
    FusedRetriever,
    RerankedRetriever,
)
"""What a type is a class of."""

OWN_TYPES: Mapping[str, type[Retriever]] = {
    "bm25": BM25,
    "tfidf": TfIdf,
    "embedding": BiEncoder,
    "rrf": RRF,
    "convex": Convex,
    "comb_sum": CombSum,
    "comb_mnz": CombMnz,
    "borda": Borda,
    "isr": InverseSquareRank,
    "maxsim": MaxSim,
    "cross_encoder": CrossEncoder,
    "query_likelihood": QueryLikelihood,
    "rerank_api": RerankApi,
    "cohere": Cohere,
    "listwise": Listwise,
    "mmr": MMR,
    "run_file": RunFileRetriever,
    "vectors": FileVectorsRetriever,
    "openai_embedding": OpenAIEmbedding,
    "splade": Splade,
    "late_interaction": LateInteraction,
    "qdrant": Qdrant,
}
"""``type`` -> class, in the order in which they are listed to people."""


def retriever_types() -> Mapping[str, type[Retriever]]:
    """Return our own types and those of installed packages.

    Raises:
        ConfigError: an entry point cannot be imported, takes a name that exists, or is no class of
            a family that answers to its name.
    """
    types = dict(OWN_TYPES)
    owners = dict.fromkeys(OWN_TYPES, "rag_assets")
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        if point.name in types:
            raise _broken(point, f"the type exists already, in {owners[point.name]}")
        types[point.name] = _loaded(point)
        owners[point.name] = _owner(point)
    return types


def _loaded(point: EntryPoint) -> type[Retriever]:
    try:
        found = point.load()
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
