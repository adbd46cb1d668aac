"""The names that a package of plug-ins needs: what members are classes of, and what they handle.

``CONTRIBUTING.md`` shows each at work, and :mod:`rag_assets.testing` has a contract for each kind.
These names stay; the modules that they come from may not.
"""

from rag_assets.chunking.chunker import Chunker as Chunker
from rag_assets.chunking.chunker import Cutter as Cutter
from rag_assets.chunking.chunker import EmbedBy as EmbedBy
from rag_assets.chunking.chunker import Piece as Piece
from rag_assets.evaluation.measure import JudgedRanking as JudgedRanking
from rag_assets.evaluation.measure import RankingMeasure as RankingMeasure
from rag_assets.models.known_prompts import known_model as known_model
from rag_assets.ordering import Hits as Hits
from rag_assets.ordering import byte_order_ranks as byte_order_ranks
from rag_assets.ordering import top_k as top_k
from rag_assets.query_sets.query_set import ComputedQuerySet as ComputedQuerySet
from rag_assets.query_sets.query_set import PromptedQuerySet as PromptedQuerySet
from rag_assets.query_sets.query_set import Variants as Variants
from rag_assets.query_sets.variants import variant_table as variant_table
from rag_assets.retrieval.base import EmbeddingRetriever as EmbeddingRetriever
from rag_assets.retrieval.base import LexicalRetriever as LexicalRetriever
from rag_assets.retrieval.base import Searcher as Searcher
from rag_assets.retrieval.external.base import ExternalRetriever as ExternalRetriever
from rag_assets.retrieval.external.base import ImportedRetriever as ImportedRetriever
from rag_assets.retrieval.fusion.base import FusedRetriever as FusedRetriever
from rag_assets.retrieval.fusion.methods import SumFusion as SumFusion
from rag_assets.retrieval.reranking.candidates import Candidates as Candidates
from rag_assets.retrieval.reranking.candidates import Reranked as Reranked
from rag_assets.retrieval.reranking.candidates import RerankedRetriever as RerankedRetriever
from rag_assets.retrieval.unit_ranking import Scores as Scores
from rag_assets.retrieval.workspace import Workspace as Workspace
from rag_assets.sources.dataset import FIRST as FIRST
from rag_assets.sources.dataset import Dataset as Dataset
from rag_assets.sources.dataset import Problems as Problems
from rag_assets.sources.dataset import Read as Read
from rag_assets.sources.fields import Place as Place
from rag_assets.sources.json_datasets import SingleFileDataset as SingleFileDataset
from rag_assets.sources.tables import DocumentRows as DocumentRows
from rag_assets.sources.tables import QrelRows as QrelRows
from rag_assets.sources.tables import QueryRows as QueryRows
