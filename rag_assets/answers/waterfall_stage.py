"""``answer_waterfall[answerer]``: what became of each question, from corpus to answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from rag_assets.answers.contexts_stage import (
    answer_contexts_key,
    has_context,
    passage_lists_key,
    with_texts,
)
from rag_assets.answers.metrics_stage import answer_metrics_key, golds_in, metric_names
from rag_assets.answers.waterfall import WATERFALL, waterfall
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.attributions_stage import RankingsRead
from rag_assets.evaluation.contexts_stage import document_texts
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.experiment.experiment import Experiment
from rag_assets.retrieval.runs_stage import RunsStage
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY
from rag_assets.store.artifacts import ArtifactKey

NEEDED = ("answer_em", "answer_f1", "abstained")
"""Metrics by which an answer is right, wrong or refused."""


class AnswerWaterfall(Stage):
    """One partition an answerer at one of its cut-offs; a leaf, as attributions are."""

    name = "answer_waterfall"
    dimensions: ClassVar[tuple[str, ...]] = ("answerer",)
    schema = WATERFALL
    row = "One question of one answerer: its class, from a failure to a right answer."
    group = "answers"
    kinds: ClassVar[frozenset[str]] = frozenset({"parquet", "duckdb"})
    packages: ClassVar[tuple[str, ...]] = ("duckdb",)

    def __init__(self, rankers: Sequence[RunsStage]) -> None:
        """Know the stages that rank, of all families."""
        self._rankings = RankingsRead(rankers)

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        measured = experiment.has_qrels and set(NEEDED) <= set(metric_names(experiment))
        return [waterfall_key(key) for key in experiment.answer_cells if measured]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        options = experiment.answerers[experiment.answer_cells[key["answerer"]].name]
        contexts = [Input("contexts", answer_contexts_key(key["answerer"]))]
        found = [
            Input("metrics", answer_metrics_key(key["answerer"])),
            Input("golds", QUERY_FACTS_KEY, "answers"),
            Input("qrels", QRELS_KEY),
            Input("documents", DOCUMENTS_KEY, "ids"),
            *(contexts if has_context(options) else []),
        ]
        retriever = _ranked_by(experiment, key)
        if retriever is None:
            return found
        # A partition of one dimension can depend on cells by this one alone; what is read of them
        # are rankings.
        names = (retriever, *experiment.inputs(retriever))
        lists = [Input(f"run_{n}", passage_lists_key(name)) for n, name in enumerate(names)]
        return [*found, Input("relevant_units", relevant_units_key(retriever)), *lists]

    def input_digests(
        self, context: StageContext, key: ArtifactKey
    ) -> Iterator[tuple[str, str | None]]:
        """Yield the digests of rankings in place of those of what is handed over."""
        is_missing = False
        for role, digest in super().input_digests(context, key):
            if not role.startswith("run_"):
                yield role, digest
            elif digest is None:
                is_missing = True
        retriever, k = _ranked_by(context.experiment, key), _cutoff(context.experiment, key)
        if retriever is not None:
            read = self._rankings.digests(context, retriever, k)
            for number, (_, digest) in enumerate(read):
                yield f"ranking_{number}", None if is_missing else digest

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        experiment = context.experiment
        retriever = _ranked_by(experiment, key)
        own = (
            {"k": _cutoff(experiment, key), "family": experiment.retrievers[retriever].family}
            if retriever
            else {}
        )
        return {"right": experiment.config.answer_metrics.right, "judge": experiment.judge, **own}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        experiment = context.experiment
        golds, documents = golds_in(context), document_texts(context)
        options = experiment.answerers[experiment.answer_cells[key["answerer"]].name]
        contexts = attributions = None
        if has_context(options):
            own = context.artifact(answer_contexts_key(key["answerer"])).table()
            contexts = with_texts(own, documents)
        retriever = _ranked_by(experiment, key)
        if retriever is not None:
            k = _cutoff(experiment, key)
            attributions = self._rankings.attributions(context, retriever, k)
        metrics = context.artifact(answer_metrics_key(key["answerer"])).table()
        right = experiment.config.answer_metrics.right
        table = waterfall(metrics, golds, contexts, attributions, right_above=right)
        return TableProduct(table)


def _ranked_by(experiment: Experiment, key: ArtifactKey) -> str | None:
    """Return the retriever by whose ranks a context is; None: there is none."""
    options = experiment.answerers[experiment.answer_cells[key["answerer"]].name]
    return options.retriever if options.context is None else None


def _cutoff(experiment: Experiment, key: ArtifactKey) -> int:
    return experiment.answer_cells[key["answerer"]].top_k or 0


def waterfall_key(answerer: str) -> ArtifactKey:
    """Return the classes of the questions of one answerer at its cut-off."""
    return ArtifactKey.of("answer_waterfall", answerer=answerer)
