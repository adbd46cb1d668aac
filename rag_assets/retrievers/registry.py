"""All retriever types: our own, and those that installed packages add.

A package adds a type by an entry point of the group ``rag_assets.retrievers``: its name is the
``type`` in an ``experiment.yaml``, its object a class of one of the five families.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points

from rag_assets.errors import ConfigError
from rag_assets.retrievers.bm25 import BM25
from rag_assets.retrievers.convex import Convex
from rag_assets.retrievers.cross_encoder import CrossEncoder
from rag_assets.retrievers.embedding import BiEncoder
from rag_assets.retrievers.maxsim import MaxSim
from rag_assets.retrievers.mmr import MMR
from rag_assets.retrievers.openai_embedding import OpenAIEmbedding
from rag_assets.retrievers.query_likelihood import QueryLikelihood
from rag_assets.retrievers.rank_sums import Borda, InverseSquareRank
from rag_assets.retrievers.rerank_api import RerankApi
from rag_assets.retrievers.retriever import Retriever
from rag_assets.retrievers.rrf import RRF
from rag_assets.retrievers.run_file import RunFileRetriever
from rag_assets.retrievers.score_sums import CombMnz, CombSum
from rag_assets.retrievers.tfidf import TfIdf
from rag_assets.retrievers.vectors import FileVectorsRetriever

GROUP = "rag_assets.retrievers"

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
    "mmr": MMR,
    "run_file": RunFileRetriever,
    "vectors": FileVectorsRetriever,
    "openai_embedding": OpenAIEmbedding,
}
"""``type`` -> class, in the order in which they are listed to people."""


def retriever_types() -> Mapping[str, type[Retriever]]:
    """Return our own types and those of installed packages.

    Raises:
        ConfigError: an entry point takes a name of ours, or is not a retriever.
    """
    types = dict(OWN_TYPES)
    for point in _points():
        found = point.load()
        if point.name in types:
            raise ConfigError(f"entry point {GROUP}: '{point.name}' exists already")
        if not (isinstance(found, type) and issubclass(found, Retriever)):
            raise ConfigError(f"entry point {GROUP}: '{point.name}' is not a class of Retriever")
        types[point.name] = found
    return types


def _points() -> Iterable:  # type: ignore[type-arg]
    return sorted(entry_points(group=GROUP), key=lambda point: point.name)


RETRIEVER_TYPES = retriever_types()
"""Every ``type``; packages are looked up once, at import."""
