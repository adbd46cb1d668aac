"""Every table of the pipeline, declared once: column, type, unit and meaning.

A table that enters or leaves a stage passes :meth:`TableSchema.check`. The same declarations feed
the column schema shown in the Dagster UI and the documentation of the warehouse.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from rag_assets.errors import SchemaMismatch

SCHEMA_VERSION = 1
"""Version of the shapes below, written into every file of the store."""


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type, what it means, and whether it may be null."""

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False


@dataclass(frozen=True)
class TableSchema:
    """One table: what a row is, which columns identify it, and all columns.

    ``open_columns`` allows further float64 columns, one for each metric of the experiment.
    """

    name: str
    row: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    open_columns: bool = False

    def arrow(self) -> pa.Schema:
        """Return the Arrow schema of the declared columns."""
        return pa.schema([pa.field(c.name, c.type, c.nullable) for c in self.columns])

    def empty(self) -> pa.Table:
        """Return a table of this schema without rows."""
        return self.arrow().empty_table()

    def from_rows(self, rows: list[dict[str, object]]) -> pa.Table:
        """Build a checked table from one mapping a row."""
        return self.check(pa.Table.from_pylist(rows, schema=self.arrow()))

    def check(self, table: pa.Table) -> pa.Table:
        """Return ``table`` with its columns in declared order.

        Raises:
            SchemaMismatch: a column is missing, unexpected, of another type, or holds a null that
                its declaration forbids.
        """
        names = [c.name for c in self.columns]
        missing = [n for n in names if n not in table.column_names]
        extra = [n for n in table.column_names if n not in names]
        if missing or (extra and not self.open_columns):
            raise SchemaMismatch(
                f"table {self.name}: columns {table.column_names}; missing {missing}, "
                f"unexpected {extra if not self.open_columns else []}"
            )
        for column in self.columns:
            self._check_column(column, table.column(column.name))
        return table.select(names + extra)

    def _check_column(self, column: Column, values: pa.ChunkedArray) -> None:
        if values.type != column.type:
            raise SchemaMismatch(
                f"table {self.name}: column {column.name} is {values.type}, must be {column.type}"
            )
        if values.null_count and not column.nullable:
            raise SchemaMismatch(
                f"table {self.name}: column {column.name} has {values.null_count} nulls"
            )


TEXT = pa.string()
INT = pa.int32()
COUNT = pa.int64()
FLOAT = pa.float64()
BOOL = pa.bool_()
TAGS = pa.list_(pa.string())

DOCUMENTS = TableSchema(
    "documents",
    "one source document",
    ("document_id",),
    (
        Column("document_id", TEXT, "id, unique in the corpus"),
        Column("title", TEXT, "title, empty when there is none; indexed with the text"),
        Column("text", TEXT, "body; all spans count characters of this column"),
        Column("metadata", TEXT, "JSON object with the other fields of the source"),
    ),
)

CHUNKS = TableSchema(
    "chunks",
    "one chunk of one chunking",
    ("chunk_id",),
    (
        Column("chunk_id", TEXT, "document_id, or document_id#start-end when a document is cut"),
        Column("document_id", TEXT, "the document that was cut"),
        Column("start", COUNT, "first character of the chunk in the document's text"),
        Column("end", COUNT, "character after the last one"),
        Column("title", TEXT, "the document's title, indexed before the text"),
        Column("text", TEXT, "exactly text[start:end] of the document"),
        Column(
            "heading_path",
            TEXT,
            "headings above the chunk, outermost first, as 'A > B'; empty: none, or not looked "
            "for; indexed between title and text where the chunking says so",
        ),
        Column(
            "parent_chunk_id",
            TEXT,
            "the unit that is returned and judged in place of the chunk; null: the chunk itself",
            True,
        ),
        Column("parent_start", COUNT, "first character of that unit, null without one", True),
        Column("parent_end", COUNT, "character after its last one, null without one", True),
    ),
)

QUERIES = TableSchema(
    "queries",
    "one query",
    ("query_id",),
    (
        Column("query_id", TEXT, "id, unique in the query set"),
        Column("text", TEXT, "what is asked"),
        Column("tags", TAGS, "labels by which results are sliced"),
        Column("metadata", TEXT, "JSON object with the other fields of the source"),
    ),
)

QUERY_VARIANTS = TableSchema(
    "query_sets",
    "one variant of one query in one query set; variant 0 is the original",
    ("query_id", "variant"),
    (
        Column("query_id", TEXT, "the query"),
        Column("variant", INT, "0 for the original text"),
        Column("text", TEXT, "what is searched for"),
    ),
)

