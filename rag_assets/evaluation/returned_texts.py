"""Measures of the texts that runs return: their tokens, and whether a gold answer stands in them.

``tokens@k`` is what a context of k units costs. ``answer_hit@k`` asks the texts themselves and no
judgment, so a passage counts that nobody judged; and one that holds the words of the answer by
chance counts too.

Texts are compared in the form of SQuAD's official evaluation (Rajpurkar et al., EMNLP 2016): lower
case, ASCII punctuation deleted, the articles a, an and the left out, white space collapsed. Since
an answer is looked for inside a text, punctuation beyond ASCII becomes a blank, and each character
of a script that puts no blanks between words (Chinese characters, kana, Thai, Lao, Khmer, Burmese)
a word of its own.

Retrievers compare at an equal budget of tokens too: each query keeps its units in the order of rank
while the sum of their tokens stays within the budget. The first that does not fit ends the list:
what follows a gap was never ranked as such. Nothing is cut to fit, since a piece of a unit was not
judged; so a query whose first unit alone exceeds the budget keeps nothing and scores 0. The
measures are those of the remaining list. What is divided by k elsewhere, such as precision, is
divided by the number of units kept. The ideal of nDCG is not cut: it is the same for all.
"""

from __future__ import annotations

import re
import string
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.metric_names import needs_cutoff, parse_metric
from rag_assets.evaluation.metrics import (
    WHOLE_RANKING,
    Cell,
    by_cell,
    number_pairs,
    query_metrics,
    register_cells,
    stack,
)
from rag_assets.evaluation.units import text_of
from rag_assets.schemas import RUNS
from rag_assets.store.sql_paths import scratch_connection

if TYPE_CHECKING:
    import duckdb

ANSWER_HIT = "whether a gold answer stands in one of the first k returned texts"

_RETURNED = """
CREATE TEMP TABLE returned AS
SELECT run, query_id, rank, n_tokens, document_id, start, "end"
FROM runs JOIN read_by USING (run) JOIN contexts USING (retriever, context_id)
"""

_WANTED = "CREATE TEMP TABLE wanted AS SELECT run, top_k, query_id FROM cutoffs CROSS JOIN queries"

_TOKENS = """
WITH sums AS (
    SELECT run, top_k, query_id, sum(n_tokens) AS tokens
    FROM returned JOIN cutoffs USING (run) WHERE rank <= top_k GROUP BY ALL
)
SELECT run, top_k, query_id, coalesce(tokens, 0)::BIGINT AS tokens
FROM wanted LEFT JOIN sums USING (run, top_k, query_id)
ORDER BY run, top_k, query_id
"""

# A text is normalised once and a (query, text) pair looked at once, however many runs hold it.
_SPANS = """
SELECT DISTINCT document_id, start, "end"
FROM returned JOIN (SELECT DISTINCT query_id FROM answers) USING (query_id)
"""

_HITS = """
WITH pairs AS (
    SELECT DISTINCT query_id, text_number
    FROM returned JOIN spans USING (document_id, start, "end")
    WHERE query_id IN (SELECT query_id FROM answers)
), hits AS (
    SELECT DISTINCT query_id, text_number
    FROM pairs JOIN answers USING (query_id) JOIN texts USING (text_number)
    WHERE contains(texts.text, answers.answer)
), firsts AS (
    SELECT run, query_id, min(rank) AS rank
    FROM returned
    JOIN spans USING (document_id, start, "end")
    JOIN hits USING (query_id, text_number)
    GROUP BY ALL
)
SELECT run, top_k, query_id,
       CASE WHEN query_id IN (SELECT query_id FROM answers)
            THEN coalesce(rank <= top_k, false)::DOUBLE END AS answer_hit
FROM wanted LEFT JOIN firsts USING (run, query_id)
ORDER BY run, top_k, query_id
"""

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_DELETED = str.maketrans("", "", string.punctuation)

WITHOUT_BLANKS = re.compile(
    "(["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Burmese
    "\u1780-\u17ff\u19e0-\u19ff"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c"  # radicals, numerals
    "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3105-\u312f\u31a0-\u31bf"  # bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese characters
    "\U0001aff0-\U0001b16f\U00020000-\U000323af"  # further kana and Chinese characters
    "])"
)


