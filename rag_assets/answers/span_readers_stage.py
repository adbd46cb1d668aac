"""``span_readers[generator]``: what an extractive generator learned, and from what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from rag_assets.answers.generators.extractive import READER, ExtractiveGenerator
from rag_assets.answers.span_examples import file_examples, labelled_examples
from rag_assets.answers.span_reader import Example, train
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import FolderProduct, Stage
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.contexts_stage import document_texts
from rag_assets.evaluation.query_facts import DEV
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment.experiment import Experiment
from rag_assets.package_versions import version
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey


class SpanReaders(Stage):
    """One partition an extractive generator that has something to learn from."""

    name = "span_readers"
    dimensions: ClassVar[tuple[str, ...]] = ("generator",)
    row = "A trained span reader: one file of weights."
    group = "answers"
    kinds: ClassVar[frozenset[str]] = frozenset({"numpy"})

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [span_readers_key(name) for name in span_reader_names(experiment)]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        # An edge of the graph exists for all partitions or for none.
        if not any(learns_from_dev(experiment, name) for name in span_reader_names(experiment)):
            return []
        return [
            Input("documents", DOCUMENTS_KEY, "text"),
            Input("questions", QUERIES_KEY, "text"),
            Input("labels", QRELS_KEY),
            Input("answers", QUERY_FACTS_KEY),
        ]

    def input_digests(
        self, context: StageContext, key: ArtifactKey
    ) -> Iterator[tuple[str, str | None]]:
        """Yield the digests of the labels where it is they that are learned from."""
        from_dev = learns_from_dev(context.experiment, key["generator"])
        for role, digest in super().input_digests(context, key):
            if from_dev:
                yield role, digest
            elif digest is None:
                yield "", None

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        train_file = _generator(context.experiment, key["generator"]).train
        read = {} if train_file is None else {"file.train": context.file_digest(train_file)}
        return {"numpy": version("numpy"), **read}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> FolderProduct:
        path = _generator(context.experiment, key["generator"]).train
        examples = _dev_examples(context) if path is None else file_examples(path)
        return FolderProduct(partial(_write, examples))


def _write(examples: Sequence[Example], folder: Path) -> tuple[int, Mapping[str, Any]]:
    reader = train(examples)
    reader.save(folder / READER)
    facts: dict[str, Any] = {"n_examples": len(examples), "n_learned": reader.n_questions}
    if not reader.n_questions:
        facts["notes"] = ["nothing could be learned: the best sentence is the answer"]
    return reader.n_questions, facts


def _dev_examples(context: StageContext) -> list[Example]:
    facts = [
        row for row in context.artifact(QUERY_FACTS_KEY).table().to_pylist() if row["split"] == DEV
    ]
    answers = {row["query_id"]: row["answers"] for row in facts}
    queries = context.artifact(QUERIES_KEY).table()
    texts = zip(queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True)
    questions = {query_id: text for query_id, text in texts if query_id in answers}
    labels = context.artifact(QRELS_KEY).table()
    return labelled_examples(questions, answers, labels, document_texts(context))


def _generator(experiment: Experiment, name: str) -> ExtractiveGenerator:
    generator = experiment.generators[name]
    if not isinstance(generator, ExtractiveGenerator):
        raise TypeError(f"{name} learns nothing")
    return generator


def span_reader_names(experiment: Experiment) -> list[str]:
    """Return the generators for which a span reader is trained, in the order of the YAML."""
    answering = {options.generator for options in experiment.answerers.values()}
    return [
        name
        for name, generator in experiment.generators.items()
        if name in answering
        and isinstance(generator, ExtractiveGenerator)
        and (generator.train is not None or learns_from_dev(experiment, name))
    ]


def learns_from_dev(experiment: Experiment, generator: str) -> bool:
    """Return whether a generator is trained on the experiment's own dev split."""
    options = experiment.generators[generator]
    has_dev = experiment.has_qrels and experiment.split is not None
    return isinstance(options, ExtractiveGenerator) and options.train is None and has_dev


def span_readers_key(generator: str) -> ArtifactKey:
    """Return the reader of one generator."""
    return ArtifactKey.of("span_readers", generator=generator)
