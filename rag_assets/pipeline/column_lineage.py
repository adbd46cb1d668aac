"""Of which columns each column of a table is made: declared once, by tables, not by assets.

Which assets hold them follows from the graph: the nearest ones above that have the table. Where a
table has several ways to come about (a run is searched, fused or imported), alternatives stand
beside each other, ``runs.score|chunks.text``: the first that the graph has counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rag_assets.answers.metrics_stage import metric_names
from rag_assets.answers.tables import ANSWER_METRICS
from rag_assets.engine.stage import Stage
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.stages import STAGES
from rag_assets.schemas import METRICS_SUMMARY, TableSchema

OPEN = "*"
"""Stands for the columns of metrics; as an origin, for the column of the same name, or for all."""

PRIMARY = "primary"
"""As an origin: the column of the primary metric."""

Origin = tuple[str, str]
"""An asset and a column of its table."""


def _each(columns: str, origins: str) -> dict[str, str]:
    return dict.fromkeys(columns.split(), origins)


def _same(table: str, columns: str) -> dict[str, str]:
    return {name: f"{table}.{name}" for name in columns.split()}


_QUERY = "runs.query_id|external_hits.query_id|query_sets.query_id|queries.query_id"
_WEIGHED = "query_metrics.{} query_facts.weight query_facts.split"
_MEANS = "query_metrics.* query_facts.weight query_facts.split"
_DIFFERENCES = "query_metrics.primary query_facts.weight query_facts.split"
_COMPARED = (
    "n n_clusters mean_a mean_b difference low high p_randomisation p_t p_wilcoxon "
    "p_adjusted effect_size won tied lost detectable"
)
_CALIBRATED = (
    "judge calibrated low high human human_low human_high n n_labels n_cannot_tell n_missing "
    "weight reason"
)
_JUDGED = "answers.answer answer_verdicts.correct answer_labels.correct query_facts.cluster"
_OF_SAMPLE = (
    "sampled_passages.rank sampled_labels.grade sampled_labels.hazard sampled_labels.verdicts"
)
_SAMPLED = "value items_low items_high lowest highest n_labels effective_labels"
_PLACES = "document_id start end n_tokens text_digest"
_ASKED = "queries.text answer_contexts.text_digest"

ORIGINS: Mapping[str, Mapping[str, str]] = {
    "documents": {},
    "generated_questions": _same("chunks", "chunk_id document_id start end")
    | _each("query_id", "chunks.chunk_id chunks.text")
    | _each("text answer", "chunks.text chunks.title"),
    "queries": _same("generated_questions", "query_id text")
    | _each(
        "metadata",
        "generated_questions.answer generated_questions.document_id generated_questions.chunk_id",
    ),
    "qrels": _each("document_id", "generated_questions.document_id|documents.document_id")
    | _each("query_id", "queries.query_id")
    | _each("start", "generated_questions.start|documents.text")
    | _each("end", "generated_questions.end|documents.text"),
    "query_facts": _each("query_id", "queries.query_id")
    | _each("answers weight split", "queries.metadata")
    | _each("cluster", "queries.metadata qrels.document_id"),
    "query_filters": _each("filter", "queries.metadata")
    | _each("query_ids", "queries.query_id")
    | _each("document_ids", "documents.document_id documents.metadata"),
    "document_fields": _each("field value n_documents", "documents.metadata"),
    "written_filters": _each("query_set filter", "query_set_answers.text document_fields.value")
    | _each("query_ids", "query_set_answers.query_id")
    | _each("document_ids", "documents.document_id documents.metadata"),
    "recency_factors": _each("document_id", "documents.document_id")
    | _each("date age factor", "documents.metadata"),
    "chunks": _each("document_id", "documents.document_id")
    | _each("chunk_id parent_chunk_id", "documents.document_id documents.text")
    | _each("start end text heading_path parent_start parent_end", "documents.text")
    | _each("title", "documents.title"),
    "index_texts": _each("chunk_id", "chunks.chunk_id")
    | _each("kind number", "chunks.text")
    | _each("text", "chunks.title chunks.heading_path chunks.text documents.text"),
    "query_set_answers": _each("query_id", "queries.query_id") | _each("text", "queries.text"),
    "query_sets": _each("query_id", "query_sets.query_id|queries.query_id")
    | _each("variant text", "query_sets.text|query_set_answers.text|queries.text"),
    "embedding_queries": _each("query_id", "query_sets.query_id")
    | _each("variant", "query_sets.variant")
    | _each("vector", "query_sets.text"),
    "relevant_units": _each("query_id", "relevant_units.query_id|qrels.query_id")
    | _each("evidence_id", "relevant_units.evidence_id|qrels.evidence_id")
    | _each("unit_id", "relevant_units.unit_id|chunks.chunk_id")
    | _each("grade", "relevant_units.grade|qrels.grade"),
    "contexts": _each("chunk_id", "chunks.chunk_id")
    | _each("unit_id", "chunks.parent_chunk_id chunks.chunk_id")
    | _each("document_id", "chunks.document_id")
    | _each("start end", "chunks.start chunks.end")
    | _each("n_tokens text_digest", "chunks.text"),
    "retriever_contexts": _each(
        "context_id", "contexts.unit_id|chunks.chunk_id contexts.chunk_id|chunks.chunk_id"
    )
    | _each("document_id", "contexts.document_id|chunks.document_id")
    | _each("start end", "contexts.start|chunks.start contexts.end|chunks.end")
    | _each("n_tokens", "contexts.n_tokens|chunks.text")
    | _each("text_digest", "contexts.text_digest|chunks.text"),
    "external_rankings": _each("query_id", "queries.query_id")
    | _each("rank score id text document_id start end source", "queries.text"),
    "external_hits": {
        name: f"external_rankings.{name}" for name in ("query_id", "rank", "score", "text")
    }
    | _each(
        "chunk_id unit_id document_id start end located",
        "external_rankings.id external_rankings.text documents.text",
    ),
    "runs": _each("query_id", _QUERY)
    | _each(
        "rank score",
        "runs.rank|external_hits.rank|query_sets.text|queries.query_id "
        "runs.score|external_hits.score|chunks.text recency_factors.factor",
    )
    | _each("unit_id", "runs.unit_id|external_hits.unit_id|chunks.chunk_id")
    | _each("chunk_id", "runs.chunk_id|external_hits.chunk_id|chunks.chunk_id")
    | _each("document_id", "runs.document_id|external_hits.document_id|chunks.document_id"),
    "reranking_texts": _each("digest", "queries.text chunks.text"),
    "list_similarities": _each("query_id", "runs.query_id")
    | _each("similarity input_similarity", "runs.chunk_id reranking_texts.digest"),
    "tuning": _each("weights metric value chosen", "runs.score relevant_units.grade"),
    "query_metrics": _each("query_id", "queries.query_id")
    | _each("n_relevant n_unreachable", "relevant_units.grade relevant_units.unit_id")
    | _each("n_retrieved failed", "runs.rank")
    | _each("n_judged", "runs.unit_id relevant_units.unit_id")
    | _each("ties_at_cut", "runs.score")
    | _each("tokens", "runs.unit_id retriever_contexts.n_tokens")
    | _each(OPEN, "runs.rank runs.unit_id relevant_units.unit_id relevant_units.grade"),
    "metrics_summary": _each("split", "query_facts.split")
    | _each("weight", "query_facts.weight query_metrics.n_relevant")
    | _each("n_queries n_unanswerable", "query_metrics.n_relevant query_facts.split")
    | _each("n_attempted", "query_metrics.query_id query_facts.split")
    | _each("n_answered n_empty", "query_metrics.n_retrieved query_facts.split")
    | _each("n_failed", "query_metrics.failed query_facts.split")
    | _each("n_unreachable", "query_metrics.n_unreachable query_facts.split")
    | _each("n_not_in_corpus", "qrels.document_id documents.document_id query_facts.split")
    | _each("n_unjudged judged", "query_metrics.n_judged query_metrics.n_retrieved")
    | _each("tokens", _WEIGHED.format("tokens"))
    | _each(OPEN, _WEIGHED.format(OPEN)),
    "leaderboard": {
        column.name: f"metrics_summary.{column.name}" for column in METRICS_SUMMARY.columns
    }
    | _each(OPEN, f"metrics_summary.{OPEN}"),
    "intervals": _each("split", "query_facts.split") | _each("n mean low high", _MEANS),
    "comparisons": _each("split", "query_facts.split") | _each(_COMPARED, _DIFFERENCES),
    "answerability": _each("split", "query_facts.split")
    | _each("n_answerable n_unanswerable", "qrels.query_id qrels.grade")
    | _each("auroc threshold coverage rejected", "runs.score qrels.query_id qrels.grade"),
    "overlaps": _each("n_queries", "runs.query_id")
    | _each("overlap rbo", "runs.rank runs.unit_id"),
    "attributions": _each("query_id", "relevant_units.query_id")
    | _each("evidence_id", "relevant_units.evidence_id")
    | _each("lost_at", "runs.rank runs.unit_id relevant_units.unit_id documents.document_id")
    | _each("rank input_ranks", "runs.rank runs.unit_id relevant_units.unit_id")
    | _each("n_relevant_units", "relevant_units.unit_id"),
    "passages": _each("query_id", "runs.query_id")
    | _each("rank", "runs.rank")
    | _each("unit_id", "runs.unit_id retriever_contexts.context_id")
    | {name: f"retriever_contexts.{name}" for name in _PLACES.split()},
    "passage_lists": _each("query_id", "queries.query_id")
    | _each("n_passages", "passages.rank")
    | _each("n_tokens", "passages.n_tokens")
    | _each("digest", "passages.unit_id passages.rank passages.text_digest"),
    "answer_contexts": _each("query_id", "passages.query_id|qrels.query_id|queries.query_id")
    | _each("position rank", "passages.rank|contexts.start")
    | _each("unit_id", "passages.unit_id|contexts.unit_id")
    | {name: f"passages.{name}|contexts.{name}" for name in _PLACES.split()},
    "answers": _each("query_id", "queries.query_id")
    | _each("answer abstained cited spans score error", _ASKED)
    | _each("prompt_tokens completion_tokens finish_reason served_model", _ASKED),
    "answer_metrics": _each("query_id", "queries.query_id")
    | _each("failed", "answers.answer")
    | _each("answerable", "query_facts.answers")
    | _each(OPEN, "answers.answer query_facts.answers"),
    "answer_summary": _each("split", "query_facts.split")
    | _each("questions", "answer_metrics.answerable")
    | _each("n_questions", "answer_metrics.query_id query_facts.split")
    | _each("n_failed", "answer_metrics.failed query_facts.split")
    | _each("n mean low high", "answer_metrics.* query_facts.weight query_facts.split"),
    "answer_comparisons": _each("split", "query_facts.split")
    | _each(_COMPARED, "answer_metrics.* query_facts.weight query_facts.split"),
    "answer_labels": {},
    "calibrated_means": _each("split", "query_facts.split") | _each(_CALIBRATED, _JUDGED),
    "calibrated_differences": _each("split", "query_facts.split") | _each(_CALIBRATED, _JUDGED),
    "sampled_passages": _same("runs", "query_id rank")
    | _each("document_id start end", "runs.unit_id chunks.chunk_id documents.document_id")
    | _each("label", "relevant_units.grade runs.unit_id"),
    "sampled_labels": _each("query_id", "sampled_passages.query_id queries.query_id")
    | _same("sampled_passages", "document_id start end")
    | _each("state grade hazard", "sampled_passages.rank sampled_passages.label"),
    "sampled_estimates": _each(_SAMPLED, _OF_SAMPLE)
    | _each("questions_low questions_high", f"{_OF_SAMPLE} query_facts.cluster")
    | _each("n", "queries.query_id"),
    "answer_waterfall": _each("query_id", "answer_metrics.query_id")
    | _each("outcome", "answer_metrics.failed answer_metrics.answerable qrels.document_id")
    | _each("n_evidence", "qrels.evidence_id")
    | _each("n_in_context", "qrels.evidence_id"),
    "relevance_verdicts": _same("passages", "query_id document_id start end")
    | _each("grade problem reply", "queries.text passages.text_digest"),
    "answer_verdicts": _same("answers", "query_id answer")
    | _each("correct problem reply", "queries.text query_facts.answers answers.answer"),
}
"""Table -> column -> its origins; a column that is absent is made of no other column."""


def metrics_of(schema: TableSchema, experiment: Experiment) -> tuple[str, ...]:
    """Return the columns that an experiment adds to a table: metrics of answers, or of runs."""
    if not schema.open_columns:
        return ()
    return metric_names(experiment) if schema == ANSWER_METRICS else experiment.metrics


class ColumnLineage:
    """What the columns of an experiment's tables are made of; its graph is walked once."""

    def __init__(self, experiment: Experiment) -> None:
        """Walk nothing yet."""
        self.experiment = experiment
        self._parents: dict[str, set[str]] = {}

    def of(self, stage: Stage) -> dict[str, list[Origin]]:
        """Return, for each column of a stage's table, the assets and columns it is made of."""
        if stage.schema is None:
            return {}
        declared = dict(ORIGINS[stage.schema.name])
        every_metric = declared.pop(OPEN, None)
        if every_metric is not None:
            declared |= dict.fromkeys(metrics_of(stage.schema, self.experiment), every_metric)
        levels = list(self._levels(stage))
        origins = {
            column: [
                one
                for alternatives in texts.split()
                for one in self._first(alternatives, column, levels)
            ]
            for column, texts in declared.items()
        }
        return {column: list(dict.fromkeys(pairs)) for column, pairs in origins.items() if pairs}

    def _first(self, alternatives: str, column: str, levels: list[list[Stage]]) -> list[Origin]:
        """Return the columns of the first alternative that the graph has above."""
        for text in alternatives.split("|"):
            table, name = text.split(".")
            for level in levels:
                holders = [s for s in level if s.schema is not None and s.schema.name == table]
                if holders:
                    names = self._names(name, column, table)
                    return [(holder.name, one) for holder in holders for one in names]
        return []

    def _names(self, name: str, column: str, table: str) -> tuple[str, ...]:
        metrics = self.experiment.metrics
        if table == ANSWER_METRICS.name:
            metrics = metric_names(self.experiment)
        if name == PRIMARY:
            return (self.experiment.primary.column,)
        if name == OPEN:
            return (column,) if column in metrics else metrics
        return (name,)

    def _levels(self, stage: Stage) -> Iterator[list[Stage]]:
        """Yield the stages that one reads, then those that these read, each once."""
        seen = {stage.name}
        names = self._read_by(stage) - seen
        while names:
            level = [STAGES[name] for name in STAGES if name in names]
            yield level
            seen |= names
            names = {parent for one in level for parent in self._read_by(one)} - seen

    def _read_by(self, stage: Stage) -> set[str]:
        if stage.name not in self._parents:
            keys = stage.keys(self.experiment)
            inputs = (item for key in keys for item in stage.inputs(self.experiment, key))
            self._parents[stage.name] = {item.key.asset for item in inputs}
        return self._parents[stage.name]
