"""The shape of ``experiment.yaml``: every key, its type, its default and what it means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from rag_assets.answers.answerers import GENERATOR_TYPES, AnswererOptions, AnswerMetricsOptions
from rag_assets.answers.generators import Generator
from rag_assets.chunking.chunker import CHUNKING_TYPES, Chunker
from rag_assets.compute.compute import ComputeConfig
from rag_assets.evaluation.metric_names import lower_is_better
from rag_assets.experiment.llm import LlmConfig
from rag_assets.experiment.names import checked_experiment_name, checked_name
from rag_assets.judges.base import Judge
from rag_assets.judges.registry import JUDGE_TYPES
from rag_assets.labels.questions import QuestionOptions
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.options import (
    Depth,
    FileOptions,
    KeyProblem,
    LazyTaggedUnion,
    Number,
    Options,
    shown_value,
)
from rag_assets.query_sets.query_set import QUERY_SET_TYPES, QuerySet
from rag_assets.retrieval.base import ORIGINAL, UNCHUNKED, Retriever
from rag_assets.retrieval.registry import RETRIEVER_TYPES
from rag_assets.sources.formats import FORMATS


def _checked_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        near = get_close_matches(name, available_timezones(), n=1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise ValueError(
            f"unknown time zone {name!r}{hint}; allowed: UTC and the names of the IANA database, "
            f"such as Europe/Berlin"
        ) from error
    return name


def _checked_cron(expression: str) -> str:
    fields = expression.split()
    if len(fields) != 5:
        raise ValueError(
            f"{expression!r} has {len(fields)} fields; a cron expression has five: minute, hour, "
            f"day of the month, month, day of the week, such as '0 3 * * *'"
        )
    return " ".join(fields)


class ScheduleConfig(Options):
    """When the experiment is evaluated again; no result and no fingerprint depends on it.

    ``cron`` has five fields, which Dagster checks; hours are those of ``timezone``. It is on as
    soon as it is loaded, unless ``running`` is false: then it waits for somebody to start it in the
    UI.
    """

    cron: Annotated[str, AfterValidator(_checked_cron)]
    timezone: Annotated[str, AfterValidator(_checked_zone)] = "UTC"
    running: bool = True


Name = Annotated[str, AfterValidator(checked_name)]
AssetName = Annotated[str, StringConstraints(pattern=r"^[^/\s]+(/[^/\s]+)*$")]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)]


if TYPE_CHECKING:
    Format = str
else:
    Format = Literal[tuple(FORMATS)]


class SampleConfig(Options):
    """Ask some of the queries: those that a hash of their ids, seeded by ``seed``, draws."""

    queries: int = Field(ge=1, strict=True)
    seed: Seed = 0


class DatasetConfig(Options):
    """Where documents, queries and qrels come from.

    ``path`` is absolute or relative to the YAML file. Without ``format`` it is detected. ``subset``
    chooses ``qrels/<subset>.tsv`` of a BEIR folder, ``qrels.<subset>.txt`` of a TREC folder,
    ``<subset>.parquet`` with the questions of an AutoRAG folder. ``columns`` maps fields of
    documents and queries to the names that they have in a jsonl, csv or parquet folder;
    ``document_id: [source, number]`` joins several with ``/``.
    ``judge`` is the unit that is judged. ``unknown_documents`` says what a judgment of a document
    that is not in the corpus is: an error, or kept: it stays in R and is never found, as in
    trec_eval. ``sample: {queries: 100, seed: 0}`` asks so many of the queries, drawn by their ids.
    """

    path: Path = Path()
    format: Format | None = None
    subset: str | None = None
    columns: dict[str, str | list[str]] = Field(default_factory=dict)
    judge: Literal["document", "chunk", "evidence"] | None = None
    unknown_documents: Literal["error", "keep"] = "error"
    sample: SampleConfig | None = None

    @field_validator("path")
    @classmethod
    def _without_nul(cls, path: Path) -> Path:
        if "\0" in str(path):
            raise ValueError(f"{str(path)!r} is not a path")
        return path


QuerySetConfig = Annotated[QuerySet, LazyTaggedUnion(QUERY_SET_TYPES, "strategy")]
ChunkingConfig = Annotated[Chunker, LazyTaggedUnion(CHUNKING_TYPES, "strategy")]
RetrieverConfig = Annotated[Retriever, LazyTaggedUnion(RETRIEVER_TYPES, "type")]
GeneratorConfig = Annotated[Generator, LazyTaggedUnion(GENERATOR_TYPES, "type")]
JudgeConfig = Annotated[Judge, LazyTaggedUnion(JUDGE_TYPES, "type")]


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


Severity = Literal["warning", "error"]
Share = Annotated[Number, Field(gt=0, lt=1)]


class DriftConfig(Options):
    """When the best scores of queries are called different from those of the anchor.

    ``psi`` is the largest population stability index that is no drift. A query is far from the
    corpus when its best score is below the ``far_quantile`` of the anchor's best scores, or below
    the number that ``far_below`` has for the retriever; ``far_share`` is the largest share of
    queries that may be.
    """

    severity: Severity = "warning"
    psi: Number = Field(default=0.25, gt=0)
    far_share: Share = 0.2
    far_quantile: Share = 0.05
    far_below: dict[str, Number] = Field(default_factory=dict)


class ChecksConfig(Options):
    """How grave a failed check is: ``regression``, that a retriever is worse than the baseline."""

    regression: Severity = "warning"
    drift: DriftConfig = DriftConfig()


def _checked_criterion(criterion: str) -> str:
    if criterion == "tag" or criterion.partition(".")[0] in ("query", "document"):
        return criterion
    raise ValueError(f"must be tag, query.<field> or document.<field>; found {criterion!r}")


class FloorConfig(Options):
    """What a metric has to be, whatever it was before; no result and no fingerprint depends on it.

    Of a metric that is better when lower it is ``at_most``, not ``at_least``. With ``bound`` an end
    of the interval counts, not the value: ``lower`` for ``at_least``, ``upper`` for ``at_most``.
    ``where`` keeps to the questions of a slice, such as ``{tag: billing}``; of several all must
    hold. ``of`` names retrievers, or answerers as ``plain@5``; without it all count.
    """

    metric: str = Field(min_length=1)
    at_least: Number | None = None
    at_most: Number | None = None
    bound: Literal["value", "lower", "upper"] = "value"
    where: dict[Annotated[str, AfterValidator(_checked_criterion)], str | bool | int | float] = (
        Field(default_factory=dict)
    )
    of: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_one_side(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("give at_least or at_most, one of them")
        if self.at_least is not None and lower_is_better(self.metric):
            problem = f"{self.metric} is better when lower; write at_most"
            raise KeyProblem(("at_least",), problem)
        if self.bound not in ("value", "upper" if self.at_least is None else "lower"):
            side = "at_most" if self.at_least is None else "at_least"
            raise KeyProblem(("bound",), f"the {self.bound} one does not go with {side}")
        return self

    @property
    def values(self) -> dict[str, str]:
        """What ``where`` asks for, as texts, as slices have them."""
        pairs = self.where.items()
        return {by: one if isinstance(one, str) else json.dumps(one) for by, one in pairs}

    def __str__(self) -> str:
        """Return it in words: ``hit_rate@10 >= 0.8 (lower bound) where tag is billing``."""
        sign, limit = ("<=", self.at_most) if self.at_least is None else (">=", self.at_least)
        bound = "" if self.bound == "value" else f" ({self.bound} bound)"
        where = " and ".join(f"{by} is {value}" for by, value in self.values.items())
        return f"{self.metric} {sign} {limit:g}{bound}{f' where {where}' if where else ''}"


def _listed_floors(given: object) -> object:
    """Return what ``{metric: limit}`` stands for: what is better decides on which side it lies."""
    if not isinstance(given, Mapping):
        return given
    floors = []
    for metric, limit in given.items():
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not isfinite(limit):
            raise KeyProblem((str(metric),), f"must be a number; found {shown_value(limit)}")
        side = "at_most" if lower_is_better(str(metric)) else "at_least"
        floors.append(FloorConfig.model_validate({"metric": str(metric), side: limit}))
    return floors


Floors = Annotated[
    tuple[FloorConfig, ...],
    BeforeValidator(
        _listed_floors, json_schema_input_type=tuple[FloorConfig, ...] | dict[str, Number]
    ),
]


class ContextConfig(Options):
    """How the text that a retriever returns is measured.

    ``tokenizer`` counts its tokens: a file ``tokenizer.json``, a folder with one, or the name of a
    model, of which nothing else is loaded.
    """

    tokenizer: str = Field(default=DEFAULT_MODEL, min_length=1)


class OnlineConfig(FileOptions):
    """Logs of a production search; nothing of them enters a mean over labels.

    ``clicks`` and ``events`` hold searches and clicks, ``feedback`` votes. ``by`` is the period of
    which a row is: a day, a week, or from one evaluation that changed something to the next.
    """

    file_options: ClassVar[tuple[str, ...]] = ("clicks", "events", "feedback")

    clicks: Path | None = None
    events: Path | None = None
    feedback: Path | None = None
    by: Literal["day", "week", "evaluation"] = "day"

    @model_validator(mode="after")
    def _has_a_log(self) -> Self:
        if self.clicks is None and (self.feedback is None or self.events is not None):
            raise ValueError("needs clicks, unless only feedback is given")
        return self


class ExperimentConfig(Options):
    """One experiment. What is absent is filled in by :mod:`rag_assets.experiment.completion`."""

    name: Annotated[str, AfterValidator(checked_experiment_name)] | None = None
    dataset: DatasetConfig = DatasetConfig()
    chunking: dict[Name, ChunkingConfig] = Field(default_factory=dict)
    questions: QuestionOptions | None = None
    query_sets: dict[Name, QuerySetConfig] = Field(default_factory=dict)
    llm: LlmConfig | None = None
    llms: dict[Name, LlmConfig] = Field(default_factory=dict)
    retrievers: dict[Name, RetrieverConfig] = Field(default_factory=dict)
    generators: dict[Name, GeneratorConfig] = Field(default_factory=dict)
    answers: dict[Name, AnswererOptions] = Field(default_factory=dict)
    answer_metrics: AnswerMetricsOptions = AnswerMetricsOptions()
    judges: dict[Name, JudgeConfig] = Field(default_factory=dict)
    answer_labels: Path | None = None
    nuggets: Path | None = None
    passage_labels: Path | None = None
    judgments_log: Path | None = None
    online: OnlineConfig | None = None
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
    floors: Floors = ()
    filters: Annotated[bool, Field(strict=True)] = False
    schedule: ScheduleConfig | None = None
    deps: dict[Literal["documents", "queries", "qrels"], list[AssetName]] = Field(
        default_factory=dict
    )
    compute: ComputeConfig = ComputeConfig()

    @model_validator(mode="after")
    def _names_are_free(self) -> Self:
        if UNCHUNKED in self.chunking:
            problem = "is reserved for the chunks of an external search"
            raise KeyProblem(("chunking", UNCHUNKED), problem)
        if ORIGINAL in self.query_sets:
            problem = "always exists: it has the original queries"
            raise KeyProblem(("query_sets", ORIGINAL), problem)
        return self

    @field_validator("llms")
    @classmethod
    def _models_by_name_are_limited(cls, llms: dict[str, LlmConfig]) -> dict[str, LlmConfig]:
        for name, llm in llms.items():
            if problem := llm.missing_limit():
                raise KeyProblem((name,), problem)
        return llms
