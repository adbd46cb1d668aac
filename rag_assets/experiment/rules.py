"""Rules between the blocks of an experiment: names exist, files are there, nothing is ignored.

Each function takes a block as it was read, and returns it with what it left out filled in and its
files absolute. The rules of retrievers are in :mod:`.retriever_rules`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rag_assets.answers.generators import LlmGenerator
from rag_assets.answers.options import GOLD, AnswererOptions
from rag_assets.chunking.index_texts import IndexText, template_of
from rag_assets.errors import UsageError, allowed_names
from rag_assets.experiment.config import (
    ChunkingConfig,
    ExperimentConfig,
    GeneratorConfig,
    JudgeConfig,
    QuerySetConfig,
    RetrieverConfig,
)
from rag_assets.judges.base import CORRECTNESS, RELEVANCE, Kind
from rag_assets.judges.llm import LlmJudge
from rag_assets.labels.generation.question_options import QuestionOptions
from rag_assets.options import FileOptions, KeyProblem, Location
from rag_assets.query_sets.query_set import PromptedQuerySet
from rag_assets.regular_files import missing_file
from rag_assets.retrieval.base import BaseRetriever, ImportedRetriever
from rag_assets.retrieval.external.base import UNCHUNKED, ExternalRetriever

WithFiles = TypeVar("WithFiles", bound=FileOptions)


@contextmanager
def naming(*location: int | str) -> Iterator[None]:
    """Say of a wrong value which key holds it."""
    try:
        yield
    except UsageError as error:
        raise KeyProblem(location, str(error)) from error


def check_known(what: str, name: str, names: Collection[str], *location: int | str) -> None:
    """Refuse a name that nothing has; ``what`` it is the name of."""
    if name not in names:
        raise KeyProblem(location, f"unknown {what} {allowed_names(name, names)}")


def chosen_chunking(name: str | None, chunkings: Collection[str], *location: int | str) -> str:
    """Return the chunking that a block at ``location`` names; without a name the only one."""
    if name is None and len(chunkings) > 1:
        raise KeyProblem(location, f"needs `chunking`, one of {', '.join(chunkings)}")
    chosen = name or next(iter(chunkings))
    check_known("chunking", chosen, chunkings, *location, "chunking")
    return chosen


def with_files(options: WithFiles, base: Path, *location: int | str) -> WithFiles:
    """Make the files that a block names absolute, and check that they are there."""
    files = {option: base / file for option, file in options.files().items()}
    for option, file in files.items():
        if not file.is_file():
            raise KeyProblem((*location, option), missing_file(file))
    return options.with_files(files)


def _check_places(
    given: IndexText | QuestionOptions | PromptedQuerySet,
    places: Collection[str],
    location: Location,
    options: Mapping[str, str],
) -> None:
    """Refuse options that are given, and for which a prompt has no place.

    Args:
        given: the block as it was written.
        places: of its prompt.
        location: of the block.
        options: option -> the place for it.
    """
    for option, place in options.items():
        if option in given.model_fields_set and place not in places:
            template = given.files()["template"]
            problem = f"the prompt has no place for it; write {{{place}}} in {template}"
            raise KeyProblem((*location, option), problem)


def check_model(
    name: str | None, config: ExperimentConfig, *location: int | str, reads_list: bool = False
) -> None:
    """Check that there is a language model for a block, and that its answers can be read.

    Args:
        name: one of ``llms``; None: the experiment's ``llm``.
        config: the experiment.
        location: of the block; the name is its key ``llm``.
        reads_list: whether an answer may be a list of texts.
    """
    if name is not None:
        check_known("model", name, config.llms, *location, "llm")
    llm = config.llm if name is None else config.llms[name]
    if llm is None:
        names = ", ".join(config.llms)
        lacks = f"name one of `llms`: `llm: {names}`" if config.llms else "add the key `llm`"
        raise KeyProblem(location, f"needs a language model; {lacks}")
    if llm.sequences > 1 and not reads_list:
        problem = f"its model writes {llm.sequences} `sequences`; only a query set with "
        raise KeyProblem(location, f"{problem}`strategy: multi_query` can read more than one")


def completed_retriever(
    name: str, options: RetrieverConfig, chunkings: Collection[str], *, filters: bool
) -> RetrieverConfig:
    """Return a retriever with its chunking and, where all have them, its filters filled in."""
    if isinstance(options, BaseRetriever) and filters and options.filters is None:
        options = options.model_copy(update={"filters": True})
    if not isinstance(options, BaseRetriever | ImportedRetriever | ExternalRetriever):
        return options
    chunking = options.chunking
    if isinstance(options, ExternalRetriever) and chunking is None:
        chunking = UNCHUNKED
    if chunking != UNCHUNKED or isinstance(options, BaseRetriever):
        chunking = chosen_chunking(chunking, chunkings, "retrievers", name)
    elif options.expand is not None:
        problem = "what stands around a chunk is known of our chunkings only; leave it out"
        raise KeyProblem(("retrievers", name, "expand"), problem)
    return options.model_copy(update={"chunking": chunking})


def completed_query_set(
    name: str, options: QuerySetConfig, base: Path, config: ExperimentConfig
) -> QuerySetConfig:
    """Return a query set with absolute files, its model and prompt checked."""
    location = ("query_sets", name)
    completed = with_files(options, base, *location)
    if isinstance(options, PromptedQuerySet) and isinstance(completed, PromptedQuerySet):
        check_model(options.llm, config, *location, reads_list=options.reads_list)
        with naming(*location):
            places = completed.prompted().template.places
        _check_places(options, places, location, {"language": "language"})
    return completed


def completed_chunking(
    name: str, options: ChunkingConfig, base: Path, config: ExperimentConfig
) -> ChunkingConfig:
    """Return a chunking whose ``index_texts`` have absolute files, models and prompts checked."""
    if options.index_texts is None:
        return options
    texts = [
        _index_text(text, base, config, ("chunking", name, "index_texts", number))
        for number, text in enumerate(options.index_texts)
    ]
    return options.model_copy(update={"index_texts": tuple(texts)})


def _index_text(
    option: IndexText, base: Path, config: ExperimentConfig, location: Location
) -> IndexText:
    completed = with_files(option, base, *location)
    if option.asks:
        check_model(option.llm, config, *location)
        places = template_of(completed).places
        _check_places(option, places, location, {"language": "language", "count": "n"})
    return completed


def completed_questions(
    options: QuestionOptions, chunkings: Collection[str], base: Path, config: ExperimentConfig
) -> QuestionOptions:
    """Return the options of generated questions with their chunking and absolute files."""
    chunking = chosen_chunking(options.chunking, chunkings, "questions")
    if config.dataset.judge == "chunk":
        problem = "the labels of generated `questions` are spans; allowed: evidence, document"
        raise KeyProblem(("dataset", "judge"), f"chunk: {problem}")
    check_model(options.llm, config, "questions")
    completed = with_files(options, base, "questions")
    with naming("questions", "template"):
        places = completed.question_prompt().places
    _check_places(options, places, ("questions",), {"language": "language"})
    return completed.model_copy(update={"chunking": chunking})


def completed_generator(
    name: str, options: GeneratorConfig, base: Path, config: ExperimentConfig
) -> GeneratorConfig:
    """Return a generator with absolute files, its language model and prompt checked."""
    completed = with_files(options, base, "generators", name)
    if isinstance(completed, LlmGenerator):
        check_model(completed.llm, config, "generators", name)
        with naming("generators", name, "prompt"):
            completed.template()
    return completed


def completed_answerer(
    name: str,
    options: AnswererOptions,
    config: ExperimentConfig,
    retrievers: Collection[str],
    chunkings: Collection[str],
    *,
    has_labels: bool,
) -> AnswererOptions:
    """Return an answerer with ``top_k`` and ``chunking`` filled in where it has such."""
    location = ("answers", name)
    if options.context == GOLD and not has_labels:
        problem = "gold is the evidence of a question, and the data has no labels"
        raise KeyProblem((*location, "context"), problem)
    check_known("generator", options.generator, config.generators, *location, "generator")
    if options.retriever is not None:
        check_known("retriever", options.retriever, retrievers, *location, "retriever")
    elif options.context is None and config.generators[options.generator].reads_context:
        problem = "needs a context: the key `retriever`, or `context`, one of gold, none, random"
        raise KeyProblem(location, problem)
    listed = sorted(set(config.top_k))
    for k in options.top_k or ():
        if k not in listed:
            allowed = ", ".join(map(str, listed))
            problem = f"{k} is not in the experiment's top_k; allowed: {allowed}"
            raise KeyProblem((*location, "top_k"), problem)
    filled: dict[str, object] = {}
    if options.retriever is not None:
        filled["top_k"] = tuple(sorted(set(options.top_k or listed)))
    if options.context == GOLD:
        filled["chunking"] = chosen_chunking(options.chunking, chunkings, *location)
    return options.model_copy(update=filled)


def completed_judge(
    name: str, options: JudgeConfig, base: Path, config: ExperimentConfig, deepest: int
) -> JudgeConfig:
    """Return a judge with absolute files, what it judges, and how deep.

    Args:
        name: of the judge.
        options: its block.
        base: the folder that files are relative to.
        config: the experiment.
        deepest: the largest cut-off of any run.
    """
    location = ("judges", name)
    judge = with_files(options, base, *location)
    kinds: tuple[Kind, ...] = (RELEVANCE, *((CORRECTNESS,) if config.answers else ()))
    for number, kind in enumerate(judge.judges or ()):
        if kind not in kinds:
            problem = "correctness is of answers, and the experiment has none; add the key"
            raise KeyProblem((*location, "judges", number), f"{problem} `answers`")
    kinds = judge.judges or kinds
    depth = min(judge.depth, deepest)
    if "depth" in judge.model_fields_set and RELEVANCE not in kinds:
        problem = "is of the passages of runs, and this judge does not judge relevance"
        raise KeyProblem((*location, "depth"), problem)
    if "depth" in judge.model_fields_set and judge.depth > deepest:
        problem = f"is {judge.depth}, and the deepest run has {deepest}; allowed: 1 to {deepest}"
        raise KeyProblem((*location, "depth"), problem)
    if isinstance(judge, LlmJudge):
        check_model(judge.llm, config, *location)
        for kind in (RELEVANCE, CORRECTNESS):
            option = f"{kind}_prompt"
            if option in judge.model_fields_set and kind not in kinds:
                raise KeyProblem((*location, option), f"this judge does not judge {kind}")
            with naming(*location, option):
                judge.template(kind)
    return judge.model_copy(update={"judges": kinds, "depth": depth})
