"""All retriever types: our own, each imported when it is first asked for, and those of packages.

A package adds a type by an entry point of the group ``rag_assets.retrievers``: its name is the
``type`` in an ``experiment.yaml``, its object a class of one of the families.
"""

from __future__ import annotations

from rag_assets.plugins import Kind, Members, members
from rag_assets.retrieval.base import EmbeddingRetriever, LexicalRetriever, Retriever
from rag_assets.retrieval.external.base import (
    AnsweredRetriever,
    ExternalRetriever,
    ImportedRetriever,
)
from rag_assets.retrieval.fusion.base import FusedRetriever
from rag_assets.retrieval.reranking.candidates import RerankedRetriever

FAMILIES: tuple[type[Retriever], ...] = (
    LexicalRetriever,
    EmbeddingRetriever,
    ImportedRetriever,
    ExternalRetriever,
    AnsweredRetriever,
    FusedRetriever,
    RerankedRetriever,
)
"""What a type is a class of."""

KIND = Kind("type", "rag_assets.retrievers", FAMILIES, "type")

_OWN = {
    "bm25": "lexical.bm25:BM25",
    "tfidf": "lexical.tfidf:TfIdf",
    "embedding": "dense.embedding:BiEncoder",
    "rrf": "fusion.methods:RRF",
    "convex": "fusion.methods:Convex",
    "comb_sum": "fusion.methods:CombSum",
    "comb_mnz": "fusion.methods:CombMnz",
    "borda": "fusion.methods:Borda",
    "maxsim": "reranking.local:MaxSim",
    "cross_encoder": "reranking.local:CrossEncoder",
    "rerank_api": "reranking.server:RerankApi",
    "listwise": "reranking.listwise:Listwise",
    "mmr": "reranking.diversity:MMR",
    "keep": "reranking.diversity:Keep",
    "run_file": "run_file:RunFileRetriever",
    "python": "external.python:PythonRetriever",
    "http": "external.http:HttpRetriever",
    "sql": "external.sql:SqlRetriever",
    "generator": "external.generator:GeneratorRetriever",
    "vectors": "dense.vectors:FileVectorsRetriever",
    "openai_embedding": "dense.embedding:OpenAIEmbedding",
    "splade": "dense.splade:Splade",
    "qdrant": "dense.qdrant:Qdrant",
}
"""``type`` -> module below this package, and class, in the order in which people see them."""

_PLACES = {name: f"{__package__}.{place}" for name, place in _OWN.items()}

OWN_TYPES: Members[Retriever] = Members(KIND, _PLACES)
"""Our own types."""


def retriever_types() -> Members[Retriever]:
    """Return our own types and those of installed packages."""
    return members(KIND, _PLACES)


RETRIEVER_TYPES = retriever_types()
"""Every ``type``; packages are looked up once, at import."""