QUERY_FACTS = TableSchema(
    "query_facts",
    "one query: what of it counts besides its text",
    ("query_id",),
    (
        Column("query_id", TEXT, "the query"),
        Column("answers", TAGS, "answers that are right, word for word; empty: none is known"),
        Column("weight", FLOAT, "how much the query counts in a mean; 1 unless a field says so"),
        Column("split", TEXT, "dev or test; all where the queries are not split"),
        Column("cluster", TEXT, "queries that share it were made from the same source"),
        Column("unanswerable", BOOL, "a tag, a mark or is_impossible says that it has no answer"),
    ),
)

QRELS = TableSchema(
    "qrels",
    "one judgment: a document, or a span of it, that is evidence for a query",
    ("query_id", "evidence_id", "document_id", "start", "end"),
    (
        Column("query_id", TEXT, "the query"),
        Column("evidence_id", TEXT, "rows of a query that share it are alternatives (OR)"),
        Column("document_id", TEXT, "the document that holds the evidence"),
        Column("start", COUNT, "first character of the evidence, null: the whole document", True),
        Column("end", COUNT, "character after the last one, null: the whole document", True),
        Column("grade", INT, "graded relevance; > 0 is relevant"),
    ),
)

RELEVANT_UNITS = TableSchema(
    "relevant_units",
    "one unit of a retriever that satisfies one evidence (unit_id null: none does at this grade)",
    ("query_id", "evidence_id", "unit_id"),
    (
        Column("query_id", TEXT, "the query"),
        Column("evidence_id", TEXT, "the evidence that the unit satisfies"),
        Column("unit_id", TEXT, "the unit, null when none has the evidence's best grade", True),
        Column("grade", INT, "highest grade of the judgments that the unit satisfies"),
    ),
)

RUNS = TableSchema(
    "runs",
    "one retrieved unit of one query",
    ("query_id", "rank"),
    (
        Column("query_id", TEXT, "the query"),
        Column("rank", INT, "1 is the best"),
        Column("score", FLOAT, "the retriever's score; comparable within a query only"),
        Column("unit_id", TEXT, "the judged unit: the id of a document, a chunk or its parent"),
        Column("chunk_id", TEXT, "the best chunk of the unit"),
        Column("document_id", TEXT, "the document of that chunk"),
    ),
)

EXTERNAL_RANKINGS = TableSchema(
    "external_rankings",
    "one hit of one query as a search returned it: an id, a span, or a text",
    ("query_id", "rank"),
    (
        Column("query_id", TEXT, "the query"),
        Column("rank", INT, "1 is the best"),
        Column("score", FLOAT, "as the search returned it; null: none", True),
        Column(
            "id", TEXT, "of a chunk, of its parent or of a document; null: a span or text", True
        ),
        Column("text", TEXT, "the returned text; null: an id or span", True),
        Column("document_id", TEXT, "the document of the span or text; null: not said", True),
        Column("start", COUNT, "first character of the span, or of the text; null: not said", True),
        Column("end", COUNT, "character after the last one; null: not said", True),
        Column("source", TEXT, "what the search says that the text is from; null: nothing", True),
    ),
)

EXTERNAL_HITS = TableSchema(
    "external_hits",
    "one hit of one query, located in the documents",
    ("query_id", "rank"),
    (
        Column("query_id", TEXT, "the query"),
        Column("rank", INT, "1 is the best"),
        Column("score", FLOAT, "as the search returned it; null: none", True),
        Column("chunk_id", TEXT, "the chunk: of a chunking, document_id, or document_id#start-end"),
        Column("unit_id", TEXT, "the chunk's parent, else the chunk"),
        Column("document_id", TEXT, "its document; of a text that is from none, its chunk_id"),
        Column("start", COUNT, "first character of the chunk; 0 where it was not located"),
        Column("end", COUNT, "character after the last one; 0 where it was not located"),
        Column("located", TEXT, "id, span, exact, normalised, ambiguous or missing"),
        Column("text", TEXT, "the returned text where it was not located; else null", True),
    ),
)

RERANKING_TEXTS = TableSchema(
    "reranking_texts",
    "one table of texts that a reranker reads",
    ("texts",),
    (
        Column("texts", TEXT, "what it is to the reranker: queries, or chunks of an input"),
        Column("digest", TEXT, "digest of the texts"),
    ),
)