@dataclass(frozen=True)
class ReturnedTexts:
    """The runs of some queries, and the texts that stand behind them, by name.

    ``read_by`` is run -> the name of its contexts. Each of ``queries`` gets a row, retrieved or
    not; ``column`` names the text (:func:`rag_assets.evaluation.units.context_column`).
    """

    runs: Mapping[str, pa.Table]
    contexts: Mapping[str, pa.Table]
    read_by: Mapping[str, str]
    queries: pa.Table
    column: str

    def tokens(self, cells: Sequence[Cell]) -> dict[Cell, pa.Table]:
        """Return (run, k) -> query_id and the tokens of its first k texts, sorted by query id."""
        with self.opened(cells) as connection:
            table = connection.sql(_TOKENS).to_arrow_table()
        return self._by_cell(table, pa.field("tokens", pa.int64()), cells)

    def answer_hits(
        self, cells: Sequence[Cell], documents: Mapping[str, str], answers: pa.Table
    ) -> dict[Cell, pa.Table]:
        """Return (run, k) -> query_id and ``answer_hit`` (0 or 1), sorted by query id.

        It is null for a query without an answer that normalisation leaves anything of.
        ``documents`` are texts by id; any of a query's ``answers`` is right.
        """
        with self.opened(cells) as connection:
            connection.register("answers", _wanted_answers(answers))
            spans = connection.sql(_SPANS).to_arrow_table()
            _register_texts(connection, spans, documents)
            table = connection.sql(_HITS).to_arrow_table()
        return self._by_cell(table, pa.field("answer_hit", pa.float64()), cells)

    @contextmanager
    def opened(self, cells: Sequence[Cell] = ()) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a connection with ``returned``, ``cutoffs`` and ``wanted``; runs have numbers.

        ``returned`` is run, query_id, rank, n_tokens and the span of the text, ``wanted`` a row for
        each cell and query.
        """
        names, readers = sorted(self.runs), sorted(self.contexts)
        columns = ["query_id", "rank", "context_id"]
        runs = [self.runs[name].select(["query_id", "rank", self.column]) for name in names]
        with scratch_connection() as connection:
            stack(connection, "runs", "run", [run.rename_columns(columns) for run in runs], columns)
            texts = [self.contexts[name] for name in readers]
            columns = ["context_id", "document_id", "start", "end", "n_tokens"]
            stack(connection, "contexts", "retriever", texts, columns)
            pairs = [(names.index(run), readers.index(self.read_by[run])) for run in names]
            connection.register("read_by", number_pairs("run", "retriever", pairs))
            register_cells(connection, names, self.queries, cells)
            connection.execute(_RETURNED)
            connection.execute(_WANTED)
            yield connection

    def _by_cell(
        self, table: pa.Table, field: pa.Field, cells: Sequence[Cell]
    ) -> dict[Cell, pa.Table]:
        schema = pa.schema([pa.field("query_id", pa.string()), field])
        return by_cell(table, schema, sorted(self.runs), cells)


def _wanted_answers(answers: pa.Table) -> pa.Table:
    """Return the distinct normalised answers, one a row."""
    rows = {
        (row["query_id"], answer_text): None
        for row in answers.to_pylist()
        for answer in row["answers"] or ()
        if (answer_text := normalised(answer))
    }
    return pa.table(
        {
            "query_id": pa.array([query_id for query_id, _ in rows], pa.string()),
            "answer": pa.array([bounded(answer) for _, answer in rows], pa.string()),
        }
    )


def _register_texts(
    connection: duckdb.DuckDBPyConnection, spans: pa.Table, documents: Mapping[str, str]
) -> None:
    """Register ``spans`` with a number a text, and ``texts``: the normalised text of each number.

    Spans with the same text share it.
    """
    numbers: dict[str, int] = {}
    places = [spans[name].to_pylist() for name in ("document_id", "start", "end")]
    text_numbers = [
        numbers.setdefault(text_of(documents, span), len(numbers))
        for span in zip(*places, strict=True)
    ]
    texts = pa.table(
        {
            "text_number": pa.array(range(len(numbers)), pa.int64()),
            "text": pa.array([bounded(normalised(text)) for text in numbers], pa.string()),
        }
    )
    connection.register(
        "spans", spans.append_column("text_number", pa.array(text_numbers, pa.int64()))
    )
    connection.register("texts", texts)


def normalised(text: str) -> str:
    """Return ``text`` as words with one blank between; the same again when applied again."""
    plain = text.lower().translate(_DELETED)
    if not plain.isascii():
        plain = WITHOUT_BLANKS.sub(r" \1 ", plain.translate(_separators()))
    return " ".join(_ARTICLES.sub(" ", plain).split())


def bounded(text: str) -> str:
    """Put a blank on either side: ``in`` between two such texts finds whole words only."""
    return f" {text} "


@cache
def _separators() -> dict[int, str]:
    """Return the punctuation beyond ASCII (the categories P of Unicode), each as a blank."""
    codes = (code for code in range(0x80, sys.maxunicode + 1))
    return {code: " " for code in codes if unicodedata.category(chr(code)).startswith("P")}


_RUN = "run"

_WITHIN = """
WITH summed AS (
    SELECT query_id, rank, n_tokens, sum(n_tokens) OVER (
        PARTITION BY query_id ORDER BY rank ROWS UNBOUNDED PRECEDING) AS spent
    FROM returned
)
SELECT query_id, count(*) AS n_retrieved,
       count(*) FILTER (spent <= $budget) AS n_kept,
       coalesce(sum(n_tokens) FILTER (spent <= $budget), 0)::BIGINT AS tokens
