"""What a sample of labels estimates of retrievers: rows for programs, and sheets.

It stands in tables of its own, under names of its own (``sampled_dcg@10``): the leaderboard's
columns are of complete labels. Everything speaks of *questions like these*, unless it is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.query_facts import ALL
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY, counting_of
from rag_assets.labels.sampling.estimates import Estimate, Estimator, no_interval_text
from rag_assets.labels.sampling.judgment_log import SKIPPED
from rag_assets.labels.sampling.label_sample import OPEN, stored_sample
from rag_assets.labels.sampling.sample_stage import (
    SAMPLED_ESTIMATES_KEY,
    SAMPLED_LABELS_KEY,
    SAMPLED_PASSAGES_KEY,
    passages_of,
)
from rag_assets.labels.sampling.standing import ITEMS, QUESTIONS, finite
from rag_assets.report.evaluation_pairs import EvaluationPair
from rag_assets.report.metric_choice import SAMPLED, metric_at
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sheet import INTERVAL, TEXT, Column, Sheet, interval_of
from rag_assets.report.view import Context, View
from rag_assets.store.artifacts import ArtifactKey

Row = dict[str, Any]

_OLD = "\0old"
"""No name of a retriever: that of the older evaluation."""

HOW = "`rag-assets label` asks for the labels that tell most"


def sampled_rows(result: EvaluationResult) -> list[Row]:
    """Return rows of :data:`rag_assets.schemas.SAMPLED_ESTIMATES`; none without a sample."""
    entries = result.evaluation.entries_of(SAMPLED_ESTIMATES_KEY.asset)
    return [row for entry in entries for row in result.table(entry.key).to_pylist()]


def is_wholly_graded(result: EvaluationResult) -> bool:
    """Return whether the labels are complete and no passage of the sample is left to ask."""
    if not (result.has_metrics and result.evaluation.entries_of(SAMPLED_LABELS_KEY.asset)):
        return False
    return not {OPEN, SKIPPED} & set(result.table(SAMPLED_LABELS_KEY)["state"].to_pylist())


def sampled_table(result: EvaluationResult) -> pa.Table:
    """Return the table of :data:`rag_assets.schemas.SAMPLED_ESTIMATES`.

    Raises:
        NotEvaluated: the evaluation has no sample of labels.
    """
    if not result.evaluation.entries_of(SAMPLED_ESTIMATES_KEY.asset):
        raise _nothing(result, "labels")
    return result.table(SAMPLED_ESTIMATES_KEY)


def sampled_sheets(result: EvaluationResult) -> list[Sheet]:
    """Return a sheet of each metric that a sample estimates; none without a sample.

    Nor where every passage is graded: then the leaderboard says it all.
    """
    rows = [] if is_wholly_graded(result) else sampled_rows(result)
    by_metric = {
        row["metric"]: [one for one in rows if one["metric"] == row["metric"]] for row in rows
    }
    return [_sheet(metric, own) for metric, own in by_metric.items()]


def _sheet(metric: str, rows: Sequence[Row]) -> Sheet:
    title = f"{metric} estimated from a sample of labels, {rows[0]['n']} questions"
    columns = (
        Column("retriever", "retriever", TEXT),
        Column("value", "estimate", is_required=True),
        *_intervals(rows),
        Column("n_labels", "labels", "d"),
        Column("effective_labels", "effective", ".1f", help="labels of a plain random sample"),
    )
    return Sheet(title, columns, rows, notes=sampled_notes(rows))


def _intervals(rows: Sequence[Row]) -> Iterator[Column]:
    """Yield both intervals, each with what it speaks of."""
    for target, of in (("questions", QUESTIONS), ("items", ITEMS)):
        bounds = (f"{target}_low", f"{target}_high")
        yield Column(target, f"{interval_of(rows)}\n{of}", INTERVAL, bounds=bounds)


def sampled_notes(rows: Sequence[Row]) -> list[str]:
    """Return what the numbers do not say."""
    notes = []
    # Rows of an older evaluation do not say how many.
    notes += [
        f"{row['retriever']} has no interval: {no_interval_text(row['n_no_chance'])}"
        for row in rows
        if row.get("n_no_chance")
    ]
    if any(row["lowest"] != row["highest"] for row in rows):
        notes.append("what people cannot tell is taken to be missing at random")
    return notes


class SampledDifference(NamedTuple):
    """Two retrievers by a sample of labels.

    Attributes:
        row: see :func:`sampled_differences`.
        means: the estimates of the first and the second.
        error: standard error of the difference; infinite: nothing is known.
        freedom: of Student's distribution.
    """

    row: Row
    means: tuple[float, float]
    error: float
    freedom: float

    @property
    def p_drop(self) -> float:
        """One-sided; how often chance alone gives so large a drop; 1 where nothing is known."""
        from scipy.special import stdtr

        if not 0 < self.error < float("inf"):
            return 1.0
        return float(stdtr(self.freedom, self.row["difference"] / self.error))


def sampled_difference(
    results: tuple[EvaluationResult, EvaluationResult],
    names: tuple[str, str],
    metric: Metric,
    level: float,
) -> SampledDifference:
    """Compare two retrievers, of one evaluation or of two; the labels are those of the second.

    Args:
        results: whose passages; the second one's labels and questions count.
        names: the retriever of each.
        metric: such as ``sampled_dcg@10``.
        level: of the intervals.

    Raises:
        NotEvaluated: one of them has no passages to be judged.
        UsageError: no passages as deep are kept.
    """
    own = metric._replace(measure=metric.measure.removeprefix(SAMPLED))
    new = results[1]
    table = _required(new, SAMPLED_LABELS_KEY)
    manifest = new.manifest(SAMPLED_LABELS_KEY)
    depth = int(manifest.config["depth"]) if manifest is not None else int(own.cutoff or 0)
    if int(own.cutoff or 0) > depth:
        raise UsageError(f"{metric} is deeper than the sample; allowed: a cut-off up to {depth}")
    known = sampled_names(new)
    passages = passages_of(_required(new, SAMPLED_PASSAGES_KEY), known)
    first, second = names
    if second not in known:
        raise _nothing(new, f"labels for {second}")
    if results[0] is not new:
        before = _passages(results[0], first)
        first = second if before.equals(passages[second]) else _OLD  # equal: exactly no difference
        passages[first] = before
    ids = [str(one) for one in new.queries["query_id"].to_pylist()]
    sample = stored_sample(table, passages, ids, depth)
    estimator = Estimator(sample, own, _clusters(new, ids), len(known))
    pair = second, first
    one = estimator.differences("questions", level, [pair])[pair]
    item = estimator.differences("items", level, [pair])[pair]
    values = dict(zip(sample.pool.systems, estimator.values().tolist(), strict=True))
    row: Row = {"name_a": names[0], "name_b": names[1], "metric": str(metric)}
    row |= {"difference": one.value, "n": len(ids), "confidence": level}
    row |= _bounds("questions", one) | _bounds("items", item)
    row |= {"n_labels": one.n_labels, "effective_labels": one.effective_labels}
    row["n_no_chance"] = one.n_no_chance
    return SampledDifference(row, (values[first], values[second]), one.error, one.freedom)


def _bounds(target: str, one: Estimate) -> Row:
    return {f"{target}_low": finite(one.low), f"{target}_high": finite(one.high)}


def _clusters(result: EvaluationResult, ids: Sequence[str]) -> list[str] | None:
    manifest = result.manifest(SAMPLED_ESTIMATES_KEY)
    is_clustered = manifest is not None and manifest.config["clustered"]
    if not is_clustered or not result.evaluation.entries_of(QUERY_FACTS_KEY.asset):
        return None
    facts = counting_of(result.table)
    names = dict(zip(*(facts[c].to_pylist() for c in ("query_id", "cluster")), strict=True))
    return [names.get(one, one) for one in ids]


def _passages(result: EvaluationResult, retriever: str) -> pa.Table:
    table = _required(result, SAMPLED_PASSAGES_KEY)
    if retriever not in sampled_names(result):
        raise _nothing(result, f"labels for {retriever}")
    return passages_of(table, [retriever])[retriever]


def _required(result: EvaluationResult, key: ArtifactKey) -> pa.Table:
    names = [entry.key for entry in result.evaluation.entries_of(key.asset)]
    if key not in names:
        raise _nothing(result, "labels")
    return result.table(key)


def _nothing(result: EvaluationResult, what: str) -> NotEvaluated:
    one = result.evaluation
    problem = f"evaluation {one.evaluation_id} of {one.experiment} has no sample of {what}"
    return NotEvaluated(f"{problem}; {HOW}, and then evaluate")


def sampled_pair(
    old: EvaluationResult, new: EvaluationResult, metric: Metric, split: str | None
) -> EvaluationPair:
    """Return two evaluations of the same questions, seen through what a sample estimates.

    Raises:
        UsageError: the questions differ, or a split is wanted.
    """
    if split is not None:
        raise UsageError(f"{metric} is over all questions together; --split does not apply")
    digests = [{e.digest for e in one.evaluation.entries_of("queries")} for one in (old, new)]
    if digests[0] != digests[1]:
        raise UsageError(f"the questions are not the same, so {metric} is not comparable")
    ids = frozenset(str(one) for one in new.queries["query_id"].to_pylist())
    return EvaluationPair(old, new, metric, ALL, ids)


def sampled_names(result: EvaluationResult) -> list[str]:
    """Return the retrievers whose passages are sampled, in the order of the experiment."""
    manifest = result.manifest(SAMPLED_PASSAGES_KEY)
    return list(manifest.config["retrievers"]) if manifest is not None else []


def sampled_differences(
    result: EvaluationResult, metric: Metric, names: Sequence[str] = ()
) -> list[Row]:
    """Return a row a pair of retrievers, read as "the second minus the first".

    Returns:
        ``name_a``, ``name_b``, ``metric``, ``difference``; ``questions_low``, ``questions_high``,
        ``items_low``, ``items_high`` (None: nothing is known), ``n_labels``, ``effective_labels``,
        ``n_no_chance`` (passages that had no chance to be asked yet), ``n`` questions,
        ``confidence``.

    Raises:
        NotEvaluated: the evaluation has no sample of labels.
        UsageError: an unknown retriever.
    """
    known = sampled_names(result)
    _required(result, SAMPLED_LABELS_KEY)
    for name in names:
        if name not in known:
            raise UsageError(f"unknown retriever {allowed_names(name, known)}")
    pairs = [(names[0], names[1])] if names else list(combinations(known, 2))
    level = _level(result)
    return [sampled_difference((result, result), pair, metric, level).row for pair in pairs]


def _level(result: EvaluationResult) -> float:
    manifest = result.manifest(SAMPLED_ESTIMATES_KEY)
    return float(manifest.config["confidence"]) if manifest is not None else 0.95


def sampled_text(row: Row) -> str:
    """Return what an estimated difference comes to, in one sentence that claims no more."""
    a, b = row["name_a"], row["name_b"]
    if row["questions_low"] is None:
        return f"{b} against {a}: {no_interval_text(row['n_no_chance'])}"
    better, worse = (b, a) if row["difference"] >= 0 else (a, b)
    low, high = row["questions_low"], row["questions_high"]
    low, high = (low, high) if better == b else (-high, -low)
    rest = f"{abs(row['difference']):.4f} [{low:.4f}, {high:.4f}], {row['n_labels']} labels"
    if low > 0:
        return f"{better} is better than {worse} by {rest}, on {QUESTIONS}"
    return f"no difference shown between {a} and {b} on {QUESTIONS}: {better} is ahead by {rest}"


def sampled_differences_sheet(rows: Sequence[Row], title: str) -> Sheet:
    """Return pairs, each read as "the second minus the first", and what they come to."""
    pairs = [{**row, "pair": f"{row['name_b']} - {row['name_a']}"} for row in rows]
    columns = (
        Column("pair", "retrievers", TEXT),
        Column("difference", "difference", "+.4f", is_required=True),
        *_intervals(rows),
        Column("n_labels", "labels", "d"),
    )
    return Sheet(title, columns, pairs, notes=[sampled_text(row) for row in rows])


MAX_PAIRS = 12
"""Pairs in the section of the page."""


def sampled(view: View) -> Context | None:
    """Return the section of the page; None without a sample, or with all of it graded."""
    sheets = sampled_sheets(view.result)
    if not sheets:
        return None
    metric = metric_at(f"{SAMPLED}{sheets[0].rows[0]['metric']}", view.result.primary)
    pairs = sampled_differences(view.result, metric)[:MAX_PAIRS]
    return {"sheets": sheets, "pairs": [sampled_text(row) for row in pairs]}