QUERY_VECTORS = TableSchema(
    "embedding_queries",
    "the vector of one variant of one query",
    ("query_id", "variant"),
    (
        Column("query_id", TEXT, "the query"),
        Column("variant", INT, "0 for the original text"),
        Column("vector", pa.list_(pa.float32()), "embedding, as it is searched for"),
    ),
)

_CONTEXT = (
    Column("document_id", TEXT, "the document that the returned text is part of"),
    Column("start", COUNT, "first character of the returned text in the document's text"),
    Column("end", COUNT, "character after the last one"),
    Column("n_tokens", COUNT, "tokens of the returned text, special ones not counted"),
    Column("text_digest", TEXT, "hash of the returned text"),
)

CONTEXTS = TableSchema(
    "contexts",
    "what is returned for one chunk of one chunking, and what it costs",
    ("chunk_id",),
    (
        Column("chunk_id", TEXT, "the chunk that is searched"),
        Column("unit_id", TEXT, "id of what is returned: the chunk's parent, else the chunk"),
        *_CONTEXT,
    ),
)

RETRIEVER_CONTEXTS = TableSchema(
    "retriever_contexts",
    "one text that a retriever can return",
    ("context_id",),
    (
        Column(
            "context_id",
            TEXT,
            "the unit (`unit_id` of a run); where documents are judged, their chunk (`chunk_id`)",
        ),
        *_CONTEXT,
    ),
)

_UNIT = (
    Column("unit_id", TEXT, "the unit: the id of a chunk, of its parent or of a document"),
    *_CONTEXT,
)

PASSAGES = TableSchema(
    "passages",
    "one unit that a retriever hands over for one query, as text",
    ("query_id", "rank"),
    (Column("query_id", TEXT, "the query"), Column("rank", INT, "1 is the best"), *_UNIT),
)

PASSAGE_LISTS = TableSchema(
    "passage_lists",
    "what a retriever hands over for one query at one cut-off, in all",
    ("query_id", "top_k"),
    (
        Column("query_id", TEXT, "the query"),
        Column("top_k", INT, "cut-off"),
        Column("n_passages", COUNT, "units, at most top_k"),
        Column("n_tokens", COUNT, "tokens of their texts"),
        Column("digest", TEXT, "hash of the units, their places, their texts and their order"),
    ),
)

ANSWER_CONTEXTS = TableSchema(
    "answer_contexts",
    "one unit of the context that one question is answered from",
    ("query_id", "position"),
    (
        Column("query_id", TEXT, "the question"),
        Column("position", INT, "its number in the context, from 1"),
        Column("rank", INT, "the rank that a retriever gave it; null: none did", True),
        *_UNIT,
    ),
)

ANSWERS = TableSchema(
    "answers",
    "the answer of one answerer to one question",
    ("query_id",),
    (
        Column("query_id", TEXT, "the question"),
        Column("answer", TEXT, "empty: refused; null: failed", True),
        Column("abstained", BOOL, "what the generator says; null: the text tells", True),
        Column(
            "cited",
            pa.list_(INT),
            "numbers of units of the context, from 1; null: the generator cites nothing",
            True,
        ),
        Column(
            "spans",
            pa.list_(pa.struct([("unit", INT), ("start", INT), ("end", INT)])),
            "characters [start, end) of the text of units of the context; null: it copies nothing",
            True,
        ),
        Column("score", FLOAT, "higher: rather no answer; null: not known", True),
        Column("error", TEXT, "why there is no answer; null: there is one", True),
        Column("prompt_tokens", COUNT, "as the server counts, null when it does not", True),
        Column("completion_tokens", COUNT, "likewise", True),
        Column("finish_reason", TEXT, "stop, length, refusal, ...; null: no model wrote it", True),
        Column("served_model", TEXT, "the name that the server gave its model; null: none", True),
    ),
)

_VERDICT = (
    Column("problem", TEXT, "why it is missing; null: it is not", True),
    Column(
        "reply",
        TEXT,
        "the raw reply it was read in: its key among the replies, or a line of a file; null: none",
        True,
    ),
)

RELEVANCE_VERDICTS = TableSchema(
    "relevance_verdicts",
    "what a judge says of one text that any retriever hands over for one query",
    ("query_id", "document_id", "start", "end"),
    (
        Column("query_id", TEXT, "the query"),
        Column("document_id", TEXT, "the document that the text is part of"),
        Column("start", COUNT, "first character of the text in the document's text"),
        Column("end", COUNT, "character after the last one"),
        Column("grade", pa.int8(), "0 to 3; null: missing, which is not 0", True),
        *_VERDICT,
    ),
)