FROM summed GROUP BY ALL ORDER BY query_id
"""


class Kept(NamedTuple):
    """What fits into a budget: the run, cut for each query where it ends, and its queries.

    ``queries`` has ``query_id``, ``n_retrieved``, ``n_kept`` and ``tokens`` of every query for
    which anything was retrieved, sorted by query id.
    """

    run: pa.Table
    queries: pa.Table

    def n_short(self, depth: int) -> int:
        """Return for how many queries a run deeper than ``depth`` might fit more."""
        columns = (self.queries[name].to_pylist() for name in ("n_kept", "n_retrieved"))
        return sum(kept == retrieved >= depth for kept, retrieved in zip(*columns, strict=True))

    def n_nothing_fits(self) -> int:
        """Return for how many queries the first unit alone exceeds the budget."""
        return sum(kept == 0 for kept in self.queries["n_kept"].to_pylist())

    def of_queries(self, query_ids: pa.ChunkedArray) -> Kept:
        """Return what is about these queries only."""
        return Kept(*(t.filter(pc.is_in(t["query_id"], value_set=query_ids)) for t in self))


def within_budget(run: pa.Table, contexts: pa.Table, budget: int, *, column: str) -> Kept:
    """Cut a run where the tokens of its texts, named by ``column``, exceed a budget."""
    ids = run.select(["query_id"])
    texts = ReturnedTexts({_RUN: run}, {_RUN: contexts}, {_RUN: _RUN}, ids, column)
    with texts.opened() as connection:
        queries = connection.sql(_WITHIN, params={"budget": budget}).to_arrow_table()
        connection.register("kept", queries)
        connection.register("whole", run)
        rows = "SELECT whole.* FROM whole JOIN kept USING (query_id) WHERE rank <= n_kept"
        cut = connection.sql(f"{rows} ORDER BY query_id, rank").to_arrow_table()
    return Kept(RUNS.check(cut.cast(RUNS.arrow())), queries)


def budget_metrics(
    kept: Kept, relevant_units: pa.Table, queries: pa.Table, measures: Sequence[str]
) -> pa.Table:
    """Return the measures of the units that fit, a row for each of ``queries``.

    Null for a query without a positive judgment; a measure that is not computed from judgments is
    left out.
    """
    columns = (kept.queries[name].to_pylist() for name in ("query_id", "n_kept"))
    kept_units: dict[str, int] = dict(zip(*columns, strict=True))
    # What is divided by the cut-off is taken at as many units as were kept; of none it is 0 anyway.
    cutoffs = {q: max(kept_units.get(q, 0), 1) for q in queries["query_id"].to_pylist()}
    cells = [(_RUN, k) for k in {*cutoffs.values(), WHOLE_RANKING}]
    metrics = [parse_metric(name) for name in measures]
    labels, judged_by = {_RUN: relevant_units}, {_RUN: _RUN}
    tables = query_metrics({_RUN: kept.run}, labels, judged_by, queries, cells, metrics)
    whole = tables[_RUN, WHOLE_RANKING]
    table = whole.select(["query_id", *(name for name in measures if name in whole.column_names)])
    query_ids = table["query_id"].to_pylist()
    for place, name in enumerate(table.column_names):
        if needs_cutoff(name.partition("(")[0]):
            by_cutoff = {k: tables[_RUN, k][name].to_pylist() for k in {*cutoffs.values()}}
            values = [by_cutoff[cutoffs[query]][row] for row, query in enumerate(query_ids)]
            table = table.set_column(place, name, pa.array(values, pa.float64()))
    return table
