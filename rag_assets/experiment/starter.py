"""The text of a first ``experiment.yaml``: the default experiment, written out with comments."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import yaml

from rag_assets.chunking.chunker import CHUNKING_TYPES
from rag_assets.evaluation.metric_names import MEASURES
from rag_assets.experiment.defaults import default_chunkings, default_retrievers
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.registry import RETRIEVER_TYPES

_SHOWN = {
    "bm25": ("analyzer", "k1", "b"),
    "minilm": ("model",),
    "hybrid": ("inputs", "k", "candidates"),
    "maxsim": ("input", "candidates"),
}
"""Retriever -> the options that are written out; the others keep their defaults unseen."""

_WHY = {
    "bm25": "Words in common: hard to beat where questions use the words of the documents.",
    "minilm": "Likeness of meaning, by a small English model that needs no download.",
    "hybrid": "Fusion by rank: it finds what either of the two finds.",
    "maxsim": "A second look at the first results; it cannot bring back what its input missed.",
}


class _Flow(yaml.SafeDumper):
    """Writes tuples as lists."""


_Flow.add_representer(tuple, yaml.SafeDumper.represent_list)


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
            "# `rag-assets plan` says what an evaluation of this file computes, and why.",
            f"dataset: {_flow(dataset)}",
            "",
            *_chunking(experiment),
            "",
            *_retrievers(data.unread),
            "",
            "# Cut-offs: how many results a reader, or a language model, is given.",
            f"top_k: {_flow(list(experiment.top_k))}",
            "",
            *([] if data.queries else _NO_QUESTIONS),
            *(_metrics(experiment) if data.judgments else _NO_LABELS),
            "",
        ]
    )


_NO_QUESTIONS = [
    "# There are no questions yet. `rag-assets ask` shows what is found for one at once; an",
    "# evaluation wants some in queries.jsonl, one a line, as the examples that stand there.",
]

_NO_LABELS = [
    "# Nothing is judged yet, so there is no metric: an evaluation shows how much the retrievers",
    "# overlap. `rag-assets pool` writes a sheet for people to judge what they found.",
]


def _chunking(experiment: Experiment) -> Iterator[str]:
    yield "# How documents are cut. Several may stand here; the same labels score them all."
    yield from _listed("Strategies", CHUNKING_TYPES)
    yield "chunking:"
    chunkings = default_chunkings(experiment.dataset)
    for name, chunking in chunkings.items():
        shown = {"strategy": chunking.strategy}
        for key in ("max_tokens", "overlap"):
            if getattr(chunking, key, None) is not None:
                shown[key] = getattr(chunking, key)
        yield f"  {name}: {_flow(shown)}"
    if "sections_200" in chunkings:
        yield "  # sections_400: {strategy: recursive, max_tokens: 400, overlap: 60}"
        yield "  # Title and headings as a text of their own, by which a chunk is found too:"
        yield "  # by_headings: {strategy: markdown, index_texts: [text, headings]}"


def _retrievers(unread: float) -> Iterator[str]:
    retrievers = default_retrievers()
    lines = {}
    for name, retriever in retrievers.items():
        options = {"type": retriever.type, **{key: getattr(retriever, key) for key in _SHOWN[name]}}
        lines[name] = f"{name}: {_flow(options)}"
    yield from _listed("Types", RETRIEVER_TYPES)
    yield "retrievers:"
    for name, line in lines.items():
        if not unread or name == "bm25":
            yield f"  # {_WHY[name]}"
            yield f"  {line}"
    if unread:
        yield f"  # The default model does not know {unread:.0%} of the tokens here, so what needs"
        yield "  # it is left out. Name a model that reads this language, and take the `#` away."
        yield from (f"  # {line}" for name, line in lines.items() if name != "bm25")


def _metrics(experiment: Experiment) -> Iterator[str]:
    yield from _listed("Metrics", MEASURES)
    yield f"metrics: {_flow(list(experiment.metrics))}"
    yield "# What places retrievers, and what intervals and tests are of."
    yield f"primary: {experiment.primary}"
    yield "# What the others are compared with."
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
    text: str = yaml.dump(
        value, Dumper=_Flow, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1e9
    )
    return text.strip()