ANSWER_VERDICTS = TableSchema(
    "answer_verdicts",
    "what a judge says of one answer that any answerer gave to one question with right answers",
    ("query_id", "answer"),
    (
        Column("query_id", TEXT, "the question"),
        Column("answer", TEXT, "the answer"),
        Column("correct", pa.int8(), "1 or 0; null: missing, which is not 0", True),
        *_VERDICT,
    ),
)

QUERY_METRICS = TableSchema(
    "query_metrics",
    "one query of one retriever at one top_k; a float64 column for each metric",
    ("query_id",),
    (
        Column("query_id", TEXT, "the query"),
        Column("n_relevant", INT, "R: evidences with a positive grade"),
        Column("n_unreachable", INT, "positive evidences that no unit of the retriever satisfies"),
        Column("n_retrieved", INT, "units retrieved, at most top_k"),
        Column("n_judged", INT, "retrieved units judged for this query, with a grade of 0 or more"),
        Column(
            "ties_at_cut",
            INT,
            "units in the 10 ranks below the cut whose score equals that of the top_k-th; null: an "
            "imported run ends at the cut",
            True,
        ),
        Column("failed", BOOL, "the retriever failed on the query: its metrics are null"),
        Column("tokens", COUNT, "tokens of the texts of the retrieved units; null: unknown", True),
    ),
    open_columns=True,
)

METRICS_SUMMARY = TableSchema(
    "metrics_summary",
    "one split and top_k of one retriever; a float64 column for each metric, its weighted mean",
    ("split", "top_k"),
    (
        Column("split", TEXT, "dev or test; all where the queries are not split"),
        Column("top_k", INT, "cut-off"),
        Column("n_queries", COUNT, "queries that are averaged: answerable, and did not fail"),
        Column("weight", FLOAT, "sum of their weights: the denominator of every mean"),
        Column("n_attempted", COUNT, "all queries of the split: answered, empty and failed"),
        Column("n_answered", COUNT, "queries for which anything was retrieved"),
        Column(
            "n_empty", COUNT, "queries for which nothing was retrieved; answerable ones count 0"
        ),
        Column("n_failed", COUNT, "queries on which the retriever failed; not averaged"),
        Column(
            "n_unanswerable",
            COUNT,
            "queries of which the data says that no document answers them; not averaged",
        ),
        Column("n_unlabelled", COUNT, "queries of which no label says anything; not averaged"),
        Column("n_unreachable", COUNT, "positive evidences that no unit satisfies; stay in R"),
        Column(
            "n_not_in_corpus",
            COUNT,
            "those of them none of whose documents is in the corpus; kept where it is asked for",
        ),
        Column("n_unjudged", COUNT, "retrieved units without a judgment; count as not relevant"),
        Column("judged", FLOAT, "share of retrieved units that have a judgment", True),
        Column(
            "n_tied",
            COUNT,
            "averaged queries in which tied units stand on both sides of the cut; null: not known",
            True,
        ),
        Column("tokens", FLOAT, "weighted mean of the tokens of the retrieved texts", True),
    ),
    open_columns=True,
)

LEADERBOARD = TableSchema(
    "leaderboard",
    "one cell, a retriever at a top_k, on one split; a float64 column for each metric, its mean",
    ("retriever", "split", "top_k"),
    (
        Column(
            "position",
            INT,
            "place within the split by the primary metric, equal values share a place; null: not "
            "ranked on dev, because the retriever was tuned on it",
            True,
        ),
        Column("retriever", TEXT, "name from experiment.yaml"),
        *METRICS_SUMMARY.columns,
    ),
    open_columns=True,
)

ANSWERABILITY = TableSchema(
    "answerability",
    "a retriever and a split of the queries: whether its best score tells the unanswerable ones",
    ("retriever", "split"),
    (
        Column("retriever", TEXT, "name from experiment.yaml"),
        Column("split", TEXT, "the queries that the numbers are over: all, dev or test"),
        Column("n_answerable", COUNT, "queries with a relevant judgment"),
        Column("n_unanswerable", COUNT, "queries of which the data says that they have none"),
        Column(
            "auroc",
            FLOAT,
            "chance that an answerable query's best score is above an unanswerable one's",
            True,
        ),
        Column("threshold", FLOAT, "least best score of a query that is answered", True),
        Column("threshold_from", TEXT, "the split whose balanced accuracy it maximises"),
        Column("coverage", FLOAT, "share of the answerable queries that are answered", True),
        Column("rejected", FLOAT, "share of the unanswerable queries that are not", True),
    ),
)

