"""Rules for ``index_texts``: files are there, models are named, and retrievers can index them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rag_assets.chunking.index_texts import IndexText
from rag_assets.chunking.written_texts import template_of
from rag_assets.experiment.config import ChunkingConfig, ExperimentConfig, RetrieverConfig
from rag_assets.experiment.llm_rules import check_llm
from rag_assets.experiment.retriever_rules import Fail
from rag_assets.experiment.yaml_file import Location
from rag_assets.regular_files import missing_file
from rag_assets.retrieval.base import BaseRetriever


def check_index_texts(
    chunkings: Mapping[str, ChunkingConfig],
    retrievers: Mapping[str, RetrieverConfig],
    base: Path,
    config: ExperimentConfig,
    fail: Fail,
) -> dict[str, ChunkingConfig]:
    """Return the chunkings with absolute paths to the files that ``index_texts`` name.

    Args:
        chunkings: all of the experiment.
        retrievers: likewise.
        base: the folder that paths are relative to.
        config: the experiment, for its language models.
        fail: makes the error from a location and a problem.

    Raises:
        ConfigError: made by ``fail``: a file is missing or no prompt, a model is not there, or a
            retriever does not index the texts that it is given.
    """
    for name, retriever in retrievers.items():
        if not isinstance(retriever, BaseRetriever) or retriever.indexes_texts:
            continue
        if chunkings[str(retriever.chunking)].index_texts is not None:
            problem = f"'{retriever.chunking}' has index_texts, which this retriever cannot index"
            raise fail(("retrievers", name, "chunking"), problem)
    return {
        name: _with_texts(name, chunking, base, config, fail)
        for name, chunking in chunkings.items()
    }


def _with_texts(
    name: str, chunking: ChunkingConfig, base: Path, config: ExperimentConfig, fail: Fail
) -> ChunkingConfig:
    if chunking.index_texts is None:
        return chunking
    place = ("chunking", name, "index_texts")
    texts = (
        _checked((*place, number), option, base, config, fail)
        for number, option in enumerate(chunking.index_texts)
    )
    return chunking.model_copy(update={"index_texts": tuple(texts)})


def _checked(
    location: Location, option: IndexText, base: Path, config: ExperimentConfig, fail: Fail
) -> IndexText:
    files = {name: base / file for name, file in option.files().items()}
    for name, file in files.items():
        if not file.is_file():
            raise fail((*location, name), missing_file(file))
    option = option.with_files(files)
    if option.asks:
        check_llm(option.llm, location, config, fail)
        places = template_of(option).places
        for name, value in (("language", "language"), ("count", "n")):
            if name in option.model_fields_set and value not in places:
                problem = f"the prompt has no place for it; write {{{value}}} in {option.template}"
                raise fail((*location, name), problem)
    return option
