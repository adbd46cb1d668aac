"""The shape of ``experiment.yaml``: every key, its type, its default and what it means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from rag_assets.answers.generators.base import Generator
from rag_assets.answers.generators.registry import GENERATOR_TYPES
from rag_assets.answers.options import AnswererOptions, AnswerMetricsOptions
from rag_assets.compute.options import ComputeConfig
from rag_assets.experiment.checks import ChecksConfig
from rag_assets.experiment.names import checked_experiment_name, checked_name, checked_owner
from rag_assets.experiment.one_of import OneOf
from rag_assets.experiment.query_sets import LlmConfig, QuerySetConfig
from rag_assets.experiment.schedule import ScheduleConfig
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.options import Depth, Number, Options
from rag_assets.retrieval.registry import RETRIEVER_TYPES
from rag_assets.retrieval.retriever import Retriever

Name = Annotated[str, AfterValidator(checked_name)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)]
Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[a-z]+)*$")]
Owner = Annotated[str, AfterValidator(checked_owner)]


Format = Literal[
    "markdown",
    "jsonl",
    "csv",
    "parquet",
    "beir",
    "trec",
    "llamaindex",
    "squad",
    "autorag",
    "ir_datasets",
]


class DatasetConfig(Options):
    """Where documents, queries and qrels come from.

    ``path`` is absolute or relative to the YAML file; for ``format: ir_datasets`` it is an id of
    that library. Without ``format`` it is detected. ``subset`` chooses ``qrels/<subset>.tsv`` of a
    BEIR folder, ``qrels.<subset>.txt`` of a TREC folder, ``<subset>.parquet`` with the questions of
    an AutoRAG folder. ``columns`` maps fields of documents and queries to the names that they have
    in a jsonl, csv or parquet folder; ``document_id: [source, number]`` joins several with ``/``.
    ``judge`` is the unit that is judged. ``unknown_documents`` says what a judgment of a document
    that is not in the corpus is: an error, or kept: it stays in R and is never found, as in
    trec_eval.
    """

    path: Path = Path()
    format: Format | None = None
    subset: str | None = None
    columns: dict[str, str | list[str]] = Field(default_factory=dict)
    judge: Literal["document", "chunk", "evidence"] | None = None
    unknown_documents: Literal["error", "keep"] = "error"

    @field_validator("path")
    @classmethod
    def _without_nul(cls, path: Path) -> Path:
        if "\0" in str(path):
            raise ValueError(f"{str(path)!r} is not a path")
        return path


class _Chunking(Options):
    # Whether a document is cut the same whatever else is cut with it, so that an edit of one cuts
    # its block only. Of readers of the reference this is no concern: it is no docstring.
    by_blocks: ClassVar[bool] = True


class NoneChunking(_Chunking):
    """Every document is one chunk."""

    strategy: Literal["none"]


def _less_than_a_chunk(overlap: int, info: ValidationInfo) -> int:
    for key in ("max_characters", "max_tokens", "sentences"):
        size = info.data.get(key)
        if size is not None and overlap >= size:
            raise ValueError(f"overlap {overlap} must be less than {key} {size}")
    return overlap


Overlap = Annotated[
    int, Field(ge=0, strict=True, validate_default=True), AfterValidator(_less_than_a_chunk)
]


class _SizedChunking(_Chunking):
    """Chunks of a largest size, 200 tokens where none is given.

    ``max_tokens`` counts tokens of the tokenizer of the model ``tokenizer``; ``max_characters``
    takes its place and counts characters. ``overlap``, in the same unit, is how much a chunk may
    repeat of the one before.
    """

    strategy: str
    max_characters: int | None = Field(default=None, ge=1, strict=True)
    max_tokens: int | None = Field(default=None, ge=1, strict=True)
    overlap: Overlap = 30
    tokenizer: str = Field(default=DEFAULT_MODEL, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _default_size(cls, data: object) -> object:
        if isinstance(data, dict) and data.get("max_characters") is data.get("max_tokens") is None:
            return {**data, "max_tokens": 200}
        return data

    @field_validator("max_tokens")
    @classmethod
    def _one_unit(cls, max_tokens: int | None, info: ValidationInfo) -> int | None:
        if max_tokens is not None and info.data.get("max_characters") is not None:
            raise ValueError("give max_tokens or max_characters, not both")
        return max_tokens

    @field_validator("tokenizer")
    @classmethod
    def _counts_tokens(cls, tokenizer: str, info: ValidationInfo) -> str:
        if info.data.get("max_characters") is not None:
            raise ValueError("belongs to max_tokens; max_characters counts no tokens")
        return tokenizer


class RecursiveChunking(_SizedChunking):
    """Cut at the largest text unit that fits: paragraphs, then sentences, then words."""

    strategy: Literal["recursive"]


class FixedChunking(_SizedChunking):
    """Windows of exactly so many tokens or characters; the last one may be shorter."""

    strategy: Literal["fixed"]


class MarkdownChunking(_SizedChunking):
    """One chunk a section of a Markdown text; one that is too long is cut further.

    A heading deeper than ``max_level`` begins no section. ``overlap`` is between the parts of one
    section only. ``indexed`` says whether the headings above a chunk are indexed with it.
    """

    strategy: Literal["markdown"]
    overlap: Overlap = 0
    max_level: int = Field(6, ge=1, le=6, strict=True)
    indexed: Literal["title+heading+text", "title+text"] = "title+heading+text"


class SentencesChunking(_Chunking):
    """So many sentences a chunk, of which ``overlap`` repeat the chunk before.

    ``language`` (ISO 639) says whose abbreviations end no sentence.
    """

    strategy: Literal["sentences"]
    sentences: int = Field(5, ge=1, strict=True)
    overlap: Overlap = 0
    language: Language = "en"


class SemanticChunking(_Chunking):
    """Cut between sentences whose meanings are far apart.

    Each sentence is embedded by ``model`` with ``buffer`` sentences on either side. A document is
    cut where the cosine distance of neighbours exceeds the ``percentile`` of its distances. A chunk
    of more than ``max_tokens`` tokens of the model is cut further; null leaves it.
    """

    # Sentences of many documents are embedded in one batch, and the last bits of a vector depend on
    # the batch; sentences that were embedded before are known to the cache of vectors.
    by_blocks: ClassVar[bool] = False

    strategy: Literal["semantic"]
    model: str = Field(DEFAULT_MODEL, min_length=1)
    percentile: Number = Field(95, gt=0, lt=100)
    buffer: int = Field(0, ge=0, strict=True)
    language: Language = "en"
    max_tokens: int | None = Field(None, ge=1, strict=True)


_SmallChunking = (
    RecursiveChunking | FixedChunking | MarkdownChunking | SentencesChunking | SemanticChunking
)


class ParentChunking(_Chunking):
    """Search small chunks, return the larger ones that they lie in.

    A document is cut by ``parent``, and each parent by ``child``. The children are indexed; a run
    holds parents, each once, at the rank of its best child, and top_k counts parents.
    """

    strategy: Literal["parent"]
    child: _SmallChunking = Field(discriminator="strategy")
    parent: NoneChunking | _SmallChunking = Field(discriminator="strategy")


_AnyChunking = NoneChunking | _SmallChunking | ParentChunking
CHILD_CHUNKING_TYPES: dict[str, type[Options]] = {
    "recursive": RecursiveChunking,
    "fixed": FixedChunking,
    "markdown": MarkdownChunking,
    "sentences": SentencesChunking,
    "semantic": SemanticChunking,
}
PARENT_CHUNKING_TYPES: dict[str, type[Options]] = {"none": NoneChunking, **CHILD_CHUNKING_TYPES}
CHUNKING_TYPES: dict[str, type[Options]] = {**PARENT_CHUNKING_TYPES, "parent": ParentChunking}
ChunkingConfig = Annotated[_AnyChunking, OneOf(CHUNKING_TYPES, "strategy")]
RetrieverConfig = Annotated[Retriever, OneOf(RETRIEVER_TYPES, "type")]
GeneratorConfig = Annotated[Generator, OneOf(GENERATOR_TYPES, "type")]


class SplitConfig(Options):
    """Which queries are for choosing (dev) and which for reporting (test).

    ``dev`` is the share of queries that a hash of their ids, seeded by ``seed``, gives to dev;
    whole clusters where the statistics have a ``cluster``. Or ``field`` names a field of the
    queries' metadata whose value is ``dev`` or ``test``.
    """

    field: str | None = Field(default=None, min_length=1)
    dev: Number = Field(default=0.5, gt=0, lt=1)
    seed: Seed = 0

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.field is not None and self.model_fields_set & {"dev", "seed"}:
            raise ValueError("give field, or dev and seed, not both")
        return self


def _checked_cluster(cluster: str) -> str:
    if cluster in {"none", "document"} or cluster.removeprefix("query.") not in {cluster, ""}:
        return cluster
    raise ValueError(f"must be none, document or query.<field>; found {cluster!r}")


class StatisticsConfig(Options):
    """How sure a mean is: the level of intervals, and how they are resampled.

    ``cluster`` says which queries were made from the same source, so are not independent:
    ``document`` (they share a relevant document) or ``query.<field>`` (a field of the metadata).
    """

    confidence: Number = Field(default=0.95, gt=0, lt=1)
    resamples: int = Field(default=10_000, ge=100, le=10_000_000, strict=True)
    seed: Seed = 0
    cluster: Annotated[str, AfterValidator(_checked_cluster)] = "none"


class MeasurementsConfig(Options):
    """What is measured besides results; no result depends on it.

    ``latency_sample`` is how many queries are timed one at a time after a ranking is made; 0: none.
    """

    latency_sample: int = Field(default=50, ge=0, le=10_000, strict=True)


class ContextConfig(Options):
    """How the text that a retriever returns is measured.

    ``tokenizer`` counts its tokens: a file ``tokenizer.json``, a folder with one, or the name of a
    model, of which nothing else is loaded.
    """

    tokenizer: str = Field(default=DEFAULT_MODEL, min_length=1)


class ExperimentConfig(Options):
    """One experiment. What is absent is filled in by :mod:`rag_assets.experiment.defaults`."""

    name: Annotated[str, AfterValidator(checked_experiment_name)] | None = None
    dataset: DatasetConfig = DatasetConfig()
    chunking: dict[Name, ChunkingConfig] = Field(default_factory=dict)
    query_sets: dict[Name, QuerySetConfig] = Field(default_factory=dict)
    llm: LlmConfig | None = None
    llms: dict[Name, LlmConfig] = Field(default_factory=dict)
    retrievers: dict[Name, RetrieverConfig] = Field(default_factory=dict)
    generators: dict[Name, GeneratorConfig] = Field(default_factory=dict)
    answers: dict[Name, AnswererOptions] = Field(default_factory=dict)
    answer_metrics: AnswerMetricsOptions = AnswerMetricsOptions()
    top_k: tuple[Depth, ...] = Field(default=(1, 3, 5, 10, 100), min_length=1)
    metrics: tuple[str, ...] = Field(
        default=("hit_rate", "mrr", "ndcg", "recall", "precision", "map"), min_length=1
    )
    primary: str | None = None
    baseline: str | None = None
    split: SplitConfig | None = None
    weight: str | None = Field(default=None, min_length=1)
    statistics: StatisticsConfig = StatisticsConfig()
    measurements: MeasurementsConfig = MeasurementsConfig()
    context: ContextConfig = ContextConfig()
    checks: ChecksConfig = ChecksConfig()
    owners: tuple[Owner, ...] = ()
    filters: Annotated[bool, Field(strict=True)] = False
    schedule: ScheduleConfig | None = None
    compute: ComputeConfig = ComputeConfig()