LIST_SIMILARITIES = TableSchema(
    "list_similarities",
    "one query: how alike the results of a reranker are, by the vectors of one for diversity",
    ("query_id",),
    (
        Column("query_id", TEXT, "the query"),
        Column("similarity", FLOAT, "mean cosine of all pairs of results; null: below two", True),
        Column("input_similarity", FLOAT, "the same of what is reranked, cut at top_k", True),
    ),
)

OVERLAPS = TableSchema(
    "overlaps",
    "two retrievers at one top_k: how alike their runs are",
    ("retriever_a", "retriever_b"),
    (
        Column("retriever_a", TEXT, "name from experiment.yaml; before retriever_b in it"),
        Column("retriever_b", TEXT, "name from experiment.yaml"),
        Column(
            "compared",
            TEXT,
            "unit: what is judged; document: each document's best chunk, because the two search "
            "different chunkings",
        ),
        Column("n_queries", COUNT, "queries for which at least one of the two retrieved anything"),
        Column("overlap", FLOAT, "mean share of common units, of the longer list", True),
        Column("rbo", FLOAT, "mean extrapolated rank-biased overlap, p = 0.9", True),
    ),
)

INTERVALS = TableSchema(
    "intervals",
    "one mean of one retriever, and between which bounds it would lie on other such queries",
    ("split", "top_k", "metric"),
    (
        Column("split", TEXT, "all, or dev or test"),
        Column("top_k", INT, "cut-off"),
        Column("metric", TEXT, "the metric's column in query_metrics"),
        Column("n", COUNT, "queries that have a value: the denominator of the mean"),
        Column("mean", FLOAT, "weighted mean; null without such a query", True),
        Column("low", FLOAT, "lower bound; null for fewer than two independent units", True),
        Column("high", FLOAT, "upper bound, null as low is", True),
        Column("confidence", FLOAT, "of the interval, such as 0.95"),
        Column("method", TEXT, "how it was computed, and over which units"),
    ),
)

COMPARISONS = TableSchema(
    "comparisons",
    "two retrievers on the same queries, by the primary metric at its cut-off",
    ("split", "retriever_a", "retriever_b"),
    (
        Column("retriever_a", TEXT, "name from experiment.yaml; before retriever_b in it"),
        Column("retriever_b", TEXT, "name from experiment.yaml"),
        Column("split", TEXT, "all, or dev or test"),
        Column("metric", TEXT, "the metric's column in query_metrics"),
        Column("top_k", INT, "cut-off"),
        Column("n", COUNT, "queries on which both have a value"),
        Column("n_clusters", COUNT, "independent units among them: n, or clusters of queries"),
        Column("mean_a", FLOAT, "weighted mean of a over these queries", True),
        Column("mean_b", FLOAT, "weighted mean of b over these queries", True),
        Column("difference", FLOAT, "mean_b - mean_a, averaged query by query", True),
        Column("low", FLOAT, "lower bound of the difference; null: under two units", True),
        Column("high", FLOAT, "upper bound of the difference, null as low is", True),
        Column(
            "p_randomisation",
            FLOAT,
            "two-sided paired randomisation test, with what shared documents add to it",
            True,
        ),
        Column("p_t", FLOAT, "two-sided paired t-test; null: no spread to compare with", True),
        Column("p_wilcoxon", FLOAT, "two-sided signed-rank test, zeros as Pratt", True),
        Column("p_adjusted", FLOAT, "p_randomisation after Holm over all pairs of the split", True),
        Column("effect_size", FLOAT, "Cohen's d_z of the queries' differences", True),
        Column("won", COUNT, "queries on which b is above a"),
        Column("tied", COUNT, "queries on which they are equal"),
        Column("lost", COUNT, "queries on which b is below a"),
        Column(
            "detectable",
            FLOAT,
            "smallest difference that so many units show at level 0.05 with power 0.8",
            True,
        ),
    ),
)

ANSWER_SUMMARY = TableSchema(
    "answer_summary",
    "one metric of one answerer at one cut-off, over a group of the questions of one split",
    ("answerer", "top_k", "split", "questions", "metric"),
    (
        Column("answerer", TEXT, "name from experiment.yaml"),
        Column("top_k", INT, "cut-off of its retriever; null: it has none", True),
        Column("split", TEXT, "all, or dev or test"),
        Column("questions", TEXT, "all of the split, or the answerable or unanswerable ones"),
        Column("metric", TEXT, "the metric's column in answer_metrics"),
        Column("n_questions", COUNT, "questions of the group"),
        Column("n_failed", COUNT, "those without an answer: 0 in every metric that is defined"),
        Column("n", COUNT, "questions that have a value: what the mean is over"),
        Column("mean", FLOAT, "weighted mean; null without such a question", True),
        Column("low", FLOAT, "lower bound; null for fewer than two independent units", True),
        Column("high", FLOAT, "upper bound, null as low is", True),
        Column("confidence", FLOAT, "of the interval, such as 0.95"),
    ),
)

