"""Rules between generated questions and the rest of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rag_assets.errors import UsageError, allowed_names
from rag_assets.experiment.config import ExperimentConfig, StatisticsConfig
from rag_assets.experiment.llm_rules import check_llm
from rag_assets.experiment.retriever_rules import Fail
from rag_assets.labels.generation.question_options import QuestionOptions
from rag_assets.labels.generation.question_tables import SOURCE_DOCUMENT
from rag_assets.regular_files import missing_file

KEY = "questions"


def checked_questions(
    config: ExperimentConfig, chunkings: Sequence[str], base: Path, fail: Fail
) -> QuestionOptions | None:
    """Return the options with their chunking filled in and absolute files; None without any.

    Args:
        config: the experiment.
        chunkings: the names of all.
        base: the folder that files are relative to.
        fail: makes the error.

    Raises:
        ConfigError: made by ``fail``: no such chunking, model or file, a prompt lacks a place, or
            labels of another kind are asked for.
    """
    options = config.questions
    if options is None:
        return None
    if options.chunking is None and len(chunkings) > 1:
        raise fail((KEY,), f"needs `chunking`, one of {', '.join(chunkings)}")
    name = options.chunking or chunkings[0]
    if name not in chunkings:
        raise fail((KEY, "chunking"), f"unknown chunking {allowed_names(name, chunkings)}")
    if config.dataset.judge == "chunk":
        problem = "the labels of generated `questions` are spans; allowed: evidence, document"
        raise fail(("dataset", "judge"), f"chunk: {problem}")
    check_llm(options.llm, (KEY,), config, fail)
    absolute = {option: base / file for option, file in options.files().items()}
    for option, file in absolute.items():
        if not file.is_file():
            raise fail((KEY, option), missing_file(file))
    given = options.template
    options = options.with_files(absolute).model_copy(update={"chunking": name})
    try:
        places = options.question_generator().template.places
    except UsageError as error:
        raise fail((KEY, "template"), str(error)) from error
    if "language" in options.model_fields_set and "language" not in places:
        problem = f"the prompt has no place for it; write {{language}} in {given}"
        raise fail((KEY, "language"), problem)
    return options


def statistics_of(config: ExperimentConfig) -> StatisticsConfig:
    """Return how sure a mean is; questions from one document are one cluster unless said."""
    own = config.statistics
    if config.questions is None or "cluster" in own.model_fields_set:
        return own
    return own.model_copy(update={"cluster": f"query.{SOURCE_DOCUMENT}"})
