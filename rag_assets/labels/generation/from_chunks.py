"""Questions generated from the chunks of an experiment: what is asked, of whom, at what cost."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_assets.chunking.stage import chunks_key
from rag_assets.errors import ConfigError, DataError, UsageError, allowed_names
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.hosts import Client, llm_client
from rag_assets.experiment.llm import LlmConfig
from rag_assets.labels.generation.question_filters import Filters
from rag_assets.labels.generation.question_generation import (
    SAME_LANGUAGE,
    GeneratedQuestions,
    Generator,
    chunks_to_ask,
    generate_questions,
    question_requests,
    question_template,
)
from rag_assets.llm.budget import Budget, Limits
from rag_assets.llm.client import ChatModel
from rag_assets.llm.completions import Completions, Estimate, estimate, shown_by
from rag_assets.llm.endpoint import MODEL_VARIABLE, endpoint_from_environment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.query_sets.query_set import Sampling
from rag_assets.servers.secrets import is_loopback
from rag_assets.sources.stage import DOCUMENTS_KEY


@dataclass(frozen=True)
class Asking:
    """What is asked, of whom, and how much may be spent.

    Attributes:
        chunking: name of the chunking; None: the only one that the experiment has.
        chunks: most chunks that are asked about, drawn by ``seed``; None: all.
        n: questions a chunk.
        language: of the questions, as the prompt says it.
        prompt: a prompt file in place of ours.
        temperature: 0 is the least random.
        seed: of the draw and of the sampling.
        max_tokens: most tokens of an answer.
        filters: which questions are kept.
        model: name of the model at the server, in place of that of the experiment.
        max_calls: most requests of this run; None: as the experiment's ``llm`` says.
        max_cost: most money of this run, in the unit of the prices; likewise.
        prompt_price: price of a million tokens of requests; likewise.
        completion_price: price of a million tokens of answers; likewise.
    """

    chunking: str | None = None
    chunks: int | None = None
    n: int = 2
    language: str = SAME_LANGUAGE
    prompt: Path | None = None
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 512
    filters: Filters = field(default_factory=Filters)
    model: str | None = None
    max_calls: int | None = None
    max_cost: float | None = None
    prompt_price: float | None = None
    completion_price: float | None = None

    def generator(self) -> Generator:
        """Return how questions are asked for.

        Raises:
            ConfigError: the prompt is none, or has no place for a language that is asked for.
            UsageError: fewer than one question a chunk.
        """
        sampling = Sampling(self.temperature, self.seed, self.max_tokens)
        template = question_template(self.prompt)
        if self.language != SAME_LANGUAGE and "language" not in template.places:
            problem = f"has no place for the language {self.language}; write {{language}}"
            raise ConfigError(f"the prompt {problem}", file=self.prompt)
        return Generator(template, self.n, self.language, sampling, self.filters)


class Generation(NamedTuple):
    """What came of the chunks.

    Attributes:
        found: the questions, those dropped, and the chunks without one.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        n_chunks: chunks that were asked about.
        n_calls: requests that were sent; all other answers were in the cache.
        cost: of these requests, in the unit of the prices; None without prices.
    """

    found: GeneratedQuestions
    documents: pa.Table
    n_chunks: int
    n_calls: int
    cost: float | None


def generate_from_chunks(pipeline: Pipeline, asking: Asking) -> Generation:
    """Ask a language model for questions about the chunks of an experiment.

    Documents and chunks are brought up to date in the store; neither queries nor labels are read.

    Raises:
        UsageError: the chunking does not exist, none is chosen, or no model is configured.
        BudgetReached: the limits allow no more; what was answered is kept, and found again.
        ModelUnavailable: the endpoint refuses everything, or does not serve; likewise.
    """
    generator = asking.generator()
    chunks = _chunks(pipeline, asking)
    with _completions(pipeline, asking, chunks.num_rows) as completions:
        questions = generate_questions(chunks, generator, completions)
        budget = completions.budget
    documents = pipeline.artifact(DOCUMENTS_KEY).table()
    cost = budget.cost if budget.limits.priced else None
    return Generation(questions, documents, chunks.num_rows, budget.calls, cost)


def require_questions(generation: Generation, source: Path) -> None:
    """Check that a question was kept.

    Raises:
        DataError: none was; says how many were dropped why, and why chunks gave none.
    """
    questions = generation.found
    if not questions.questions.num_rows:
        lost = ", ".join(f"{n} {reason}" for reason, n in reasons(questions)) or "there was none"
        problem = f"no question is left of {generation.n_chunks} chunks: {lost}"
        raise DataError(problem, file=source)


def reasons(questions: GeneratedQuestions) -> list[tuple[str, int]]:
    """Return (what, how many) of dropped questions, then of chunks that gave none."""
    dropped = [(f"dropped: {reason}", number) for reason, number in questions.counts.items()]
    failures = Counter(f"without a question: {why}" for why in questions.failures.values())
    return [*sorted(dropped), *sorted(failures.items())]


def estimate_generation(pipeline: Pipeline, asking: Asking) -> Estimate:
    """Return what :func:`generate_from_chunks` would ask; asks nothing, and needs no key.

    Where no model is named, no answer is known.

    Raises:
        UsageError: as there.
    """
    named = is_model_named(pipeline.experiment, asking)
    identity = _identity(pipeline.experiment, asking.model) if named else {}
    requests = question_requests(_chunks(pipeline, asking), asking.generator())
    return estimate(requests, identity, pipeline.replies, _limits(pipeline.experiment, asking))


def is_model_named(experiment: Experiment, asking: Asking) -> bool:
    """Return whether anything says which model is to be asked."""
    named = asking.model or os.environ.get(MODEL_VARIABLE)
    return experiment.config.llm is not None or bool(named)


def asked_host(experiment: Experiment, asking: Asking) -> Client | None:
    """Return the client to which chunks are sent; None: they stay on this machine.

    Raises:
        UsageError: as in :func:`generate_from_chunks`.
    """
    limits = _limits(experiment, asking)
    is_bounded = limits.max_calls is not None or limits.max_cost is not None
    if experiment.config.llm is not None and (
        asking.model is None or experiment.config.llm.type == "openai"
    ):
        client = llm_client(experiment, None)
        if client is None or client.is_local:
            return None
        return replace(client, is_bounded=is_bounded)
    place = endpoint_from_environment(asking.model).place
    return None if is_loopback(place) else Client("llm", place, False, is_bounded)


def _chunks(pipeline: Pipeline, asking: Asking) -> pa.Table:
    key = chunks_key(_chunking(pipeline.experiment, asking.chunking))
    pipeline.materialize(DOCUMENTS_KEY.asset, [DOCUMENTS_KEY])
    pipeline.materialize(key.asset, [key])
    return chunks_to_ask(pipeline.artifact(key).table(), asking.chunks, asking.seed)


def _chunking(experiment: Experiment, name: str | None) -> str:
    names = list(experiment.chunkings)
    if name is None and len(names) == 1:
        return names[0]
    if name is None:
        raise UsageError(
            f"{experiment.name} has several chunkings; choose one of {', '.join(names)} (chunking)"
        )
    if name not in names:
        raise UsageError(f"unknown chunking {allowed_names(name, names)}")
    return name


@contextmanager
def _completions(pipeline: Pipeline, asking: Asking, total: int) -> Iterator[Completions]:
    model, budget = _model(pipeline, asking.model), Budget(_limits(pipeline.experiment, asking))
    with pipeline.progress("ask for questions", total) as advance:
        yield Completions(model, pipeline.replies, budget, progress=shown_by(advance))


def _model(pipeline: Pipeline, name: str | None) -> ChatModel:
    """Return the experiment's model, another one of its server, or that of the environment."""
    config = _configured(pipeline.experiment, name)
    if config is not None:
        return pipeline.chat_model() if name is None else config.chat_model()
    from rag_assets.llm.openai_server import OpenAICompatible

    return OpenAICompatible(endpoint_from_environment(name))


