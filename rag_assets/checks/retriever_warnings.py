"""Warnings about retrievers before they run: too narrow searches, texts that models cannot read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assets.errors import ModelUnavailable, RagAssetsError
from rag_assets.experiment.experiment import Experiment
from rag_assets.models.token_counts import SAMPLE, unknown_share, unreadable_warning
from rag_assets.pipeline.selection import Selection
from rag_assets.retrieval.base import EmbeddingRetriever
from rag_assets.retrieval.external.base import ExternalRetriever, QueryEmbedding
from rag_assets.retrieval.retriever import MAX_DERIVED, Retriever
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.retrieval.workspace import retriever_prompts
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY, Documents
from rag_assets.store.artifacts import ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline
    from rag_assets.sources.dataset import Read
from rag_assets.text_files import GZIP, suffix


def narrow_search_warnings(experiment: Experiment) -> list[str]:
    """Return a line for each search that looks at fewer chunks than are read of it."""
    lines = []
    for name, config in experiment.retrievers.items():
        bound = _most_results(config)
        read = experiment.depth(name)
        if bound is not None and bound[1] < read:
            lines.append(
                f"{name}: {bound[0]} {bound[1]} is below {read}, the largest top_k or "
                f"candidates that reads it; no query has more than {bound[1]} results"
            )
    return lines


def _most_results(config: Retriever) -> tuple[str, int] | None:
    if isinstance(config, ExternalRetriever):
        return None if config.k is None else ("k", config.k)
    return config.most_results() if isinstance(config, EmbeddingRetriever) else None


def prompt_warnings(experiment: Experiment) -> list[str]:
    """Return a line for each retriever whose model runs without a prompt that it was trained with.

    A model that is not there is no matter of this function: the evaluation itself will say so.
    """
    lines = []
    for name, config in experiment.retrievers.items():
        with suppress(ModelUnavailable):
            if (warning := _prompt_warning(config)) is not None:
                lines.append(f"retriever '{name}': {warning}")
    return lines


def _prompt_warning(config: Retriever) -> str | None:
    embedding: QueryEmbedding | None = getattr(config, "embedding", None)
    if embedding is not None:  # of a search that is not ours, which has the documents' vectors
        warning = embedding.prompts().warning(embedding.model, ("query",))
        return f"embedding: {warning}" if warning else None
    served = isinstance(config, EmbeddingRetriever) and config.asks_server
    prompts = retriever_prompts(config, served=served)
    return prompts.warning(str(getattr(config, "model", ""))) if prompts is not None else None


QUICKLY_READ = frozenset({".jsonl", ".json", ".csv", ".tsv", ".md", ".markdown", ".txt"})
MAX_BYTES = 20_000_000
"""Larger corpora, and other kinds of files, are not read before the evaluation for a warning."""


def tokenizer_warnings(pipeline: Pipeline, selection: Selection) -> list[str]:
    """Return a line for each retriever with work to do whose model cannot read what it is given.

    Queries and documents are read here where they are not stored yet, and kept for their stages.
    Data that is refused, or a model that is not there, is no matter of this function: the
    evaluation itself will say so.
    """
    texts: Mapping[str, Sequence[str]] | None = None
    lines: list[str] = []
    for name in _with_work(pipeline, selection):
        try:
            files = pipeline.experiment.retrievers[name].tokenizer_files()
            if files is None:
                continue
            texts = _texts(pipeline) if texts is None else texts
            shares = {what: unknown_share(own, files) for what, own in texts.items()}
        except ModelUnavailable:
            continue
        told = (unreadable_warning(what, share, files) for what, share in shares.items())
        lines += [f"retriever '{name}': {line}" for line in told if line is not None]
    return lines


def _with_work(pipeline: Pipeline, selection: Selection) -> list[str]:
    """Return the retrievers whose run is not up to date, with those that they read."""
    experiment, top_k = pipeline.experiment, max(selection.top_k)
    needed = dict.fromkeys(selection.retrievers)
    for _ in range(MAX_DERIVED):
        needed |= dict.fromkeys(one for name in needed for one in experiment.inputs(name))
    keys = {name: run_key(experiment, name, top_k) for name in experiment.retrievers}
    return [name for name in needed if pipeline.current(keys[name]) is None]


def _texts(pipeline: Pipeline) -> Mapping[str, Sequence[str]]:
    experiment, tables = pipeline.experiment, dict[str, Sequence[str]]()
    if experiment.questions is None:
        tables["queries"] = _read(pipeline, QUERIES_KEY, experiment.read_queries)
    if pipeline.current(DOCUMENTS_KEY) is not None or _quickly_read(
        experiment.dataset.document_files()
    ):
        tables["documents"] = _read(pipeline, DOCUMENTS_KEY, lambda: Documents().read(pipeline))
    return tables


def _read(pipeline: Pipeline, key: ArtifactKey, read: Callable[[], Read]) -> list[str]:
    artifact = pipeline.current(key)
    try:
        if artifact is None:
            pipeline.read_ahead[key.asset] = read()
        table = pipeline.read_ahead[key.asset].table if artifact is None else artifact.table()
    except RagAssetsError:
        return []
    step = max(1, table.num_rows // SAMPLE)
    texts: list[str] = table.column("text")[::step].to_pylist()
    return texts


def _quickly_read(files: Sequence[Path]) -> bool:
    quick = all(suffix(file) in QUICKLY_READ for file in files)
    # A text is about five times its compressed size.
    sizes = (file.stat().st_size * (5 if file.name.lower().endswith(GZIP) else 1) for file in files)
    return quick and 0 < sum(sizes) <= MAX_BYTES
