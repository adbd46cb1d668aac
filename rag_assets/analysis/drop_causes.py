"""Why a metric fell: on which questions, and by which documents, settings or corpus.

A page that was added since answers questions as well as any, and nobody has judged it: it counts as
wrong, and pushes down what was right. So the metrics of the newer run are computed again without
the documents that were added or changed since and are not judged for the question; what a question
gets back, up to its older value, was lost by them. (Metrics on such condensed lists: Sakai,
"Alternatives to Bpref", SIGIR 2007.) The rest is by what else changed.

Labels are no cause here: questions are compared whose labels are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.analysis.comparability import has_documents, is_same, question_texts
from rag_assets.analysis.evaluation_pairs import EvaluationPair
from rag_assets.evaluation.metric_names import RANKING_MEASURES, needs_size
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.pipeline.reasons import row_contents
from rag_assets.pipeline.stored_evaluation import rows_of_queries
from rag_assets.schemas import DOCUMENTS, column_values
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.units import SAME, Counted, Floats, counted_by_split

MAX_KEPT = 10
"""Questions, and newcomers, that are kept of a drop."""

MAX_NEWCOMERS = 5
"""Newcomers that are named in lines."""

MAX_NAMED = 3
"""Questions that are named in a line."""


@dataclass(frozen=True)
class Newcomer:
    """A document that nobody has judged for a question, and was not there as it is before.

    Attributes:
        document_id: the document.
        became: ``added`` or ``changed``.
        query_id: the question.
        rank: its best one, 1 is the best.
        retriever: who ranks it so.
    """

    document_id: str
    became: str
    query_id: str
    rank: int
    retriever: str

    @property
    def text(self) -> str:
        """Return ``added: pricing.md, unjudged, ranks 1 for q01``."""
        return f"{self.became}: {self.document_id}, unjudged, ranks {self.rank} for {self.query_id}"


class CorpusChange:
    """The documents that came or changed between two evaluations; read when they are needed."""

    def __init__(self, pair: EvaluationPair) -> None:
        """Look at the documents of a pair."""
        self._pair = pair

    @cached_property
    def documents(self) -> Mapping[str, str]:
        """Document -> ``added`` or ``changed``; empty where the documents of one are gone."""
        both = (self._pair.old, self._pair.new)
        if is_same(*both, "documents") or not all(map(has_documents, both)):
            return {}
        before, after = (row_contents(side.table_of("documents"), DOCUMENTS.key) for side in both)
        return {
            str(key[0]): "changed" if key in before else "added"
            for key, content in after.items()
            if before.get(key) != content
        }

    @cached_property
    def judged(self) -> set[tuple[str, str]]:
        """The questions and documents that somebody judged, whatever the grade."""
        return set(column_values(self._pair.new.table(QRELS_KEY), "query_id", "document_id"))

    def unjudged(self, run: pa.Table) -> pa.Array:
        """Return for each hit of a run whether it is of such a document, and unjudged."""
        flags = [
            document in self.documents and (query, document) not in self.judged
            for query, document in column_values(run, "query_id", "document_id")
        ]
        return pa.array(flags, pa.bool_())


@dataclass(frozen=True)
class LostQuestion:
    """A question on which a retriever has less than before."""

    query_id: str
    text: str
    old: float
    new: float


@dataclass(frozen=True)
class Causes:
    """Why the metric of one retriever is lower.

    Attributes:
        lost: the questions that lost most, the worst first.
        n_lost: how many lost.
        loss: what they lost together, as a part of the mean.
        unjudged: how much of it by documents that nobody has judged, at least.
        unjudged_at_most: the same with all that may be lost below the ends of stored rankings.
        newcomers: those documents, the best ranks first.
        n_newcomers: how many there are, a question and a document each.
    """

    lost: tuple[LostQuestion, ...]
    n_lost: int
    loss: float
    unjudged: float
    unjudged_at_most: float
    newcomers: tuple[Newcomer, ...]
    n_newcomers: int

    def lines(self, retriever: str, change: float) -> Iterator[str]:
        """Yield the worst questions, what was lost and won, and the documents that nobody judged.

        Args:
            retriever: whose metric is lower.
            change: of its mean.
        """
        worst = self.lost[:MAX_NAMED]
        named = "; ".join(f"{row.query_id} ({row.old:.4f} -> {row.new:.4f})" for row in worst)
        more = self.n_lost - len(worst)
        yield f"  {retriever} lost most on {named}" + (f"; and {more} more" if more else "")
        lead = "at least " if self.unjudged_at_most - self.unjudged > SAME else ""
        by = f", {lead}{self.unjudged:.4f} of it to unjudged documents"
        won = self.loss + change
        elsewhere = f", and {won:.4f} was won on other questions" if won >= 0.00005 else ""
        yield f"  {self.loss:.4f} of the mean was lost{by if self.newcomers else ''}{elsewhere}"
        yield from (f"  {newcomer.text}" for newcomer in self.newcomers[:MAX_NEWCOMERS])
        if (more := self.n_newcomers - MAX_NEWCOMERS) > 0:
            yield f"  and {more} more unjudged documents that were added or changed"


def causes_of(pair: EvaluationPair, name: str, corpus: CorpusChange) -> Causes | None:
    """Return why a retriever has less than before; None: no question lost anything."""
    tables = pair.old_cells[name], pair.new_cells[name]
    for counted in counted_by_split(pair.counting, tables):
        before, after = (counted.values(table, pair.metric.column) for table in tables)
        lost = np.flatnonzero(before - after > SAME)
        if not lost.size:
            continue
        total = counted.weights[~(np.isnan(before) | np.isnan(after))].sum()
        shares = counted.weights[lost] / total
        unjudged, at_most = (
            float(shares @ (np.clip(values, after[lost], before[lost]) - after[lost]))
            for values in _without_newcomers(pair, name, counted, lost.tolist(), corpus)
        )
        guilty = _newcomers(pair, name, corpus, [counted.query_ids[n] for n in lost])
        texts = question_texts(pair.new)
        worst = sorted(lost.tolist(), key=lambda n: (after[n] - before[n], n))[:MAX_KEPT]
        named = [(counted.query_ids[n], float(before[n]), float(after[n])) for n in worst]
        return Causes(
            lost=tuple(LostQuestion(i, texts.get(i, ""), was, now) for i, was, now in named),
            n_lost=int(lost.size),
            loss=float(shares @ (before - after)[lost]),
            unjudged=unjudged,
            unjudged_at_most=at_most,
            newcomers=tuple(guilty[:MAX_KEPT]),
            n_newcomers=len(guilty),
        )
    return None


def _newcomers(
    pair: EvaluationPair, name: str, corpus: CorpusChange, lost: Collection[str]
) -> list[Newcomer]:
    """Return the unjudged documents that came or changed, and are found for lost questions.

    Each question and document has its best rank; the best ranks come first.
    """
    key = pair.new.run_keys(name).get(pair.metric.cutoff or 0)
    if key is None or not corpus.documents:
        return []
    run, best = pair.new.table(key), dict[tuple[str, str], Newcomer]()
    for row in run.filter(corpus.unjudged(run)).sort_by("rank").to_pylist():
        query, document = row["query_id"], row["document_id"]
        if query in lost:
            newcomer = Newcomer(document, corpus.documents[document], query, row["rank"], name)
            best.setdefault((query, document), newcomer)
    return sorted(best.values(), key=lambda new: (new.rank, new.query_id, new.document_id))


def _without_newcomers(
    pair: EvaluationPair, name: str, counted: Counted, lost: Sequence[int], corpus: CorpusChange
) -> tuple[Floats, Floats]:
    """Return the values of the lost questions without unjudged newcomers: at least, and at most.

    What a list as long as the longest has below its end is not known: without the newcomers it may
    be anything, down to the cut-off.
    """
    ids = [counted.query_ids[place] for place in lost]
    now = counted.values(pair.new_cells[name], pair.metric.column)[list(lost)]
    measure, cutoff = pair.metric.measure, pair.metric.cutoff or 0
    if not corpus.documents or measure not in RANKING_MEASURES or needs_size(measure):
        return now, now
    ranking = _ranking(pair, name)
    run = rows_of_queries(ranking, ids).sort_by([("query_id", "ascending"), ("rank", "ascending")])
    drop = corpus.unjudged(run)
    if not pc.any(drop).as_py():
        return now, now
    condensed = run.filter(pc.invert(drop))
    of_query = condensed["query_id"].to_numpy()
    _, first, query = np.unique(of_query, return_index=True, return_inverse=True)
    ranks = pa.array(np.arange(1, len(query) + 1) - first[query], pa.int32())
    condensed = condensed.drop_columns("rank").append_column("rank", ranks)
    units = rows_of_queries(pair.new.table(relevant_units_key(name)), ids)
    queries, cell = pa.table({"query_id": pa.array(ids, pa.string())}), (name, cutoff)
    tables = query_metrics(
        {name: condensed}, {name: units}, {name: name}, queries, [cell], [pair.metric]
    )
    again = counted.values(tables[cell], pair.metric.column)[list(lost)]
    again = np.where(np.isnan(again), now, again)
    sizes, left = (Counter(table["query_id"].to_pylist()) for table in (ranking, condensed))
    longest = max(sizes.values())
    is_cut = [sizes[i] == longest and left[i] < min(cutoff, longest) for i in ids]
    return again, np.where(is_cut, np.inf, again)


def _ranking(pair: EvaluationPair, name: str) -> pa.Table:
    """Return what the newer run was cut from; where that is gone, the deepest run."""
    keys = pair.new.run_keys(name)
    run = pair.new.manifest(keys[pair.metric.cutoff or max(keys)])
    for entry in pair.new.evaluation.rankings:
        if run and entry.fingerprint == run.facts.get("ranking") and pair.new.exists(entry):
            return pair.new.content_of(entry)
    return pair.new.table(keys[max(keys)])
