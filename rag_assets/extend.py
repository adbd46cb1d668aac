"""The names that a package of plug-ins needs: what members are classes of, and what they handle.

``CONTRIBUTING.md`` shows each at work, and :mod:`rag_assets.testing` has a contract for each kind.
These names stay; the modules that they come from may not. ``__all__`` lists them kind by kind.
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

__all__ = ["JudgedRanking", "RankingMeasure"]
__all__ += ["Chunker", "Cutter", "EmbedBy", "Piece"]
__all__ += ["ComputedQuerySet", "PromptedQuerySet", "Variants", "variant_table"]
__all__ += ["EmbeddingRetriever", "ExternalRetriever", "ImportedRetriever", "LexicalRetriever"]
__all__ += ["Hits", "Searcher", "Workspace", "byte_order_ranks", "known_model", "top_k"]
__all__ += ["FusedRetriever", "Scores", "SumFusion"]
__all__ += ["Candidates", "Reranked", "RerankedRetriever"]
__all__ += ["Dataset", "Problems", "Read", "SingleFileDataset"]
__all__ += ["FIRST", "DocumentRows", "Place", "QrelRows", "QueryRows"]
