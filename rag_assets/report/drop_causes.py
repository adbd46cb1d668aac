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

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.evaluation.metric_names import RANKING_MEASURES
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.pipeline.reasons import Reason
from rag_assets.report.diff import setting_changes
from rag_assets.report.evaluation_pairs import EvaluationPair, question_texts
from rag_assets.report.result import EvaluationResult
from rag_assets.report.unjudged_newcomers import CorpusChange, Newcomer, newcomers
from rag_assets.statistics.units import SAME, Counted, Floats, counted_by_split

KEPT = 10
"""So many questions, and so many newcomers, are kept of a drop."""

REASONS_SHOWN = 2


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


def causes_of(pair: EvaluationPair, old: str, new: str, corpus: CorpusChange) -> Causes | None:
    """Return why retriever ``new`` has less than ``old`` had; None: no question lost anything.

    Args:
        pair: two evaluations, and a metric of retrieval.
        old: name of a retriever in the older evaluation.
        new: name of one in the newer.
        corpus: what changed in the corpus of the pair.
    """
    tables = pair.old_cells[old], pair.new_cells[new]
    for counted in counted_by_split(pair.counting, tables):
        before, after = (counted.values(table, pair.metric.column) for table in tables)
        lost = np.flatnonzero(before - after > SAME)
        if not lost.size:
            continue
        total = counted.weights[~(np.isnan(before) | np.isnan(after))].sum()
        shares = counted.weights[lost] / total
        better = _without_newcomers(pair, new, counted, lost.tolist(), corpus)
        ids = {counted.query_ids[place] for place in lost}
        found = newcomers(pair, [new], corpus, {new: ids}, only_lost=True)
        return Causes(
            lost=_worst(pair.new, counted, before, after, lost.tolist()),
            n_lost=int(lost.size),
            loss=float(shares @ (before - after)[lost]),
            unjudged=float(shares @ (np.clip(better, after[lost], before[lost]) - after[lost])),
            rest=_rest(pair, old, new, corpus),
            newcomers=tuple(found[:KEPT]),
            n_newcomers=len(found),
        )
    return None


def _worst(
    result: EvaluationResult,
    counted: Counted,
    before: Floats,
    after: Floats,
    lost: Sequence[int],
) -> tuple[LostQuestion, ...]:
    texts = question_texts(result)
    order = sorted(lost, key=lambda place: (after[place] - before[place], place))[:KEPT]
    return tuple(
        LostQuestion(
            counted.query_ids[place],
            texts.get(counted.query_ids[place], ""),
            float(before[place]),
            float(after[place]),
        )
        for place in order
    )


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
    run = run.filter(pc.is_in(run["query_id"], ids)).sort_by(
        [("query_id", "ascending"), ("rank", "ascending")]
    )
    drop = pa.array(corpus.unjudged(run), pa.bool_())
    if not pc.any(drop).as_py():
        return now
    kept = run.filter(pc.invert(drop))
    kept = kept.set_column(
        kept.schema.get_field_index("rank"), run.schema.field("rank"), _ranks(kept["query_id"])
    )
    units = pair.new.table(relevant_units_key(name))
    units = units.filter(pc.is_in(units["query_id"], ids))
    cell = name, pair.metric.cutoff or 0
    tables = query_metrics(
        {name: kept},
        {name: units},
        {name: name},
        pa.table({"query_id": ids}),
        [cell],
        [pair.metric],
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
    own = _inputs(pair.new, new)
    others = {name for name in pair.new_cells if name not in own}
    reasons = [
        reason.text for reason in setting_changes(pair.old, pair.new) if not _is_of(reason, others)
    ]
    shown = ", ".join(reasons[:REASONS_SHOWN]) + (", ..." if reasons[REASONS_SHOWN:] else "")
    retriever = f"the retriever ({shown})" if reasons else "the retriever"
    if not corpus.is_there:
        return retriever
    return f"{retriever} or the corpus" if reasons else "the corpus"


def _is_of(reason: Reason, names: Collection[str]) -> bool:
    """Whether a reason is of one of these alone: ``bm25.k1``, ``retriever bm25 added``."""
    return any(
        reason.what.startswith((f"{name}.", f"retriever {name} ")) or reason.what == name
        for name in names
    )


def _inputs(result: EvaluationResult, name: str) -> set[str]:
    """Return a retriever and those that it reads, however far down."""
    configuration = result.evaluation.origin.configuration.get("retrievers", {})
    own: set[str] = set()
    more = [name]
    while more:
        one = more.pop()
        if one in own or one not in configuration:
            continue
        own.add(one)
        for value in configuration[one].values():
            more += [
                item
                for item in (value if isinstance(value, list | tuple) else [value])
                if isinstance(item, str)
            ]
    return own or {name}