ANSWER_COMPARISONS = TableSchema(
    "answer_comparisons",
    "two answerers, each at one cut-off, on the same questions, by one metric",
    ("split", "metric", "answerer_a", "answerer_b"),
    (
        Column("answerer_a", TEXT, "name@k, or name@-; before answerer_b in the experiment"),
        Column("answerer_b", TEXT, "name@k, or name@-"),
        *(
            column
            for column in COMPARISONS.columns
            if column.name not in {"retriever_a", "retriever_b", "top_k"}
        ),
    ),
)

ANSWER_LABELS = TableSchema(
    "answer_labels",
    "what people say of one answer to one question",
    ("query_id", "answer"),
    (
        Column("query_id", TEXT, "the question"),
        Column("answer", TEXT, "the answer, as it was written"),
        Column("correct", BOOL, "whether it is right; null: it cannot be told", True),
        Column(
            "probability",
            FLOAT,
            "chance with which the question was drawn; null: it was chosen by hand",
            True,
        ),
        Column("by", TEXT, "who says so; null: not said", True),
        Column("at", TEXT, "when, as it was written; null: not said", True),
    ),
)

_ESTIMATE = (
    Column("low", FLOAT, "lower bound; null: no interval", True),
    Column("high", FLOAT, "upper bound, null as low is", True),
    Column("human", FLOAT, "what the labels say without any verdict", True),
    Column("human_low", FLOAT, "lower bound of that", True),
    Column("human_high", FLOAT, "upper bound of that", True),
    Column("confidence", FLOAT, "of the intervals, such as 0.95"),
    Column("n", COUNT, "questions that the mean is over"),
    Column("n_labels", COUNT, "questions that people labelled; of a sample of passages, passages"),
    Column("n_cannot_tell", COUNT, "those on which people could not tell; left out"),
    Column("n_missing", COUNT, "those without a usable verdict"),
    Column(
        "weight",
        FLOAT,
        "of the verdicts in the estimate; 0: it is of labels alone; null: fitted a passage",
        True,
    ),
    Column("method", TEXT, "how it was estimated"),
    Column("reason", TEXT, "why there is no estimate, or no interval; null: there is", True),
)

CALIBRATED_MEANS = TableSchema(
    "calibrated_means",
    "one mean of a judge's verdicts, calibrated with labels of people",
    ("name", "split", "metric"),
    (
        Column("name", TEXT, "an answerer, name@k or name@-; or a retriever"),
        Column("split", TEXT, "all, or dev or test"),
        Column("metric", TEXT, "judged_correct; of retrievers with its cut-off, as precision@10"),
        Column("judge", FLOAT, "mean of the verdicts, as they are", True),
        Column("calibrated", FLOAT, "the mean that people would find; null: no estimate", True),
        *_ESTIMATE,
    ),
)

CALIBRATED_DIFFERENCES = TableSchema(
    "calibrated_differences",
    "two answerers or two retrievers on the same questions, by verdicts calibrated with labels",
    ("split", "metric", "name_a", "name_b"),
    (
        Column("name_a", TEXT, "an answerer at its cut-off, or a retriever; before name_b"),
        Column("name_b", TEXT, "likewise"),
        Column("split", TEXT, "all, or dev or test"),
        Column("metric", TEXT, "judged_correct; of retrievers with its cut-off, as precision@10"),
        Column("judge", FLOAT, "mean difference of the verdicts, b - a", True),
        Column("calibrated", FLOAT, "mean difference that people would find, b - a", True),
        *_ESTIMATE,
    ),
)

SAMPLED_PASSAGES = TableSchema(
    "sampled_passages",
    "one passage in the first ranks of a retriever, as deep as labels are sampled",
    ("retriever", "query_id", "rank"),
    (
        Column("retriever", TEXT, "name from experiment.yaml"),
        Column("query_id", TEXT, "the question"),
        Column("rank", INT, "from 1, best first"),
        Column("document_id", TEXT, "where the passage is"),
        Column("start", COUNT, "first character of the document"),
        Column("end", COUNT, "character after the last"),
        Column("label", INT, "its grade by the labels of the dataset; null: not judged", True),
    ),
)

