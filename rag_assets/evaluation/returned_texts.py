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
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.metric_names import needs_cutoff, needs_size, parse_metric
from rag_assets.evaluation.metrics import WHOLE_RANKING, query_metrics
from rag_assets.evaluation.units import Span, text_of
from rag_assets.schemas import RUNS, column_values

ANSWER_HIT = "whether a gold answer occurs in one of the first k returned texts"

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


def returned_texts(run: pa.Table, contexts: pa.Table, column: str) -> pa.Table:
    """Return the query and the span of the text behind each row of a run, in its order.

    Args:
        run: table of runs.
        contexts: table of ``RETRIEVER_CONTEXTS``.
        column: names the text (:func:`rag_assets.evaluation.units.context_column`).
    """
    ids = contexts["context_id"].combine_chunks()
    texts = contexts.take(pc.index_in(run[column], value_set=ids))
    return texts.append_column("query_id", run["query_id"])


def tokens_by_query(
    texts: pa.Table, counts: Mapping[Span, int], query_ids: Sequence[str]
) -> tuple[pa.Array, pa.Array]:
    """Return how many tokens the texts of each query have: together, and each of them."""
    by_query: dict[str, list[int]] = {query_id: [] for query_id in query_ids}
    for query_id, *span in column_values(texts, "query_id", "document_id", "start", "end"):
        if query_id in by_query:
            by_query[query_id].append(counts[tuple(span)])
    each = by_query.values()
    return pa.array(map(sum, each), pa.int64()), pa.array(each, pa.list_(pa.int64()))


class GoldAnswers:
    """Looks for the answers of queries in texts.

    A text is normalised once, and a pair of query and text looked at once, in however many runs.
    """

    def __init__(self, documents: Mapping[str, str], facts: pa.Table) -> None:
        """Take the texts of documents by id, and ``QUERY_FACTS``: any answer of a query is right.

        An answer of which normalisation leaves nothing stands nowhere.
        """
        self._documents = documents
        self._answers = {
            query_id: [bounded(text) for answer in answers or () if (text := normalised(answer))]
            for query_id, answers in column_values(facts, "query_id", "answers")
        }
        self._normalised = cache(lambda text: bounded(normalised(text)))
        self._is_hit = cache(self._stands_in)

    def hits(self, texts: pa.Table, query_ids: Sequence[str]) -> pa.Array:
        """Return ``answer_hit`` (0 or 1) of each query; null for one without an answer."""
        hits = set[str]()
        rows = column_values(texts, "query_id", "document_id", "start", "end")
        for query_id, document_id, start, end in rows:
            if query_id not in hits and self._is_hit(query_id, (document_id, start, end)):
                hits.add(query_id)
        values = [float(q in hits) if self._answers.get(q) else None for q in query_ids]
        return pa.array(values, pa.float64())

    def _stands_in(self, query_id: str, span: Span) -> bool:
        answers = self._answers.get(query_id)
        text = self._normalised(text_of(self._documents, span)) if answers else ""
        return any(answer in text for answer in answers or ())


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


class KeptUnits(NamedTuple):
    """The units of one query: how many were retrieved, how many fit, and the tokens of these."""

    n_retrieved: int = 0
    n_kept: int = 0
    tokens: int = 0


class BudgetCut(NamedTuple):
    """What fits into a budget: the run, cut for each query where it ends, and its queries."""

    run: pa.Table
    queries: Mapping[str, KeptUnits]

    def n_short(self, depth: int) -> int:
        """Return for how many queries a run deeper than ``depth`` might fit more."""
        return sum(units.n_kept == units.n_retrieved >= depth for units in self.queries.values())

    def n_nothing_fits(self) -> int:
        """Return for how many queries the first unit alone exceeds the budget."""
        return sum(units.n_kept == 0 for units in self.queries.values())

    def of_queries(self, query_ids: Collection[str]) -> BudgetCut:
        """Return what is about these queries only."""
        ids = pa.array(sorted(query_ids), pa.string())
        run = self.run.filter(pc.is_in(self.run["query_id"], value_set=ids))
        return BudgetCut(run, {q: units for q, units in self.queries.items() if q in query_ids})


def within_budget(run: pa.Table, tokens: Mapping[str, Sequence[int]], budget: int) -> BudgetCut:
    """Cut a run where the tokens of its texts, of each query by rank, exceed a budget."""
    queries: dict[str, KeptUnits] = {}
    is_kept = []
    for query_id in run["query_id"].to_pylist():
        n_retrieved, n_kept, spent = queries.get(query_id, KeptUnits())
        n_tokens = tokens[query_id][n_retrieved]
        fits = n_kept == n_retrieved and spent + n_tokens <= budget
        is_kept.append(fits)
        spent += n_tokens if fits else 0
        queries[query_id] = KeptUnits(n_retrieved + 1, n_kept + fits, spent)
    cut = run.filter(pa.array(is_kept, pa.bool_())).combine_chunks()
    return BudgetCut(RUNS.check(cut), queries)


def budget_metrics(
    cut: BudgetCut, relevant_units: pa.Table, queries: pa.Table, measures: Sequence[str]
) -> pa.Table:
    """Return the measures of the units that fit, a row for each of ``queries``.

    Null for a query without a positive judgment; a measure that is not computed from judgments is
    left out.
    """
    # What is divided by the cut-off is taken at as many units as were kept; of none it is 0 anyway.
    cutoffs = {
        q: max(cut.queries.get(q, KeptUnits()).n_kept, 1) for q in queries["query_id"].to_pylist()
    }
    cells = [("run", k) for k in {*cutoffs.values(), WHOLE_RANKING}]
    metrics = [m for name in measures if not needs_size((m := parse_metric(name)).measure)]
    labels, judged_by = {"run": relevant_units}, {"run": "run"}
    tables = query_metrics({"run": cut.run}, labels, judged_by, queries, cells, metrics)
    whole = tables["run", WHOLE_RANKING]
    table = whole.select(["query_id", *(name for name in measures if name in whole.column_names)])
    query_ids = table["query_id"].to_pylist()
    for place, name in enumerate(table.column_names):
        if needs_cutoff(name.partition("(")[0]):
            by_cutoff = {k: tables["run", k][name].to_pylist() for k in {*cutoffs.values()}}
            values = [by_cutoff[cutoffs[query]][row] for row, query in enumerate(query_ids)]
            table = table.set_column(place, name, pa.array(values, pa.float64()))
    return table