def _identity(experiment: Experiment, name: str | None) -> Mapping[str, str]:
    """Return what stands for the model of :func:`_model`."""
    config = _configured(experiment, name)
    return endpoint_from_environment(name).described if config is None else config.identity()


def _configured(experiment: Experiment, name: str | None) -> LlmConfig | None:
    """Return the experiment's ``llm``, with another model of its server; None: it is not meant.

    Raises:
        UsageError: its answers are lists of texts, of which a question is only one.
    """
    llm = experiment.config.llm
    if llm is None or (name is not None and llm.type != "openai"):
        return None
    if llm.sequences > 1:
        raise UsageError(
            f"`llm` writes {llm.sequences} `sequences`, and `generate` reads one; give "
            "`sequences: 1`, and the number of questions a chunk by --n"
        )
    return llm if name is None else llm.model_copy(update={"model": name})


def _limits(experiment: Experiment, asking: Asking) -> Limits:
    llm = experiment.config.llm

    def chosen(own: float | None, of_llm: float | None) -> float | None:
        return of_llm if own is None else own

    return Limits(
        asking.max_calls if asking.max_calls is not None or llm is None else llm.max_calls,
        chosen(asking.max_cost, llm.max_cost if llm else None),
        chosen(asking.prompt_price, llm.prompt_price if llm else None),
        chosen(asking.completion_price, llm.completion_price if llm else None),
    )
