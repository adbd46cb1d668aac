"""``query_sets[query_set]``: what is really searched for, and what a language model said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.latency_sample import keep_part, kept_part
from rag_assets.engine.outgoing import (
    NO_WORK,
    ExpectedWork,
    RequestUsage,
    asked_config,
    asked_facts,
    counted_requests,
    keep_usage,
    llm_line,
    llm_work,
    needed,
)
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import Part, StageContext
from rag_assets.evaluation.query_facts import document_fields
from rag_assets.experiment.experiment import Experiment
from rag_assets.llm.completions import times_and_cost
from rag_assets.query_sets.query_set import (
    ANSWERS,
    ComputedQuerySet,
    PromptedQuerySet,
    PromptedVariants,
    QuerySet,
    prompted_variants,
    requests_for,
)
from rag_assets.query_sets.variants import variant_table
from rag_assets.retrieval.base import ORIGINAL
from rag_assets.schemas import QUERY_VARIANTS
from rag_assets.sources.fields import note
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import Artifact, ArtifactKey

WRITE = "write"

_REJECTED = (
    "query keeps its original text: no document has what the model wrote",
    "queries keep their original text: no document has what the model wrote",
)


class QuerySetAnswers(Stage):
    """The replies of a language model that rewrites the queries."""

    name = "query_set_answers"
    dimensions: ClassVar[tuple[str, ...]] = ("query_set",)
    schema = ANSWERS
    row = "One reply of a language model about one query, with the request."
    group = "search"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        sets = experiment.query_sets
        prompted = [name for name, config in sets.items() if isinstance(config, PromptedQuerySet)]
        return [answers_key(name) for name in prompted]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return [root_of(type(experiment.query_sets[key["query_set"]]))]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        queries = Input("queries", QUERIES_KEY, "text")
        is_read = _prompted(experiment, key["query_set"]).reads_fields
        fields = Input("fields", DOCUMENTS_KEY, "metadata", is_read=is_read)
        return [queries, fields] if reads_fields(experiment) else [queries]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return _prompted_config(context, key["query_set"])

    def models(self, experiment: Experiment, key: ArtifactKey) -> Sequence[str | None]:
        return [_prompted(experiment, key["query_set"]).llm]

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        answers = _ask_llm(context, key["query_set"], measured=True)
        facts: dict[str, Any] = {"failed_queries": len(answers.failures)}
        if answers.rejected:
            facts |= {"rejected_queries": len(answers.rejected)}
            facts["notes"] = note(*_REJECTED, sorted(answers.rejected))
        facts |= asked_facts(answers.answers["text"].null_count, answers.served_models)
        return TableProduct(answers.answers, facts)

    def expected_work(self, context: StageContext, key: ArtifactKey) -> ExpectedWork:
        config = _prompted(context.experiment, key["query_set"])
        line, queries = llm_line(context.experiment, config.llm), context.current(QUERIES_KEY)
        documents = context.current(DOCUMENTS_KEY) if config.reads_fields else None
        if line is None:
            return NO_WORK
        if queries is None or (config.reads_fields and documents is None):
            return llm_work([replace(line, passages=0)])
        strategy = config.prompted_for(_fields(documents))
        needs = needed(context, config.llm, requests_for(queries.table(), strategy))
        n_asked = min(needs.calls, queries.manifest.rows)
        return llm_work([line.needing(needs, questions=n_asked, passages=0)])


class QuerySets(Stage):
    """The texts searched for each query: the query itself, or its variants.

    A query for which a model gave nothing usable keeps its original, and counts as failed for the
    retrievers that search this query set.
    """

    name = "query_sets"
    dimensions: ClassVar[tuple[str, ...]] = ("query_set",)
    schema = QUERY_VARIANTS
    row = "One variant of one query; variant 0 is the query as it was asked."
    group = "search"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [query_set_key(name) for name in (ORIGINAL, *experiment.query_sets)]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        config = experiment.query_sets.get(key["query_set"])
        return writer_code(None if config is None else type(config))

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        queries = Input("queries", QUERIES_KEY, "text")
        if isinstance(experiment.query_sets.get(key["query_set"]), PromptedQuerySet):
            return [queries, Input("answers", answers_key(key["query_set"]))]
        return [queries]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        config = context.experiment.query_sets.get(key["query_set"])
        if isinstance(config, ComputedQuerySet):
            files = {option: context.file_digest(file) for option, file in config.files().items()}
            return {**config.described(), **files}
        return {} if config is None else _prompted_config(context, key["query_set"])

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        config = context.experiment.query_sets.get(key["query_set"])
        return config.versions() if isinstance(config, ComputedQuerySet) else {}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        config = context.experiment.query_sets.get(key["query_set"])
        write = _WRITERS[_writer(None if config is None else type(config))]
        return write(context, key["query_set"])


def _original(context: StageContext, name: str) -> TableProduct:
    return TableProduct(variant_table(context.artifact(QUERIES_KEY).table(), {}))


def _prompted_set(context: StageContext, name: str) -> TableProduct:
    # Its answers are in the cache: nothing is asked twice.
    answers = _ask_llm(context, name)
    return TableProduct(answers.variants, failures=answers.failures)


def _computed(context: StageContext, name: str) -> TableProduct:
    config: Any = context.experiment.query_sets[name]
    variants = config.variants(context.artifact(QUERIES_KEY).table())
    return TableProduct(variants.table, {"notes": list(variants.notes)})


_WRITERS: Mapping[str, Callable[[StageContext, str], TableProduct]] = {
    "original": _original,
    "computed": _computed,
    "prompted": _prompted_set,
}


def _writer(strategy: type[QuerySet] | None) -> str:
    if strategy is None:
        return "original"
    return "computed" if issubclass(strategy, ComputedQuerySet) else "prompted"


def writer_code(strategy: type[QuerySet] | None) -> list[Root]:
    """Return the roots of what writes a query set of a strategy; None is the original."""
    strategy_roots = [] if strategy is None else [root_of(strategy)]
    return [f"{__name__}:_WRITERS[{name}]" for name in ("", _writer(strategy))] + strategy_roots


def _ask_llm(context: StageContext, query_set: str, *, measured: bool = False) -> PromptedVariants:
    queries = context.artifact(QUERIES_KEY).table()
    config = _prompted(context.experiment, query_set)
    documents = context.artifact(DOCUMENTS_KEY) if config.reads_fields else None
    strategy = config.prompted_for(_fields(documents))
    label = f"ask for {query_set}"
    with context.completions(label, queries.num_rows, config.llm) as completions:
        usages: list[RequestUsage] = []
        with counted_requests(completions.budget, usages):
            answers = prompted_variants(queries, strategy, completions)
        key = answers_key(query_set)
        recipe = context.recipe(key) if measured else None
        if recipe is not None:
            # What the answers took when they were given; those of a query are added.
            seconds, cost = times_and_cost(answers.completions, completions.budget.limits)
            part = Part({query_id: 1000 * value for query_id, value in seconds.items()}, cost)
            keep_part(context, WRITE, recipe.fingerprint, part, asset=key.asset)
            keep_usage(context, key, usages)
        return answers


def _fields(documents: Artifact | None) -> pa.Table | None:
    return document_fields(documents.table()) if documents is not None else None


def writing_parts(context: StageContext, retriever: str) -> list[Part] | None:
    """Return what a language model takes to write what a retriever searches for.

    It is nothing of a query set that no model writes; None where it was not measured.
    """
    query_set = context.experiment.query_set_of(retriever)
    if not isinstance(context.experiment.query_sets.get(query_set), PromptedQuerySet):
        return []
    fingerprint = context.artifact(answers_key(query_set)).manifest.fingerprint
    part = kept_part(context, WRITE, fingerprint)
    return None if part is None else [part]


def _prompted_config(context: StageContext, query_set: str) -> Mapping[str, Any]:
    config = _prompted(context.experiment, query_set)
    request = asked_config(context.experiment, config.llm, config.prompted().template)
    return {**config.described(), **request}


def reads_fields(experiment: Experiment) -> bool:
    """Return whether a prompt names the fields of the documents."""
    sets = experiment.query_sets.values()
    return any(isinstance(config, PromptedQuerySet) and config.reads_fields for config in sets)


def _prompted(experiment: Experiment, query_set: str) -> PromptedQuerySet:
    config = experiment.query_sets[query_set]
    if not isinstance(config, PromptedQuerySet):
        raise TypeError(f"{query_set} is not written by a language model")
    return config


def query_set_key(query_set: str) -> ArtifactKey:
    """Return the partition of one query set."""
    return ArtifactKey.of("query_sets", query_set=query_set)


def answers_key(query_set: str) -> ArtifactKey:
    """Return what a language model said for one query set."""
    return ArtifactKey.of("query_set_answers", query_set=query_set)
