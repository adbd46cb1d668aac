"""The names that a package of plug-ins needs: what members are classes of, and what they handle.

``CONTRIBUTING.md`` shows each at work, and :mod:`rag_assets.testing` has a contract for each kind.
These names stay; the modules that they come from may not.
"""

from rag_assets.chunking.chunker import Chunker, Cutter, EmbedBy, Piece
from rag_assets.evaluation.measure import JudgedRanking, RankingMeasure
from rag_assets.models.known_prompts import known_model
from rag_assets.ordering import Hits, byte_order_ranks, top_k
from rag_assets.query_sets.query_set import ComputedQuerySet, PromptedQuerySet, Variants
from rag_assets.query_sets.variants import variant_table
from rag_assets.retrieval.base import EmbeddingRetriever, LexicalRetriever, Searcher
from rag_assets.retrieval.external.base import ExternalRetriever, ImportedRetriever
from rag_assets.retrieval.fusion.base import FusedRetriever
from rag_assets.retrieval.fusion.methods import SumFusion
from rag_assets.retrieval.reranking.candidates import Candidates, Reranked, RerankedRetriever
from rag_assets.retrieval.unit_ranking import Scores
from rag_assets.retrieval.workspace import Workspace
from rag_assets.sources.dataset import FIRST, Dataset, Problems, Read
from rag_assets.sources.fields import Place
from rag_assets.sources.json_datasets import SingleFileDataset
from rag_assets.sources.tables import DocumentRows, QrelRows, QueryRows

__all__ = [
    "FIRST",
    "Candidates",
    "Chunker",
    "ComputedQuerySet",
    "Cutter",
    "Dataset",
    "DocumentRows",
    "EmbedBy",
    "EmbeddingRetriever",
    "ExternalRetriever",
    "FusedRetriever",
    "Hits",
    "ImportedRetriever",
    "JudgedRanking",
    "LexicalRetriever",
    "Piece",
    "Place",
    "Problems",
    "PromptedQuerySet",
    "QrelRows",
    "QueryRows",
    "RankingMeasure",
    "Read",
    "Reranked",
    "RerankedRetriever",
    "Scores",
    "Searcher",
    "SingleFileDataset",
    "SumFusion",
    "Variants",
    "Workspace",
    "byte_order_ranks",
    "known_model",
    "top_k",
    "variant_table",
]
