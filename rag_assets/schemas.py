"""Every table of the pipeline, declared once: column, type, unit and meaning.

A table that enters or leaves a stage passes :meth:`TableSchema.check`. The same declarations feed
the column schema shown in the Dagster UI and the documentation of the warehouse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rag_assets.errors import SchemaMismatch

SCHEMA_VERSION = 1
"""Version of the shapes below, written into every file of the store."""


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type, what it means, and whether it may be null; a table names it."""

    type: pa.DataType
    meaning: str
    nullable: bool = False
    name: str = ""


def column_values(table: pa.Table | pa.RecordBatch, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the values of some columns, row by row."""
    return zip(*(table[name].to_pylist() for name in names), strict=True)


class TableSchema:
    """One table: what a row is, which columns identify it, and all columns by name."""

    open_columns = False

    def __init__(self, name: str, row: str, key: tuple[str, ...], /, **columns: Column) -> None:
        self.name, self.row, self.key = name, row, key
        self.columns = tuple(replace(spec, name=column) for column, spec in columns.items())

    def but(self, *names: str) -> dict[str, Column]:
        """Return the columns by name, for another table, without some."""
        return {column.name: column for column in self.columns if column.name not in names}

    def arrow(self) -> pa.Schema:
        """Return the Arrow schema of the declared columns."""
        return pa.schema([pa.field(c.name, c.type, c.nullable) for c in self.columns])

    def items(self) -> pa.DataType:
        """Return the type of a list of rows, as a column of another table."""
        return pa.list_(pa.struct(list(self.arrow())))

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


class OpenTableSchema(TableSchema):
    """A table with further float64 columns, one for each metric of the experiment."""

    open_columns = True


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
    document_id=Column(TEXT, "id, unique in the corpus"),
    title=Column(TEXT, "title, empty when there is none; indexed with the text"),
    text=Column(TEXT, "body; all spans count characters of this column"),
    metadata=Column(TEXT, "JSON object with the other fields of the source"),
)

CHUNKS = TableSchema(
    "chunks",
    "one chunk of one chunking",
    ("chunk_id",),
    chunk_id=Column(TEXT, "document_id, or document_id#start-end when a document is cut"),
    document_id=Column(TEXT, "the document that was cut"),
    start=Column(COUNT, "first character of the chunk in the document's text"),
    end=Column(COUNT, "character after the last one"),
    title=Column(TEXT, "the document's title, indexed before the text"),
    text=Column(TEXT, "exactly text[start:end] of the document"),
    heading_path=Column(TEXT, "headings above the chunk as 'A > B'; empty: none, or not read"),
    parent_chunk_id=Column(TEXT, "the unit returned in its place; null: the chunk itself", True),
    parent_start=Column(COUNT, "first character of that unit, null without one", True),
    parent_end=Column(COUNT, "character after its last one, null without one", True),
)

QUERIES = TableSchema(
    "queries",
    "one query",
    ("query_id",),
    query_id=Column(TEXT, "id, unique in the query set"),
    text=Column(TEXT, "text of the question"),
    tags=Column(TAGS, "labels by which results are sliced"),
    metadata=Column(TEXT, "JSON object with the other fields of the source"),
)

QUERY_VARIANTS = TableSchema(
    "query_sets",
    "one variant of one query in one query set; variant 0 is the original, or stands for it",
    ("query_id", "variant"),
    query_id=Column(TEXT, "the query"),
    variant=Column(INT, "0 for the original text"),
    text=Column(TEXT, "what is searched for"),
)

QUERY_FACTS = TableSchema(
    "query_facts",
    "one query: its facts besides the text",
    ("query_id",),
    query_id=Column(TEXT, "the query"),
    answers=Column(TAGS, "right answers, word for word; empty: none is given"),
    weight=Column(FLOAT, "how much the query counts in a mean; 1 unless a field says so"),
    split=Column(TEXT, "dev or test; all where the queries are not split"),
    cluster=Column(TEXT, "queries that share it were made from the same source"),
    unanswerable=Column(BOOL, "true if a tag, a mark or is_impossible says that it has no answer"),
)

QRELS = TableSchema(
    "qrels",
    "one judgment: a document, or a span of it, that is evidence for a query",
    ("query_id", "evidence_id", "document_id", "start", "end"),
    query_id=Column(TEXT, "the query"),
    evidence_id=Column(TEXT, "rows of a query that share it are alternatives (OR)"),
    document_id=Column(TEXT, "the document that holds the evidence"),
    start=Column(COUNT, "first character of the evidence, null: the whole document", True),
    end=Column(COUNT, "character after the last one, null: the whole document", True),
    grade=Column(INT, "graded relevance; > 0 is relevant"),
)

RELEVANT_UNITS = TableSchema(
    "relevant_units",
    "one unit of a retriever that satisfies one evidence (unit_id null: none does at this grade)",
    ("query_id", "evidence_id", "unit_id"),
    query_id=Column(TEXT, "the query"),
    evidence_id=Column(TEXT, "the evidence that the unit satisfies"),
    unit_id=Column(TEXT, "the unit, null when none has the evidence's best grade", True),
    grade=Column(INT, "highest grade of the judgments that the unit satisfies"),
)

RUNS = TableSchema(
    "runs",
    "one retrieved unit of one query",
    ("query_id", "rank"),
    query_id=Column(TEXT, "the query"),
    rank=Column(INT, "1 is the best"),
    score=Column(FLOAT, "the retriever's score; comparable within a query only"),
    unit_id=Column(TEXT, "the judged unit: the id of a document, a chunk or its parent"),
    chunk_id=Column(TEXT, "the best chunk of the unit"),
    document_id=Column(TEXT, "the document of that chunk"),
)

EXTERNAL_RANKINGS = TableSchema(
    "external_rankings",
    "one hit of one query as a search returned it: an id, a span, or a text",
    ("query_id", "rank"),
    query_id=Column(TEXT, "the query"),
    rank=Column(INT, "1 is the best"),
    score=Column(FLOAT, "as the search returned it; null: none", True),
    id=Column(TEXT, "of a chunk, of its parent or of a document; null: a span or text", True),
    text=Column(TEXT, "the returned text; null: an id or span", True),
    document_id=Column(TEXT, "the document of the span or text; null: not given", True),
    start=Column(COUNT, "first character of the span or text; null: not given", True),
    end=Column(COUNT, "character after the last one; null: not given", True),
    source=Column(TEXT, "document that the search names for the text; null: none", True),
)

EXTERNAL_HITS = TableSchema(
    "external_hits",
    "one hit of one query, located in the documents",
    ("query_id", "rank"),
    query_id=Column(TEXT, "the query"),
    rank=Column(INT, "1 is the best"),
    score=Column(FLOAT, "as the search returned it; null: none", True),
    chunk_id=Column(TEXT, "the chunk: of a chunking, document_id, or document_id#start-end"),
    unit_id=Column(TEXT, "the chunk's parent, else the chunk"),
    document_id=Column(TEXT, "its document; of a text that is from none, its chunk_id"),
    start=Column(COUNT, "first character of the chunk; 0 where it was not located"),
    end=Column(COUNT, "character after the last one; 0 where it was not located"),
    located=Column(TEXT, "id, span, exact, normalised, ambiguous or missing"),
    title=Column(TEXT, "the document's title", True),
    text=Column(TEXT, "of a chunk that no chunking has: its text, or the returned one", True),
)

QUERY_VECTORS = TableSchema(
    "embedding_queries",
    "the vector of one variant of one query",
    ("query_id", "variant"),
    query_id=Column(TEXT, "the query"),
    variant=Column(INT, "0 for the original text"),
    vector=Column(pa.list_(pa.float32()), "embedding, as it is searched for"),
)

TERMS = TableSchema(
    "terms",
    "one word, or component of a model, of one index",
    ("term",),
    term=Column(TEXT, "the word as searched for; for splade, the model's token or number"),
    document_frequency=Column(COUNT, "chunks that hold it"),
)

POSTINGS = TableSchema(
    "postings",
    "one term in one chunk that holds it, in one index",
    ("term", "chunk_id"),
    term=Column(TEXT, "the term"),
    chunk_id=Column(TEXT, "the chunk, or one of several texts by which it is found"),
    weight=Column(FLOAT, "how often the word stands in the chunk; for splade, its weight there"),
)

VECTORS = TableSchema(
    "vectors",
    "the vector of one chunk in one index",
    ("chunk_id",),
    chunk_id=Column(TEXT, "the chunk, or one of several texts by which it is found"),
    vector=Column(pa.list_(pa.float32()), "the vector, as it is compared with query vectors"),
)

_SPAN = dict(
    document_id=Column(TEXT, "the document that the returned text is part of"),
    start=Column(COUNT, "first character of the returned text in the document's text"),
    end=Column(COUNT, "character after the last one"),
)
_DIGEST = dict(text_digest=Column(TEXT, "hash of the returned text"))

RETRIEVER_CONTEXTS = TableSchema(
    "retriever_contexts",
    "one text that a retriever can return",
    ("context_id",),
    context_id=Column(TEXT, "the unit; where documents are judged, their chunk"),
    **_SPAN,
    **_DIGEST,
)

_UNIT = dict(
    unit_id=Column(TEXT, "the unit: the id of a chunk, of its parent or of a document"),
    **_SPAN,
    n_tokens=Column(COUNT, "tokens of the returned text, special ones not counted"),
    **_DIGEST,
)

PASSAGES = TableSchema(
    "passages",
    "one unit that a retriever passes on for one query, as text",
    ("query_id", "rank"),
    query_id=Column(TEXT, "the query"),
    rank=Column(INT, "1 is the best"),
    **_UNIT,
)

PASSAGE_LISTS = TableSchema(
    "passage_lists",
    "what a retriever passes on for all queries at one cut-off",
    ("top_k",),
    top_k=Column(INT, "cut-off"),
    n_passages=Column(COUNT, "units; those of a query, and their tokens, are in passages"),
    digest=Column(TEXT, "hash of the units, their places, their texts and their order"),
)

ANSWER_CONTEXTS = TableSchema(
    "answer_contexts",
    "one unit of the context that one question is answered from",
    ("query_id", "position"),
    query_id=Column(TEXT, "the question"),
    position=Column(INT, "its number in the context, from 1"),
    rank=Column(INT, "the rank that a retriever gave it; null: none did", True),
    **_UNIT,
)

ANSWERS = TableSchema(
    "answers",
    "the answer of one answerer to one question",
    ("query_id",),
    query_id=Column(TEXT, "the question"),
    answer=Column(TEXT, "empty: refused; null: failed", True),
    abstained=Column(BOOL, "as the generator says; null: derived from the text", True),
    cited=Column(pa.list_(INT), "numbers of units of the context; null: it cites nothing", True),
    spans=Column(
        pa.list_(pa.struct([("unit", INT), ("start", INT), ("end", INT)])),
        "characters [start, end) of the text of units of the context; null: it copies nothing",
        True,
    ),
    score=Column(FLOAT, "higher: an answer is less likely; null: not known", True),
    error=Column(TEXT, "why there is no answer; null: there is one", True),
    prompt_tokens=Column(COUNT, "as counted by the server; null: not counted", True),
    completion_tokens=Column(COUNT, "likewise", True),
    finish_reason=Column(TEXT, "stop, length, refusal, ...; null: no model wrote it", True),
    served_model=Column(TEXT, "the name that the server gave its model; null: none", True),
    cost=Column(FLOAT, "money, as the code or server says; null: it does not", True),
)

_VERDICT = dict(
    problem=Column(TEXT, "why it is missing; null: it is not", True),
    reply=Column(TEXT, "key of the raw reply, or a line of a file; null: none", True),
)

RELEVANCE_VERDICTS = TableSchema(
    "relevance_verdicts",
    "a judge's verdict on one text that any retriever passes on for one query",
    ("query_id", "document_id", "start", "end"),
    query_id=Column(TEXT, "the query"),
    document_id=Column(TEXT, "the document that the text is part of"),
    start=Column(COUNT, "first character of the text in the document's text"),
    end=Column(COUNT, "character after the last one"),
    grade=Column(pa.int8(), "0 to 3; null: missing, which is not 0", True),
    **_VERDICT,
)

ANSWER_VERDICTS = TableSchema(
    "answer_verdicts",
    "a judge's verdict on one answer of any answerer to one question with right answers",
    ("query_id", "answer"),
    query_id=Column(TEXT, "the question"),
    answer=Column(TEXT, "the answer"),
    correct=Column(pa.int8(), "1 or 0; null: missing, which is not 0", True),
    **_VERDICT,
)

CLAIM_VERDICTS = TableSchema(
    "claim_verdicts",
    "a judge's verdict on one claim of an answer, without a right answer",
    ("query_id", "kind", "answer", "context", "claim"),
    query_id=Column(TEXT, "the question"),
    kind=Column(TEXT, "groundedness in the contexts, or answer_relevance to the question"),
    answer=Column(TEXT, "the answer"),
    context=Column(TEXT, "hash of the texts that it was written from; empty: none, or no matter"),
    claim=Column(INT, "number of the sentence in the answer, from 1"),
    text=Column(TEXT, "the sentence"),
    grade=Column(pa.int8(), "0 to 2, or 0 and 1; null: missing, which is not 0", True),
    **_VERDICT,
)

QUERY_METRICS = OpenTableSchema(
    "query_metrics",
    "one query of one retriever at one top_k; a float64 column for each metric",
    ("query_id",),
    query_id=Column(TEXT, "the query"),
    n_relevant=Column(INT, "R: evidences with a positive grade"),
    n_unreachable=Column(INT, "positive evidences that no unit of the retriever satisfies"),
    n_retrieved=Column(INT, "units retrieved, at most top_k"),
    n_judged=Column(INT, "retrieved units judged for this query, with a grade of 0 or more"),
    ties_at_cut=Column(
        INT,
        "units in the 10 ranks below the cut whose score equals that of the top_k-th; null: an "
        "imported run ends at the cut",
        True,
    ),
    failed=Column(BOOL, "the retriever failed on the query: its metrics are null"),
    tokens=Column(COUNT, "tokens of the texts of the retrieved units; null: unknown", True),
    unit_tokens=Column(pa.list_(COUNT), "those of each unit, in the order of rank", True),
)

METRICS_SUMMARY = OpenTableSchema(
    "metrics_summary",
    "one split and top_k of one retriever; a float64 column for each metric, its weighted mean",
    ("split", "top_k"),
    split=Column(TEXT, "dev or test; all where the queries are not split"),
    top_k=Column(INT, "cut-off"),
    n_queries=Column(COUNT, "queries that are averaged: answerable, and did not fail"),
    weight=Column(FLOAT, "sum of their weights: the denominator of every mean"),
    n_attempted=Column(COUNT, "all queries of the split: answered, empty and failed"),
    n_answered=Column(COUNT, "queries for which anything was retrieved"),
    n_empty=Column(COUNT, "queries for which nothing was retrieved; answerable ones count 0"),
    n_failed=Column(COUNT, "queries on which the retriever failed; not averaged"),
    n_unanswerable=Column(
        COUNT, "queries that no document answers, according to the data; not averaged"
    ),
    n_unlabelled=Column(COUNT, "queries without a label; not averaged"),
    n_unreachable=Column(COUNT, "positive evidences that no unit satisfies; stay in R"),
    n_not_in_corpus=Column(
        COUNT, "of these, the ones with no document in the corpus; kept only if requested"
    ),
    n_unjudged=Column(COUNT, "retrieved units without a judgment; count as not relevant"),
    judged=Column(FLOAT, "share of retrieved units that have a judgment", True),
    n_tied=Column(
        COUNT, "averaged queries with tied units on both sides of the cut; null: not known", True
    ),
    tokens=Column(FLOAT, "weighted mean of the tokens of the retrieved texts", True),
)

LEADERBOARD = OpenTableSchema(
    "leaderboard",
    "one cell, a retriever at a top_k, on one split; a float64 column for each metric, its mean",
    ("retriever", "split", "top_k"),
    position=Column(
        INT,
        "place within the split by the primary metric, equal values share a place; null: not "
        "ranked on dev, because the retriever was tuned on it",
        True,
    ),
    retriever=Column(TEXT, "name from experiment.yaml"),
    **METRICS_SUMMARY.but(),
)

ANSWERABILITY = TableSchema(
    "answerability",
    "a retriever and a split of the queries: how well its best score detects the unanswerable ones",
    ("retriever", "split"),
    retriever=Column(TEXT, "name from experiment.yaml"),
    split=Column(TEXT, "the queries that the numbers are over: all, dev or test"),
    n_answerable=Column(COUNT, "queries with a relevant judgment"),
    n_unanswerable=Column(COUNT, "queries without a relevant judgment, according to the data"),
    auroc=Column(FLOAT, "chance that an answerable query scores above an unanswerable one", True),
    threshold=Column(FLOAT, "lowest best score with which a query is answered", True),
    threshold_from=Column(TEXT, "the split whose balanced accuracy it maximises"),
    coverage=Column(FLOAT, "share of the answerable queries that are answered", True),
    rejected=Column(FLOAT, "share of unanswerable queries that are not", True),
)

LIST_SIMILARITIES = TableSchema(
    "list_similarities",
    "one query: how similar the results of a reranker are, by the vectors of a diversity reranker",
    ("query_id",),
    query_id=Column(TEXT, "the query"),
    similarity=Column(FLOAT, "mean cosine of all pairs of results; null: below two", True),
    input_similarity=Column(FLOAT, "the same for the input of the reranker, cut at top_k", True),
)

OVERLAPS = TableSchema(
    "overlaps",
    "two retrievers at one top_k: how similar their runs are",
    ("retriever_a", "retriever_b"),
    retriever_a=Column(TEXT, "name from experiment.yaml; before retriever_b in it"),
    retriever_b=Column(TEXT, "name from experiment.yaml"),
    compared=Column(TEXT, "unit; or document (its best chunk), of two chunkings"),
    n_queries=Column(COUNT, "queries for which at least one of the two retrieved anything"),
    overlap=Column(FLOAT, "mean share of common units, of the longer list", True),
)

INTERVALS = TableSchema(
    "intervals",
    "one mean of one retriever, with its interval for other queries of this kind",
    ("split", "top_k", "metric"),
    split=Column(TEXT, "all, or dev or test"),
    top_k=Column(INT, "cut-off"),
    metric=Column(TEXT, "the metric's column in query_metrics"),
    n=Column(COUNT, "queries that have a value: the denominator of the mean"),
    mean=Column(FLOAT, "weighted mean; null without such a query", True),
    low=Column(FLOAT, "lower bound; null for fewer than two independent units", True),
    high=Column(FLOAT, "upper bound, null as low is", True),
    confidence=Column(FLOAT, "of the interval, such as 0.95"),
    method=Column(TEXT, "how it was computed, and over which units"),
)

COMPARISONS = TableSchema(
    "comparisons",
    "two retrievers on the same queries, by the primary metric at its cut-off",
    ("split", "retriever_a", "retriever_b"),
    retriever_a=Column(TEXT, "name from experiment.yaml; before retriever_b in it"),
    retriever_b=Column(TEXT, "name from experiment.yaml"),
    split=Column(TEXT, "all, or dev or test"),
    metric=Column(TEXT, "the metric's column in query_metrics"),
    top_k=Column(INT, "cut-off"),
    n=Column(COUNT, "queries on which both have a value"),
    n_clusters=Column(COUNT, "independent units among them: n, or clusters of queries"),
    mean_a=Column(FLOAT, "weighted mean of a over these queries", True),
    mean_b=Column(FLOAT, "weighted mean of b over these queries", True),
    difference=Column(FLOAT, "mean_b - mean_a, averaged query by query", True),
    low=Column(FLOAT, "lower bound of the difference; null: under two units", True),
    high=Column(FLOAT, "upper bound of the difference, null as low is", True),
    p_randomisation=Column(FLOAT, "paired randomisation test, counting shared documents", True),
    p_t=Column(FLOAT, "two-sided paired t-test; null: no variance", True),
    p_wilcoxon=Column(FLOAT, "two-sided signed-rank test, zeros as Pratt", True),
    p_adjusted=Column(FLOAT, "p_randomisation after Holm over all pairs of the split", True),
    effect_size=Column(FLOAT, "Cohen's d_z of the queries' differences", True),
    won=Column(COUNT, "queries on which b is better than a"),
    tied=Column(COUNT, "queries on which they are equal"),
    lost=Column(COUNT, "queries on which b is worse than a"),
    detectable=Column(FLOAT, "smallest difference shown at level 0.05 with power 0.8", True),
)

ANSWER_SUMMARY = TableSchema(
    "answer_summary",
    "one metric of one answerer at one cut-off, over a group of the questions of one split",
    ("answerer", "top_k", "split", "questions", "metric"),
    answerer=Column(TEXT, "name from experiment.yaml"),
    top_k=Column(INT, "cut-off of its retriever; null: it has none", True),
    split=Column(TEXT, "all, or dev or test"),
    questions=Column(TEXT, "all of the split, or the answerable or unanswerable ones"),
    metric=Column(TEXT, "the metric's column in answer_metrics"),
    n_questions=Column(COUNT, "questions of the group"),
    n_failed=Column(COUNT, "those without an answer: 0 in every metric that is defined"),
    n=Column(COUNT, "questions that have a value: what the mean is over"),
    mean=Column(FLOAT, "weighted mean; null without such a question", True),
    low=Column(FLOAT, "lower bound; null for fewer than two independent units", True),
    high=Column(FLOAT, "upper bound, null as low is", True),
    confidence=Column(FLOAT, "of the interval, such as 0.95"),
)

ANSWER_COMPARISONS = TableSchema(
    "answer_comparisons",
    "two answerers, each at one cut-off, on the same questions, by one metric",
    ("split", "metric", "answerer_a", "answerer_b"),
    answerer_a=Column(TEXT, "name@k, or name@-; before answerer_b in the experiment"),
    answerer_b=Column(TEXT, "name@k, or name@-"),
    **COMPARISONS.but("retriever_a", "retriever_b", "top_k"),
)

ANSWER_LABELS = TableSchema(
    "answer_labels",
    "one person's label for one answer to one question",
    ("query_id", "answer"),
    query_id=Column(TEXT, "the question"),
    answer=Column(TEXT, "the answer, as it was written"),
    correct=Column(BOOL, "whether it is right; null: cannot tell", True),
    probability=Column(FLOAT, "probability of drawing the question; null: chosen by hand", True),
    by=Column(TEXT, "who labelled it; null: not given", True),
    at=Column(TEXT, "when, as it was written; null: not given", True),
)

ONLINE_LOG = TableSchema(
    "online_log",
    "one search of a user, or one vote",
    ("kind", "id"),
    kind=Column(TEXT, "search; passage or answer: a vote on one"),
    id=Column(TEXT, "of the search; of a vote its line"),
    names=Column(TAGS, "retrievers of the search, or what the vote is on"),
    user=Column(TEXT, "user; for a vote without a user, its line"),
    at=Column(pa.timestamp("ms", "UTC"), "when; null: not given", True),
    results=Column(TAGS, "ids that were shown, best first"),
    teams=Column(pa.list_(INT), "retriever that added each result, 0 or 1; if interleaved"),
    clicks=Column(pa.list_(INT), "ranks that were clicked"),
    up=Column(BOOL, "whether a vote is up; null: a search", True),
    count=Column(COUNT, "number of equal votes; 1 for a search"),
)

_ESTIMATE = dict(
    low=Column(FLOAT, "lower bound; null: no interval", True),
    high=Column(FLOAT, "upper bound, null as low is", True),
    human=Column(FLOAT, "estimate from the labels alone, without verdicts", True),
    human_low=Column(FLOAT, "its lower bound", True),
    human_high=Column(FLOAT, "its upper bound", True),
    confidence=Column(FLOAT, "of the intervals, such as 0.95"),
    n=Column(COUNT, "questions that the mean is over"),
    n_labels=Column(COUNT, "questions that people labelled; of a sample of passages, passages"),
    n_cannot_tell=Column(COUNT, "labelled 'cannot tell'; left out"),
    n_missing=Column(COUNT, "those without a usable verdict"),
    weight=Column(FLOAT, "weight of verdicts; 0: labels alone; null: one for each passage", True),
    method=Column(TEXT, "how it was estimated"),
    reason=Column(TEXT, "why there is no estimate or no interval; null: both exist", True),
)

CALIBRATED_MEANS = TableSchema(
    "calibrated_means",
    "one mean of a judge's verdicts, calibrated with labels of people",
    ("name", "split", "metric"),
    name=Column(TEXT, "an answerer, name@k or name@-; or a retriever"),
    split=Column(TEXT, "all, or dev or test"),
    metric=Column(TEXT, "judged_correct; of retrievers with its cut-off, as precision@10"),
    judge=Column(FLOAT, "mean of the verdicts, as they are", True),
    calibrated=Column(FLOAT, "the mean by labels from people; null: no estimate", True),
    **_ESTIMATE,
)

CALIBRATED_DIFFERENCES = TableSchema(
    "calibrated_differences",
    "two answerers or two retrievers on the same questions, by verdicts calibrated with labels",
    ("split", "metric", "name_a", "name_b"),
    name_a=Column(TEXT, "an answerer at its cut-off, or a retriever; before name_b"),
    name_b=Column(TEXT, "likewise"),
    split=Column(TEXT, "all, or dev or test"),
    metric=Column(TEXT, "judged_correct; of retrievers with its cut-off, as precision@10"),
    judge=Column(FLOAT, "mean difference of the verdicts, b - a", True),
    calibrated=Column(FLOAT, "mean difference by labels from people, b - a", True),
    **_ESTIMATE,
)

SAMPLED_PASSAGES = TableSchema(
    "sampled_passages",
    "one passage in the first ranks of a retriever, as deep as labels are sampled",
    ("retriever", "query_id", "rank"),
    retriever=Column(TEXT, "name from experiment.yaml"),
    query_id=Column(TEXT, "the question"),
    rank=Column(INT, "from 1, best first"),
    document_id=Column(TEXT, "where the passage is"),
    start=Column(COUNT, "first character of the document"),
    end=Column(COUNT, "character after the last"),
    label=Column(INT, "its grade by the labels of the dataset; null: not judged", True),
)

SAMPLED_LABELS = TableSchema(
    "sampled_labels",
    "one passage of the pool (overlapping ones are merged), with its state in the sample of labels",
    ("query_id", "document_id", "start", "end"),
    query_id=Column(TEXT, "the question"),
    document_id=Column(TEXT, "where the passage is"),
    start=Column(COUNT, "first character of the document"),
    end=Column(COUNT, "character after the last"),
    state=Column(
        TEXT,
        "judged; skipped or cannot_tell: shown, without a grade; certain: labelled "
        "independently of the draw; open: not shown yet",
    ),
    grade=Column(INT, "0 and more; null: none was given", True),
    hazard=Column(FLOAT, "it was shown by now with probability 1 - exp(-hazard)"),
    verdicts=Column(
        TEXT,
        "JSON object, ``judge:<name>`` or ``vote:<system>`` -> grade: no labels, but control "
        "variates of the estimates; null: there is none",
        True,
    ),
)

SAMPLED_ESTIMATES = TableSchema(
    "sampled_estimates",
    "one metric of a retriever, estimated from a sample of labels of its passages",
    ("metric", "retriever"),
    metric=Column(TEXT, "with its cut-off: dcg@k, precision@k or pool_recall@k"),
    retriever=Column(TEXT, "name from experiment.yaml"),
    value=Column(FLOAT, "the estimate over all questions, each counted once"),
    items_low=Column(FLOAT, "lower bound for these questions and this pool", True),
    items_high=Column(FLOAT, "upper bound, null as items_low is: nothing is known", True),
    questions_low=Column(FLOAT, "lower bound for questions like these", True),
    questions_high=Column(FLOAT, "upper bound, null as questions_low is", True),
    lowest=Column(FLOAT, "the value if all 'cannot tell' count as 0"),
    highest=Column(FLOAT, "the value if they get the highest grade"),
    n_labels=Column(COUNT, "labels that the value reads"),
    effective_labels=Column(FLOAT, "size of a plain random sample that would be as precise"),
    n_no_chance=Column(COUNT, "passages that could not be drawn yet"),
    n=Column(COUNT, "questions"),
    confidence=Column(FLOAT, "of the intervals, such as 0.95"),
)

ATTRIBUTIONS = TableSchema(
    "attributions",
    "one positive evidence of one query: where a retriever found or lost it",
    ("query_id", "evidence_id"),
    query_id=Column(TEXT, "the query"),
    evidence_id=Column(TEXT, "the evidence"),
    lost_at=Column(
        TEXT,
        "found, cut_at_k, lost_in_reranking, lost_in_fusion, below_candidates, no_chunk or "
        "not_in_corpus",
    ),
    rank=Column(INT, "first rank in the stored ranking; null: not in it", True),
    n_relevant_units=Column(INT, "units of the retriever that satisfy the evidence"),
    inputs=Column(TAGS, "retrievers that this one reads; empty for a base retriever"),
    input_ranks=Column(pa.list_(INT), "first rank in each of them; null: not a candidate"),
)

TUNING = TableSchema(
    "tuning",
    "one weight vector tried for a fusion, and its value on the dev split",
    ("number",),
    number=Column(INT, "the order in which it was tried, from 0; 0 is equal weights"),
    weights=Column(pa.list_(FLOAT), "one weight an input, in their order; they sum to 1"),
    metric=Column(TEXT, "what the value is of, such as ndcg@10"),
    value=Column(FLOAT, "weighted mean over the answerable dev queries"),
    chosen=Column(BOOL, "whether the fusion uses it; true for one row"),
)

HISTORY_RETRIEVERS = TableSchema(
    "history_retrievers",
    "one retriever of one evaluation: what computed it",
    ("retriever",),
    retriever=Column(TEXT, "name from experiment.yaml"),
    type=Column(TEXT, "its type", True),
    configuration=Column(TEXT, "its options with defaults, as JSON"),
    model=Column(TEXT, "the model that it names; null: none", True),
    model_revision=Column(TEXT, "SHA-256 of the model's weights; null: not local", True),
    versions=Column(TEXT, "types, engines and packages that computed it, as JSON"),
)

HISTORY_METRICS = TableSchema(
    "history",
    "one metric of one cell on one split of one evaluation",
    ("retriever", "split", "top_k", "metric"),
    retriever=Column(TEXT, "name from experiment.yaml"),
    split=Column(TEXT, "dev or test; all where the queries are not split"),
    top_k=Column(INT, "cut-off"),
    metric=Column(TEXT, "its column in query_metrics, or cost_time or query_cost"),
    value=Column(FLOAT, "its weighted mean; of costs the mean of a sample of queries"),
    n_queries=Column(COUNT, "queries that are averaged; of costs those of the metrics"),
)

HISTORY_ANSWERS = TableSchema(
    "history_answers",
    "one metric of one answerer on one split of one evaluation",
    ("answerer", "split", "metric"),
    answerer=Column(TEXT, "name@k, or name@- of one without a cut-off"),
    split=Column(TEXT, "dev or test; all where the queries are not split"),
    metric=Column(TEXT, "the metric's column in answer_metrics"),
    value=Column(FLOAT, "its weighted mean"),
    n_questions=Column(COUNT, "questions that have a value"),
    n_failed=Column(COUNT, "questions without an answer: 0 in every metric"),
)

HISTORY_JUDGED = TableSchema(
    "history_judged",
    "one calibrated mean of one judge in one evaluation",
    ("judge", "name", "split", "metric"),
    judge=Column(TEXT, "name from experiment.yaml; empty: a sample of labels, no judge"),
    fingerprint=Column(TEXT, "of what the judge is: model, prompt, options, files"),
    name=Column(TEXT, "an answerer at its cut-off, or a retriever"),
    split=Column(TEXT, "dev or test; all where the queries are not split"),
    metric=Column(TEXT, "judged_correct; of retrievers with its cut-off"),
    value=Column(FLOAT, "the calibrated mean; null: there is none", True),
    low=Column(FLOAT, "lower bound; null: no interval", True),
    high=Column(FLOAT, "upper bound, null as low is", True),
    n=Column(COUNT, "questions"),
    n_labels=Column(COUNT, "questions that people labelled; of a sample, passages"),
)

_TIME = pa.timestamp("ms", "UTC")

HISTORY = TableSchema(
    "evaluations",
    "one evaluation, even if nothing changed",
    ("experiment", "evaluation_id"),
    experiment=Column(TEXT, "name of the experiment"),
    evaluation_id=Column(TEXT, "sorts by time"),
    started=Column(_TIME, "when it began"),
    finished=Column(_TIME, "when its snapshot was written"),
    trigger=Column(TEXT, "what began it: the command line, Python"),
    user=Column(TEXT, "account that ran it; null: unknown", True),
    dagster_runs=Column(TAGS, "ids of the Dagster runs that it started"),
    complete=Column(BOOL, "every cell was up to date at the end, and no query failed"),
    computed=Column(COUNT, "partitions that were computed; the others were reused"),
    n_artifacts=Column(COUNT, "partitions that were up to date at the end"),
    primary_metric=Column(TEXT, "the metric that ranks the leaderboard"),
    baseline=Column(TEXT, "the retriever that others are compared with"),
    content_digest=Column(TEXT, "hash of all that the snapshot names"),
    experiment_digest=Column(TEXT, "hash of the configuration; null: unknown", True),
    corpus_digest=Column(TEXT, "digest of the documents", True),
    chunks_digest=Column(TEXT, "digest of the chunks of all chunkings", True),
    queries_digest=Column(TEXT, "digest of the queries", True),
    query_sets_digest=Column(TEXT, "digest of the variants of all query sets", True),
    qrels_digest=Column(TEXT, "digest of the labels; null: there are none", True),
    git_commit=Column(TEXT, "of the repository of the experiment; null: none", True),
    git_dirty=Column(BOOL, "whether the experiment's files differ from it", True),
    configuration=Column(TEXT, "the experiment with defaults filled in, as JSON"),
    code_versions=Column(TEXT, "stage -> code version, as JSON"),
    packages=Column(TEXT, "package -> version, as JSON"),
    retrievers=Column(HISTORY_RETRIEVERS.items(), "what computed each retriever"),
    metrics=Column(HISTORY_METRICS.items(), "every metric of every cell"),
    answers=Column(
        HISTORY_ANSWERS.items(), "every metric of every answerer; null: of an older version", True
    ),
    judged=Column(
        HISTORY_JUDGED.items(),
        "every calibrated mean of every judge; null: of an older version",
        True,
    ),
    schema_version=Column(INT, "version of these columns"),
)
