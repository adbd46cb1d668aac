"""The shape of ``experiment.yaml``: every key, its type, its default and what it means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from rag_assets.embedding.models import DEFAULT_MODEL
from rag_assets.experiment.names import checked_name

MAX_DEPTH = 2**31 - 1
"""The largest cut-off or depth: ranks are 32-bit integers."""

Name = Annotated[str, AfterValidator(checked_name)]
# Strict: a text such as '5' or the word `yes` is not taken for a number.
Depth = Annotated[int, Field(ge=1, le=MAX_DEPTH, strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DatasetConfig(_Config):
    """Where documents, queries and qrels come from.

    ``path`` is absolute or relative to the YAML file. Without ``format`` it is detected. ``subset``
    chooses ``qrels/<subset>.tsv`` of a BEIR folder. ``judge`` is the unit that is judged.
    """

    path: Path = Path()
    format: Literal["markdown", "beir", "llamaindex"] | None = None
    subset: str | None = None
    judge: Literal["document", "chunk", "evidence"] | None = None

    @field_validator("path")
    @classmethod
    def _without_nul(cls, path: Path) -> Path:
        if "\0" in str(path):
            raise ValueError(f"{str(path)!r} is not a path")
        return path


class NoneChunking(_Config):
    """Every document is one chunk."""

    strategy: Literal["none"]


class RecursiveChunking(_Config):
    """Cut at the largest text unit that fits: paragraphs, then sentences, then words.

    ``max_tokens`` and ``overlap`` count tokens of the tokenizer of the model ``tokenizer``.
    """

    strategy: Literal["recursive"]
    max_tokens: int = Field(default=200, ge=1, strict=True)
    overlap: int = Field(default=30, ge=0, strict=True, validate_default=True)
    tokenizer: str = Field(default=DEFAULT_MODEL, min_length=1)

    @field_validator("overlap")
    @classmethod
    def _less_than_a_chunk(cls, overlap: int, info: ValidationInfo) -> int:
        max_tokens = info.data.get("max_tokens")
        if max_tokens is not None and overlap >= max_tokens:
            raise ValueError(f"overlap {overlap} must be less than max_tokens {max_tokens}")
        return overlap


ChunkingConfig = Annotated[NoneChunking | RecursiveChunking, Field(discriminator="strategy")]


class BM25Config(_Config):
    """Lexical retrieval: BM25 over analysed words.

    ``engine: bm25s`` computes Lucene's formula; ``rank_bm25`` is the reference implementation
    ``BM25Okapi`` of the package rank-bm25.
    """

    type: Literal["bm25"]
    chunking: str | None = None
    analyzer: Literal["auto", "english", "standard", "cjk", "whitespace"] = "auto"
    engine: Literal["bm25s", "rank_bm25"] = "bm25s"
    k1: Number = Field(default=1.2, ge=0)
    b: Number = Field(default=0.75, ge=0, le=1)


class EmbeddingConfig(_Config):
    """Embedding retrieval: exact inner product of normalised vectors.

    The prompts are put before every query or document; by default the model's own.
    """

    type: Literal["embedding"]
    chunking: str | None = None
    model: str = Field(default=DEFAULT_MODEL, min_length=1)
    query_prompt: str | None = None
    document_prompt: str | None = None


class RRFConfig(_Config):
    """Reciprocal rank fusion of other retrievers: the sum of 1 / (k + rank).

    ``candidates`` is the depth to which each input is read: a number, or ``top_k`` to fuse the
    lists already cut at the cell's top_k.
    """

    type: Literal["rrf"]
    inputs: tuple[str, ...] = Field(min_length=2)
    k: Number = Field(default=60, gt=0)
    candidates: Depth | Literal["top_k"] = 100


RetrieverConfig = Annotated[BM25Config | EmbeddingConfig | RRFConfig, Field(discriminator="type")]

CHUNKING_TYPES: dict[str, type[_Config]] = {"none": NoneChunking, "recursive": RecursiveChunking}
RETRIEVER_TYPES: dict[str, type[_Config]] = {
    "bm25": BM25Config,
    "embedding": EmbeddingConfig,
    "rrf": RRFConfig,
}


class ExperimentConfig(_Config):
    """One experiment. What is absent is filled in by :mod:`rag_assets.experiment.defaults`."""

    name: Name | None = None
    dataset: DatasetConfig = DatasetConfig()
    chunking: dict[Name, ChunkingConfig] = Field(default_factory=dict)
    retrievers: dict[Name, RetrieverConfig] = Field(default_factory=dict)
    top_k: tuple[Depth, ...] = Field(default=(1, 3, 5, 10, 100), min_length=1)
    metrics: tuple[str, ...] = Field(
        default=("hit_rate", "mrr", "ndcg", "recall", "precision", "map"), min_length=1
    )
    primary: str | None = None
    baseline: str | None = None
