"""The text of a first ``experiment.yaml``: the default experiment, written out with comments."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import yaml

from rag_assets.chunking.chunker import CHUNKING_TYPES
from rag_assets.evaluation.metric_names import MEASURES
from rag_assets.experiment.experiment import Experiment
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.retrieval.registry import RETRIEVER_TYPES

_RETRIEVERS = {
    "bm25": (
        "Keyword search: hard to beat where questions use the words of the documents.",
        "{type: bm25, analyzer: auto, k1: 1.2, b: 0.75}",
    ),
    "minilm": (
        "Similarity of meaning, by a small English model that needs no download.",
        f"{{type: embedding, model: {DEFAULT_MODEL}}}",
    ),
    "hybrid": (
        "Fusion by rank: it finds what either of the two finds.",
        "{type: rrf, inputs: [bm25, minilm], k: 60, candidates: 100}",
    ),
    "maxsim": (
        "Reorders the first results; it cannot bring back what its input missed.",
        "{type: maxsim, input: hybrid, candidates: 20}",
    ),
}
"""Retriever -> why it is there, and its default with the options that are worth a try."""


class DataSummary(NamedTuple):
    """What lies at the path of an experiment."""

    documents: int
    queries: int
    judgments: int
    unread: float
    """Share of the tokens of the texts that the default model does not know."""


def starter_yaml(experiment: Experiment, path: str, data: DataSummary) -> str:
    """Return the text of a YAML file that means what no file at all would mean.

    Retrievers that need the default model are left out, as a comment, where it does not know the
    words of the corpus.

    Args:
        experiment: the default experiment on some data.
        path: where the data lies, as the file is to say it.
        data: what was read there, and how much of it the default model knows.
    """
    dataset = {"path": path, "format": experiment.dataset.format}
    return "\n".join(
        [
            f"# {data.documents} documents, {data.queries} queries, {data.judgments} judgments.",
            "# `rag-assets plan` shows what an evaluation of this file computes, and why.",
            f"dataset: {_flow(dataset)}",
            "",
            *_chunking(experiment),
            "",
            *_retrievers(data.unread),
            "",
            "# Cut-offs: how many results a reader or a language model gets.",
            f"top_k: {_flow(list(experiment.top_k))}",
            "",
            *([] if data.queries else _NO_QUESTIONS),
            *(_metrics(experiment) if data.judgments else _NO_LABELS),
            "",
        ]
    )


_NO_QUESTIONS = [
    "# There are no questions yet. `rag-assets ask` shows what is found for one; an",
    "# evaluation needs some in queries.jsonl, one per line, like the examples in that file.",
]

_NO_LABELS = [
    "# Nothing is judged yet, so there is no metric: an evaluation shows how much the retrievers",
    "# overlap. `rag-assets pool` writes a sheet for people to judge what they found.",
]


def _chunking(experiment: Experiment) -> Iterator[str]:
    yield "# How documents are cut. You can list several; the same labels score them all."
    yield from _listed("Strategies", CHUNKING_TYPES)
    yield "chunking:"
    if experiment.dataset.default_chunking == "none":
        yield "  whole: {strategy: none}"
    else:
        yield "  sections_200: {strategy: recursive, max_tokens: 200, overlap: 30}"
        yield "  # sections_400: {strategy: recursive, max_tokens: 400, overlap: 60}"
        yield "  # Also index title and headings as a separate text of each chunk:"
        yield "  # by_headings: {strategy: markdown, index_texts: [text, headings]}"


def _retrievers(unread: float) -> Iterator[str]:
    yield from _listed("Types", RETRIEVER_TYPES)
    yield "retrievers:"
    for name, (why, block) in _RETRIEVERS.items():
        if not unread or name == "bm25":
            yield f"  # {why}"
            yield f"  {name}: {block}"
    if unread:
        yield f"  # The default model does not know {unread:.0%} of the tokens here, so retrievers"
        yield "  # that need it are left out. Name a model for this language, and remove the `#`."
        blocks = [(name, block) for name, (_, block) in _RETRIEVERS.items() if name != "bm25"]
        yield from (f"  # {name}: {block}" for name, block in blocks)


def _metrics(experiment: Experiment) -> Iterator[str]:
    yield from _listed("Metrics", MEASURES)
    yield f"metrics: {_flow(list(experiment.metrics))}"
    yield "# The metric that ranks retrievers, and that intervals and tests are for."
    yield f"primary: {experiment.primary}"
    yield "# The retriever that the others are compared with."
    yield f"baseline: {experiment.baseline}"


def _listed(what: str, names: Iterable[str]) -> list[str]:
    """Return what may stand in a block, also that of installed packages, as a comment."""
    return textwrap.wrap(
        f"{what}: {', '.join(names)}.",
        98,
        initial_indent="# ",
        subsequent_indent="#   ",
        break_long_words=False,
    )


def _flow(value: dict[str, Any] | list[Any]) -> str:
    text: str = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1e9
    )
    return text.strip()
