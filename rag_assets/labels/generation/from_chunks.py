"""Questions generated from the chunks of an experiment: what is asked, of whom, at what cost."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
from pydantic import ValidationError

from rag_assets.chunking.stage import chunks_key
from rag_assets.errors import ConfigError, DataError, UsageError, allowed_names
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.hosts import Client, llm_client
from rag_assets.experiment.llm import LlmConfig
from rag_assets.experiment.yaml_file import first_problem
from rag_assets.labels.generation.question_generation import (
    GeneratedQuestions,
    generate_questions,
    question_requests,
)
from rag_assets.labels.generation.question_options import SAME_LANGUAGE, QuestionOptions
from rag_assets.llm.client import MODEL_VARIABLE, ChatModel, endpoint_from_environment
from rag_assets.llm.completions import Budget, Completions, Estimate, Limits, estimate
from rag_assets.llm.templates import Template
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.servers.secrets import is_loopback
from rag_assets.sources.stage import DOCUMENTS_KEY


class Asking(QuestionOptions):
    """What is asked, of whom, and how much may be spent: ``questions`` of a YAML, and more.

    ``model`` is the name of a model at the server, in place of that of the experiment. The limits
    are of this run: most requests, most money in the unit of the prices, and the prices of a
    million tokens of requests and of answers; without them they are those of the experiment's
    ``llm``.
    """

    model: str | None = None
    max_calls: int | None = None
    max_cost: float | None = None
    prompt_price: float | None = None
    completion_price: float | None = None

    def question_prompt(self) -> Template:
        """Return the prompt.

        Raises:
            ConfigError: it is none, or has no place for a language that is asked for.
        """
        template = super().question_prompt()
        if self.language != SAME_LANGUAGE and "language" not in template.places:
            problem = f"has no place for the language {self.language}; write {{language}}"
            raise ConfigError(f"the prompt {problem}", file=self.template)
        return template


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
        DataError: no question was kept; says how many were dropped why.
        BudgetReached: the limits allow no more; what was answered is kept, and found again.
        ModelUnavailable: the endpoint refuses everything, or does not serve; likewise.
    """
    chunks = _chunks(pipeline, asking)
    budget = Budget(_limits(pipeline.experiment, asking))
    model = _model(pipeline, asking.model)
    with pipeline.progress("ask for questions", chunks.num_rows) as advance:
        completions = Completions(model, pipeline.replies, budget, progress=advance)
        questions = generate_questions(chunks, asking, completions)
    if not questions.questions.num_rows:
        lost = ", ".join(f"{n} {reason}" for reason, n in reasons(questions)) or "there was none"
        problem = f"no question is left of {chunks.num_rows} chunks: {lost}"
        raise DataError(problem, file=pipeline.experiment.source)
    documents = pipeline.artifact(DOCUMENTS_KEY).table()
    cost = budget.cost if budget.limits.priced else None
    return Generation(questions, documents, chunks.num_rows, budget.calls, cost)


def reasons(questions: GeneratedQuestions) -> list[tuple[str, int]]:
    """Return (what, how many) of dropped questions, then of chunks that gave none."""
    dropped = [(f"dropped: {reason}", number) for reason, number in questions.counts.items()]
    failures = Counter(f"without a question: {why}" for why in questions.failures.values())
    return [*sorted(dropped), *sorted(failures.items())]


def estimate_generation(pipeline: Pipeline, asking: Asking) -> Estimate:
    """Return what :func:`generate_from_chunks` would ask; asks nothing, and needs no key.

    Where no model is named, no answer is known.
    """
    experiment = pipeline.experiment
    identity: Mapping[str, str] = {}
    config = _configured(experiment, asking.model)
    if config is not None:
        identity = config.identity()
    elif is_model_named(experiment, asking):
        identity = endpoint_from_environment(asking.model).served_model
    requests = question_requests(_chunks(pipeline, asking), asking)
    return estimate(requests, identity, pipeline.replies, _limits(experiment, asking))


def is_model_named(experiment: Experiment, asking: Asking) -> bool:
    """Return whether anything says which model is to be asked."""
    named = asking.model or os.environ.get(MODEL_VARIABLE)
    return experiment.config.llm is not None or bool(named)


def asked_host(experiment: Experiment, asking: Asking) -> Client | None:
    """Return the client to which chunks are sent; None: they stay on this machine."""
    limits = _limits(experiment, asking)
    is_bounded = limits.max_calls is not None or limits.max_cost is not None
    if _configured(experiment, asking.model) is not None:
        client = llm_client(experiment, None)
        if client is None or client.is_local:
            return None
        return replace(client, is_bounded=is_bounded)
    place = endpoint_from_environment(asking.model).place
    return None if is_loopback(place) else Client("llm", place, False, is_bounded)


def _chunks(pipeline: Pipeline, asking: Asking) -> pa.Table:
    names = list(pipeline.experiment.chunkings)
    if asking.chunking is None and len(names) > 1:
        problem = f"{pipeline.experiment.name} has several chunkings; choose one of "
        raise UsageError(f"{problem}{', '.join(names)} (chunking)")
    if asking.chunking is not None and asking.chunking not in names:
        raise UsageError(f"unknown chunking {allowed_names(asking.chunking, names)}")
    key = chunks_key(asking.chunking or names[0])
    for one in (DOCUMENTS_KEY, key):
        pipeline.materialize(one.asset, [one])
    return asking.chosen_chunks(pipeline.artifact(key).table())


def _model(pipeline: Pipeline, name: str | None) -> ChatModel:
    """Return the experiment's model, another one of its server, or that of the environment."""
    config = _configured(pipeline.experiment, name)
    if config is not None:
        return pipeline.chat_model() if name is None else config.chat_model()
    from rag_assets.llm.openai_server import OpenAICompatible

    return OpenAICompatible(endpoint_from_environment(name))


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
    values = {
        name: getattr(options, name)
        for options in (experiment.config.llm, asking)
        for name in Limits.model_fields
        if getattr(options, name, None) is not None
    }
    try:
        return Limits(**values)
    except ValidationError as error:
        location, problem = first_problem(error, values)
        where = "".join(f" {name}:" for name in location)
        raise UsageError(f"LLM{where} {problem}") from error