SAMPLED_LABELS = TableSchema(
    "sampled_labels",
    "one passage of the pool (overlapping ones are one) and what a sample of labels says of it",
    ("query_id", "document_id", "start", "end"),
    (
        Column("query_id", TEXT, "the question"),
        Column("document_id", TEXT, "where the passage is"),
        Column("start", COUNT, "first character of the document"),
        Column("end", COUNT, "character after the last"),
        Column(
            "state",
            TEXT,
            "judged; skipped or cannot_tell: asked, without a grade; certain: labelled whatever "
            "was drawn; open: not asked yet",
        ),
        Column("grade", INT, "0 and more; null: none was given", True),
        Column("hazard", FLOAT, "it was asked by now with probability 1 - exp(-hazard)"),
        Column(
            "verdicts",
            TEXT,
            "JSON object, ``judge:<name>`` or ``vote:<system>`` -> grade: no labels, but control "
            "variates of the estimates; null: there is none",
            True,
        ),
    ),
)

SAMPLED_ESTIMATES = TableSchema(
    "sampled_estimates",
    "one metric of a retriever, estimated from a sample of labels of its passages",
    ("metric", "retriever"),
    (
        Column("metric", TEXT, "with its cut-off: dcg@k, precision@k or pool_recall@k"),
        Column("retriever", TEXT, "name from experiment.yaml"),
        Column("value", FLOAT, "the estimate over all questions, each counted once"),
        Column("items_low", FLOAT, "lower bound for these questions and this pool", True),
        Column("items_high", FLOAT, "upper bound, null as items_low is: nothing is known", True),
        Column("questions_low", FLOAT, "lower bound for questions like these", True),
        Column("questions_high", FLOAT, "upper bound, null as questions_low is", True),
        Column("lowest", FLOAT, "the value if all that people cannot tell earn nothing"),
        Column("highest", FLOAT, "the value if they earn the most"),
        Column("n_labels", COUNT, "labels that the value reads"),
        Column("effective_labels", FLOAT, "labels of one probability that would tell as much"),
        Column("n_no_chance", COUNT, "passages that had no chance to be asked yet"),
        Column("n", COUNT, "questions"),
        Column("confidence", FLOAT, "of the intervals, such as 0.95"),
    ),
)

ATTRIBUTIONS = TableSchema(
    "attributions",
    "one positive evidence of one query: where a retriever found or lost it",
    ("query_id", "evidence_id"),
    (
        Column("query_id", TEXT, "the query"),
        Column("evidence_id", TEXT, "the evidence"),
        Column(
            "lost_at",
            TEXT,
            "found, cut_at_k, lost_in_reranking, lost_in_fusion, below_candidates, no_chunk or "
            "not_in_corpus",
        ),
        Column("rank", INT, "first rank in the stored ranking; null: not in it", True),
        Column("n_relevant_units", INT, "units of the retriever that satisfy the evidence"),
        Column("inputs", TAGS, "retrievers that this one reads; empty for a base retriever"),
        Column(
            "input_ranks",
            pa.list_(INT),
            "first rank in each of them, in that order; null: not among its candidates",
        ),
    ),
)

TUNING = TableSchema(
    "tuning",
    "one weight vector that was tried for a fusion, and its value on the dev split",
    ("number",),
    (
        Column("number", INT, "the order in which it was tried, from 0; 0 is equal weights"),
        Column("weights", pa.list_(FLOAT), "one weight an input, in their order; they sum to 1"),
        Column("metric", TEXT, "what the value is of, such as ndcg@10"),
        Column("value", FLOAT, "weighted mean over the answerable dev queries"),
        Column("chosen", BOOL, "whether the fusion uses it; true in one row"),
    ),
)

HISTORY_RETRIEVERS = TableSchema(
    "history_retrievers",
    "one retriever of one evaluation: what computed it",
    ("retriever",),
    (
        Column("retriever", TEXT, "name from experiment.yaml"),
        Column("type", TEXT, "its type", True),
        Column("configuration", TEXT, "its options with defaults, as JSON"),
        Column("model", TEXT, "the model that it names; null: none", True),
        Column("model_revision", TEXT, "SHA-256 of the model's weights; null: not local", True),
        Column("versions", TEXT, "types, engines and packages that computed it, as JSON"),
    ),
)

HISTORY_METRICS = TableSchema(
    "history",
    "one metric of one cell on one split of one evaluation",
    ("retriever", "split", "top_k", "metric"),
    (
        Column("retriever", TEXT, "name from experiment.yaml"),
        Column("split", TEXT, "dev or test; all where the queries are not split"),
        Column("top_k", INT, "cut-off"),
        Column(
            "metric",
            TEXT,
            "the metric's column in query_metrics; cost_time: ms of a query, of split all",
        ),
        Column("value", FLOAT, "its weighted mean"),
        Column("n_queries", COUNT, "queries that are averaged"),
    ),
)

