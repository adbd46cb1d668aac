"""Why a metric fell: on which questions, and by which documents, settings or corpus.

A page that was added since answers questions as well as any, and nobody has judged it: it counts as
wrong, and pushes down what was right. So the metrics of the newer run are computed again without
the documents that were added or changed since and are not judged for the question; what a question
gets back, up to its older value, was lost by them. (Metrics on such condensed lists: Sakai,
"Alternatives to Bpref", SIGIR 2007.) The rest is by the retriever, where a setting, the code or a
package changed, by the corpus, where a document did, or by both.

Labels are no cause here: questions are compared whose labels are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.errors import NotEvaluated
from rag_assets.evaluation.metric_names import RANKING_MEASURES
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.pipeline.evaluation_names import LATEST, PREVIOUS, EvaluationNames
from rag_assets.pipeline.evaluations import Evaluation
from rag_assets.pipeline.reasons import Reason, row_contents
from rag_assets.report.diff import setting_changes
from rag_assets.report.evaluation_pairs import (
    Couple,
    EvaluationPair,
    has_documents,
    is_same,
    question_texts,
)
from rag_assets.report.result import EvaluationResult, pairs_of
from rag_assets.schemas import DOCUMENTS
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.units import SAME, Counted, Floats, counted_by_split

MAX_KEPT = 10
"""Questions, and newcomers, that are kept of a drop."""

MAX_REASONS = 2

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
        if not self.is_there or not all(map(has_documents, both)):
            return {}
        before, after = (row_contents(one.table_of("documents"), DOCUMENTS.key) for one in both)
        return {
            str(key[0]): "changed" if key in before else "added"
            for key, content in after.items()
            if before.get(key) != content
        }

    @property
    def is_there(self) -> bool:
        """Whether any document came, went or changed."""
        return not is_same(self._pair.old, self._pair.new, "documents")

    @cached_property
    def judged(self) -> set[tuple[str, str]]:
        """The questions and documents that somebody judged, whatever the grade."""
        qrels = self._pair.new.table(QRELS_KEY)
        return set(
            zip(qrels["query_id"].to_pylist(), qrels["document_id"].to_pylist(), strict=True)
        )

    def unjudged(self, run: pa.Table) -> pa.Array:
        """Return for each hit of a run whether it is of such a document, and unjudged."""
        columns = (run[name].to_pylist() for name in ("query_id", "document_id"))
        flags = [
            document in self.documents and (query, document) not in self.judged
            for query, document in zip(*columns, strict=True)
        ]
        return pa.array(flags, pa.bool_())


def newcomers(
    pair: EvaluationPair,
    names: Iterable[str],
    corpus: CorpusChange,
    lost: Mapping[str, Collection[str]] | None = None,
) -> list[Newcomer]:
    """Return the unjudged documents that came or changed, and are found at the cut-off.

    Args:
        pair: two evaluations, and a metric of retrieval.
        names: the retrievers.
        corpus: what changed in the corpus of the pair.
        lost: retriever -> the questions that count, which lost; when absent those that lost in the
            pair, and each for which such a document ranks first.

    Returns:
        The best rank of each question and document, the best ranks first.
    """
    best: dict[tuple[str, str], Newcomer] = {}
    for name in names if corpus.documents else ():
        key = pair.new.run_keys(name).get(pair.metric.cutoff or 0)
        if key is None:
            continue
        run = pair.new.table(key)
        losing = _losing(pair, name) if lost is None else lost.get(name, ())
        for row in run.filter(corpus.unjudged(run)).to_pylist():
            query, document, rank = row["query_id"], row["document_id"], row["rank"]
            counts = query in losing or (rank == 1 and lost is None)
            if query not in pair.queries or not counts:
                continue
            other = best.get((query, document))
            if other is None or rank < other.rank:
                became = corpus.documents[document]
                best[query, document] = Newcomer(document, became, query, rank, name)
    return sorted(best.values(), key=lambda one: (one.rank, one.query_id, one.document_id))


def _losing(pair: EvaluationPair, name: str) -> set[str]:
    if name not in pair.old_cells or name not in pair.new_cells:
        return set()
    before, after = (
        pairs_of(cells[name], "query_id", pair.metric.column)
        for cells in (pair.old_cells, pair.new_cells)
    )
    return {
        query
        for query, value in after.items()
        if value is not None and (before.get(query) or 0.0) - value > SAME
    }


def newcomer_lines(newcomers: Sequence[Newcomer], count: int) -> Iterator[str]:
    """Yield a line for each of the first newcomers, of ``count``, and how many more there are."""
    for newcomer in newcomers[:MAX_NEWCOMERS]:
        yield newcomer.text
    more = count - len(newcomers[:MAX_NEWCOMERS])
    if more > 0:
        yield f"and {more} more unjudged documents that were added or changed"


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
        unjudged: how much of it by documents that nobody has judged.
        rest: what the rest is by.
        newcomers: those documents, the best ranks first.
        n_newcomers: how many there are, a question and a document each.
    """

    lost: tuple[LostQuestion, ...]
    n_lost: int
    loss: float
    unjudged: float
    rest: str
    newcomers: tuple[Newcomer, ...]
    n_newcomers: int

    @property
    def newcomer_lines(self) -> Iterator[str]:
        """A line for each of the first newcomers, and how many more there are."""
        return newcomer_lines(self.newcomers, self.n_newcomers)


