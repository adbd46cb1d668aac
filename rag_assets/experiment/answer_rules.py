"""Rules between answerers and what they name: generators, retrievers, chunkings, cut-offs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rag_assets.answers.generators.llm import LlmGenerator
from rag_assets.answers.metrics import METRICS
from rag_assets.answers.options import GOLD, NONE, RANDOM, AnswererOptions
from rag_assets.errors import UsageError, allowed_names
from rag_assets.experiment.config import ExperimentConfig, GeneratorConfig
from rag_assets.experiment.llm_rules import check_llm
from rag_assets.experiment.retriever_rules import Fail

Wrong = Callable[[str, str], Exception]
"""Makes the error of one answerer, from a key ("": the whole block) and a problem."""


def check_generator(
    name: str, generator: GeneratorConfig, config: ExperimentConfig, fail: Fail
) -> GeneratorConfig:
    """Return a generator whose files are absolute, if its language model and prompt are right.

    Raises:
        ConfigError: made by ``fail``: there is no such model, or the prompt lacks a place.
    """
    if not isinstance(generator, LlmGenerator):
        return generator
    check_llm(generator.llm, ("generators", name), config, fail)
    try:
        generator.template()
    except UsageError as error:
        raise fail(("generators", name, "prompt"), str(error)) from error
    return generator


def check_answer_metrics(config: ExperimentConfig, fail: Fail) -> None:
    """Check that every metric of answers that is named exists.

    Raises:
        ConfigError: made by ``fail``: one does not.
    """
    for number, name in enumerate(config.answer_metrics.metrics or ()):
        if name not in METRICS:
            problem = f"unknown metric of answers {allowed_names(name, METRICS)}"
            raise fail(("answer_metrics", "metrics", number), problem)


def answerers_of(
    config: ExperimentConfig,
    retrievers: Sequence[str],
    chunkings: Sequence[str],
    fail: Fail,
    *,
    has_labels: bool,
) -> dict[str, AnswererOptions]:
    """Return the answerers; ``top_k`` and ``chunking`` are filled in where there is one.

    Raises:
        ConfigError: made by ``fail``: a name is unknown, a cut-off is not the experiment's, or
            options contradict each other.
    """
    for name, options in config.answers.items():
        if options.context == GOLD and not has_labels:
            problem = "gold is the evidence of a question, and the data has no labels"
            raise fail(("answers", name, "context"), problem)
    return {
        name: _answerer(name, options, config, retrievers, chunkings, fail)
        for name, options in config.answers.items()
    }


def _answerer(
    name: str,
    options: AnswererOptions,
    config: ExperimentConfig,
    retrievers: Sequence[str],
    chunkings: Sequence[str],
    fail: Fail,
) -> AnswererOptions:
    def wrong(key: str, problem: str) -> Exception:
        return fail(("answers", name, key) if key else ("answers", name), problem)

    if options.generator not in config.generators:
        problem = f"unknown generator {allowed_names(options.generator, config.generators)}"
        raise wrong("generator", problem)
    if options.retriever is not None and options.retriever not in retrievers:
        raise wrong(
            "retriever", f"unknown retriever {allowed_names(options.retriever, retrievers)}"
        )
    _check_source(options, reads=config.generators[options.generator].reads_context, wrong=wrong)
    _check_belongings(options, wrong)
    listed = tuple(sorted(set(config.top_k)))
    for k in options.top_k or ():
        if k not in listed:
            allowed = ", ".join(map(str, listed))
            raise wrong("top_k", f"{k} is not in the experiment's top_k; allowed: {allowed}")
    filled: dict[str, object] = {}
    if options.retriever is not None:
        filled["top_k"] = tuple(sorted(set(options.top_k or listed)))
    if options.context == GOLD:
        filled["chunking"] = _chunking(options.chunking, chunkings, wrong)
    return options.model_copy(update=filled)


def _check_source(options: AnswererOptions, *, reads: bool, wrong: Wrong) -> None:
    """Check that it is said where the context is from, and said once."""
    if options.context == RANDOM:
        if options.retriever is None:
            problem = "random draws as many units as a retriever returns; add the key `retriever`"
            raise wrong("context", problem)
    elif options.context is not None and options.retriever is not None:
        problem = f"give retriever, or context: {options.context}, not both"
        raise wrong("context", problem)
    elif options.context is None and options.retriever is None and reads:
        problem = "needs a context: the key `retriever`, or `context`, one of gold, none, random"
        raise wrong("", problem)


def _check_belongings(options: AnswererOptions, wrong: Wrong) -> None:
    """Refuse options that would be passed over."""
    ranked = options.retriever is not None and options.context is None
    has_units = options.retriever is not None or options.context == GOLD
    given = options.model_fields_set
    rules = {
        "order": (ranked, "is of the ranks of a retriever"),
        "top_k": (options.retriever is not None, "is of what a retriever returns"),
        "budget": (has_units, "is of a context that has units"),
        "chunking": (options.context == GOLD, "belongs to context: gold"),
        "seed": (options.context == RANDOM, "belongs to context: random"),
    }
    for key, (belongs, why) in rules.items():
        if key in given and not belongs:
            source = "none" if options.context == NONE else options.context or "no retriever"
            raise wrong(key, f"{why}; this answerer has {source}")


def _chunking(chunking: str | None, chunkings: Sequence[str], wrong: Wrong) -> str:
    if chunking is None:
        if len(chunkings) > 1:
            raise wrong("", f"needs `chunking`, one of {', '.join(chunkings)}")
        return chunkings[0]
    if chunking not in chunkings:
        raise wrong("chunking", f"unknown chunking {allowed_names(chunking, chunkings)}")
    return chunking