HISTORY_ANSWERS = TableSchema(
    "history_answers",
    "one metric of one answerer on one split of one evaluation",
    ("answerer", "split", "metric"),
    (
        Column("answerer", TEXT, "name@k, or name@- of one without a cut-off"),
        Column("split", TEXT, "dev or test; all where the queries are not split"),
        Column("metric", TEXT, "the metric's column in answer_metrics"),
        Column("value", FLOAT, "its weighted mean"),
        Column("n_questions", COUNT, "questions that have a value"),
        Column("n_failed", COUNT, "questions without an answer: 0 in every metric"),
    ),
)

HISTORY_JUDGED = TableSchema(
    "history_judged",
    "one calibrated mean of one judge in one evaluation",
    ("judge", "name", "split", "metric"),
    (
        Column("judge", TEXT, "name from experiment.yaml; empty: a sample of labels, no judge"),
        Column("fingerprint", TEXT, "of what the judge is: model, prompt, options, files"),
        Column("name", TEXT, "an answerer at its cut-off, or a retriever"),
        Column("split", TEXT, "dev or test; all where the queries are not split"),
        Column("metric", TEXT, "judged_correct; of retrievers with its cut-off"),
        Column("value", FLOAT, "the calibrated mean; null: there is none", True),
        Column("low", FLOAT, "lower bound; null: no interval", True),
        Column("high", FLOAT, "upper bound, null as low is", True),
        Column("n", COUNT, "questions"),
        Column("n_labels", COUNT, "questions that people labelled; of a sample, passages"),
    ),
)

_TIME = pa.timestamp("ms", "UTC")

HISTORY = TableSchema(
    "evaluations",
    "one evaluation, also one in which nothing changed",
    ("experiment", "evaluation_id"),
    (
        Column("experiment", TEXT, "name of the experiment"),
        Column("evaluation_id", TEXT, "sorts by time"),
        Column("started", _TIME, "when it began"),
        Column("finished", _TIME, "when its snapshot was written"),
        Column("trigger", TEXT, "what began it: the command line, Python"),
        Column("user", TEXT, "account that ran it; null: unknown", True),
        Column("dagster_runs", TAGS, "ids of the Dagster runs that it started"),
        Column("complete", BOOL, "every cell was up to date at the end, and no query failed"),
        Column("computed", COUNT, "partitions that were computed; the others were reused"),
        Column("n_artifacts", COUNT, "partitions that were up to date at the end"),
        Column("primary_metric", TEXT, "the metric that ranks the leaderboard"),
        Column("baseline", TEXT, "the retriever that others are compared with"),
        Column("content_digest", TEXT, "hash of all that the snapshot names"),
        Column("experiment_digest", TEXT, "hash of the configuration; null: unknown", True),
        Column("corpus_digest", TEXT, "digest of the documents", True),
        Column("chunks_digest", TEXT, "digest of the chunks of all chunkings", True),
        Column("queries_digest", TEXT, "digest of the queries", True),
        Column("query_sets_digest", TEXT, "digest of the variants of all query sets", True),
        Column("qrels_digest", TEXT, "digest of the labels; null: there are none", True),
        Column("git_commit", TEXT, "of the repository of the experiment; null: none", True),
        Column("git_dirty", BOOL, "whether the experiment's files differ from it", True),
        Column("configuration", TEXT, "the experiment with defaults filled in, as JSON"),
        Column("code_versions", TEXT, "stage -> code version, as JSON"),
        Column("packages", TEXT, "package -> version, as JSON"),
        Column(
            "retrievers",
            pa.list_(pa.struct(list(HISTORY_RETRIEVERS.arrow()))),
            "what computed each retriever",
        ),
        Column(
            "metrics",
            pa.list_(pa.struct(list(HISTORY_METRICS.arrow()))),
            "every metric of every cell",
        ),
        Column(
            "answers",
            pa.list_(pa.struct(list(HISTORY_ANSWERS.arrow()))),
            "every metric of every answerer; null: of an older version",
            True,
        ),
        Column(
            "judged",
            pa.list_(pa.struct(list(HISTORY_JUDGED.arrow()))),
            "every calibrated mean of every judge; null: of an older version",
            True,
        ),
        Column("schema_version", INT, "version of these columns"),
    ),
)