def causes_of(pair: EvaluationPair, couple: Couple, corpus: CorpusChange) -> Causes | None:
    """Return why a retriever has less than another had; None: no question lost anything."""
    new, old = couple
    tables = pair.old_cells[old], pair.new_cells[new]
    for counted in counted_by_split(pair.counting, tables):
        before, after = (counted.values(table, pair.metric.column) for table in tables)
        lost = np.flatnonzero(before - after > SAME)
        if not lost.size:
            continue
        total = counted.weights[~(np.isnan(before) | np.isnan(after))].sum()
        shares = counted.weights[lost] / total
        ids = [counted.query_ids[place] for place in lost]
        better = _without_newcomers(pair, new, counted, lost.tolist(), corpus)
        guilty = newcomers(pair, [new], corpus, {new: ids})
        texts = question_texts(pair.new)
        worst = sorted(lost.tolist(), key=lambda n: (after[n] - before[n], n))[:MAX_KEPT]
        named = [(counted.query_ids[n], float(before[n]), float(after[n])) for n in worst]
        return Causes(
            lost=tuple(LostQuestion(i, texts.get(i, ""), was, now) for i, was, now in named),
            n_lost=int(lost.size),
            loss=float(shares @ (before - after)[lost]),
            unjudged=float(shares @ (np.clip(better, after[lost], before[lost]) - after[lost])),
            rest=_rest(pair, old, new, corpus),
            newcomers=tuple(guilty[:MAX_KEPT]),
            n_newcomers=len(guilty),
        )
    return None


def _without_newcomers(
    pair: EvaluationPair, name: str, counted: Counted, lost: Sequence[int], corpus: CorpusChange
) -> Floats:
    """Return the values of the lost questions on the newer run without unjudged newcomers.

    What they pushed out of the deepest run is not known, and stays lost.
    """
    ids = pa.array([counted.query_ids[place] for place in lost], pa.string())
    now = counted.values(pair.new_cells[name], pair.metric.column)[list(lost)]
    if not corpus.documents or pair.metric.measure not in RANKING_MEASURES:
        return now
    keys = pair.new.run_keys(name)
    run = pair.new.table(keys[max(keys)])
    run = run.filter(pc.is_in(run["query_id"], ids))
    run = run.sort_by([("query_id", "ascending"), ("rank", "ascending")])
    drop = corpus.unjudged(run)
    if not pc.any(drop).as_py():
        return now
    condensed = run.filter(pc.invert(drop))
    place = condensed.schema.get_field_index("rank")
    ranks = _ranks(condensed["query_id"])
    condensed = condensed.set_column(place, run.schema.field("rank"), ranks)
    units = pair.new.table(relevant_units_key(name))
    units = units.filter(pc.is_in(units["query_id"], ids))
    cell = name, pair.metric.cutoff or 0
    queries = pa.table({"query_id": ids})
    tables = query_metrics(
        {name: condensed}, {name: units}, {name: name}, queries, [cell], [pair.metric]
    )
    again = counted.values(tables[cell], pair.metric.column)[list(lost)]
    return np.where(np.isnan(again), now, again)


def _ranks(query_ids: pa.ChunkedArray) -> pa.Array:
    """Return 1, 2, ... for each query of a column that is sorted by query."""
    ranks: list[int] = []
    last = None
    for query_id in query_ids.to_pylist():
        ranks.append(ranks[-1] + 1 if query_id == last else 1)
        last = query_id
    return pa.array(ranks, pa.int32())


def _rest(pair: EvaluationPair, old: str, new: str, corpus: CorpusChange) -> str:
    """Say what took what no unjudged document took."""
    if old != new:
        return "the retriever"
    read = _with_inputs(pair.new, new)
    others = {name for name in pair.new_cells if name not in read}
    reasons = [
        reason.text for reason in setting_changes(pair.old, pair.new) if not _is_of(reason, others)
    ]
    named = ", ".join(reasons[:MAX_REASONS]) + (", ..." if reasons[MAX_REASONS:] else "")
    retriever = f"the retriever ({named})" if reasons else "the retriever"
    if not corpus.is_there:
        return retriever
    return f"{retriever} or the corpus" if reasons else "the corpus"


def _is_of(reason: Reason, names: Collection[str]) -> bool:
    """Whether a reason is of one of these alone: ``bm25.k1``, ``retriever bm25 added``."""
    return any(
        reason.what.startswith((f"{name}.", f"retriever {name} ")) or reason.what == name
        for name in names
    )


def _with_inputs(result: EvaluationResult, name: str) -> set[str]:
    """Return a retriever and those that it reads, however far down."""
    configuration = result.evaluation.origin.configuration.get("retrievers", {})
    names, more = {name}, [name]
    while more:
        for value in configuration.get(more.pop(), {}).values():
            values = value if isinstance(value, list | tuple) else [value]
            new = {one for one in values if isinstance(one, str) and one in configuration} - names
            names |= new
            more += new
    return names


def last_other(names: EvaluationNames, now: Evaluation) -> Evaluation | None:
    """Return the last evaluation with another leaderboard than ``now``, of the last two."""

    def board(evaluation: Evaluation) -> str | None:
        entries = evaluation.entries_of("leaderboard")
        return entries[0].digest if entries else None

    for name in (LATEST, PREVIOUS):
        try:
            evaluation = names.find(name)
        except NotEvaluated:
            return None
        if board(evaluation) not in (None, board(now)):
            return evaluation
    return None
