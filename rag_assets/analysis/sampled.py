"""What a sample of labels estimates of retrievers: rows for programs, and sheets.

It stands in tables of its own, under names of its own (``sampled_dcg@10``): the leaderboard's
columns are of complete labels. Everything speaks of *questions like these*, unless it is named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache, partial
from itertools import combinations

import numpy as np
import pyarrow as pa

from rag_assets.analysis.evaluation_pairs import (
    NO_VALUES,
    Cells,
    Drop,
    Drops,
    EstimatedSource,
    EvaluationPair,
    Mean,
    pair_sentence,
)
from rag_assets.analysis.result import SAMPLED, EvaluationResult, Row, grouped
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.query_facts import ALL
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY, counting_of
from rag_assets.labels.logs import SKIPPED
from rag_assets.labels.pool import estimable_metric
from rag_assets.labels.sampling.estimates import Estimator, no_interval_text
from rag_assets.labels.sampling.label_sample import OPEN, stored_sample
from rag_assets.labels.sampling.sample_stage import (
    ITEMS,
    QUESTIONS,
    SAMPLED_ESTIMATES_KEY,
    SAMPLED_LABELS_KEY,
    SAMPLED_PASSAGES_KEY,
    finite,
    passages_of,
)
from rag_assets.pipeline.history import History
from rag_assets.sheets.sheet import INTERVAL, TEXT, Column, Sheet, form_of, interval_of
from rag_assets.statistics.comparisons import holm
from rag_assets.statistics.paired_differences import look_level
from rag_assets.statistics.paired_tests import detectable
from rag_assets.store.artifacts import ArtifactKey

_OLD = "\0old "
"""Before the name of a retriever: what it returned in the older evaluation."""


def is_wholly_graded(result: EvaluationResult) -> bool:
    """Return whether the labels are complete and no passage of the sample is left to ask."""
    if not (result.has_metrics and result.evaluation.entries_of(SAMPLED_LABELS_KEY.asset)):
        return False
    return not {OPEN, SKIPPED} & set(result.table(SAMPLED_LABELS_KEY)["state"].to_pylist())


def sampled_sheets(result: EvaluationResult) -> list[Sheet]:
    """Return a sheet of each metric that a sample estimates; none without a sample.

    Nor where every passage is graded: then the leaderboard says it all.
    """
    rows = [] if is_wholly_graded(result) else result.rows_of(SAMPLED_ESTIMATES_KEY.asset)
    title = "{} estimated from a sample of labels, {} questions"
    left_out = "which count 0 here; `rag-assets compare` leaves them out"
    failed = {name: len(ids) for name, ids in _failed(result).items() if ids}
    notes = [f"{name} failed on {n} questions, {left_out}" for name, n in failed.items()]
    return [
        estimates_sheet(title.format(metric, of_metric[0]["n"]), of_metric, notes)
        for metric, of_metric in grouped(rows, "metric").items()
    ]


def decisive_sheets(result: EvaluationResult) -> list[Sheet]:
    """Return the sheet of the metric that is decided; none without a sample."""
    return sampled_sheets(result)[:1]


def estimates_sheet(title: str, rows: Sequence[Row], notes: Sequence[str] = ()) -> Sheet:
    """Return a row a retriever, with both intervals; rows have the ``confidence`` of these."""
    columns = (
        Column("retriever", "retriever", TEXT),
        Column("value", "estimate", form_of(rows[0]["metric"]), is_required=True),
        *_intervals(rows),
        Column("n_labels", "labels", "d"),
        Column("effective_labels", "effective", ".1f", help="equally good plain random sample"),
    )
    return Sheet(title, columns, rows, notes=[*sampled_notes(rows), *notes])


def _intervals(rows: Sequence[Row]) -> Iterator[Column]:
    """Yield both intervals, each with what it speaks of."""
    for target, of in (("questions", QUESTIONS), ("items", ITEMS)):
        bounds = (f"{target}_low", f"{target}_high")
        folded = of.replace(" like", "\nlike").replace(" and", "\nand")
        yield Column(target, f"{interval_of(rows)}\n{folded}", INTERVAL, bounds=bounds)


def sampled_notes(rows: Sequence[Row]) -> list[str]:
    """Return what the numbers do not say."""
    notes = [
        f"{row['retriever']} has no interval: {no_interval_text(row['n_no_chance'])}"
        for row in rows
        if row.get("n_no_chance")  # rows of an older evaluation do not say how many
    ]
    if any(row["lowest"] != row["highest"] for row in rows):
        notes.append("passages marked 'cannot tell' are treated as missing at random")
    return notes


class SampledLabels(EstimatedSource):
    """What a sample of labels estimates of retrievers, never mixed with complete labels."""

    measured = ("sampled_passages", "sampled_labels")
    only_whole = (
        "is estimated over all questions together, not per question; "
        "see `rag-assets compare`, `gate` and `history`"
    )

    def cells(self, result: EvaluationResult) -> Cells:
        """Return the retrievers whose passages are sampled; no single question has a value."""
        required(result, SAMPLED_LABELS_KEY)
        nothing = pa.table({self.metric.column: pa.array([], pa.float64())})
        return dict.fromkeys(sampled_names(result), nothing)

    def split(self, result: EvaluationResult) -> str:
        """Return ``all``, the only one; another one that was asked for is refused."""
        if result.wanted_split is not None:
            problem = f"{self.metric} is estimated over all questions together"
            raise UsageError(f"{problem}; --split does not apply")
        return ALL

    def history(self, history: History, since: str) -> list[Row]:
        """Return the estimates."""
        rows = history.judged_metric("", str(self.metric).removeprefix(SAMPLED), since)
        return [{**row, "retriever": row["name"], "n_queries": row["n"]} for row in rows]

    def drops(self, pair: EvaluationPair, chosen: Sequence[str], alpha: float) -> Drops:
        """Compare what both returned by the sample of the newer one, on questions like these."""
        estimator_of = cache(partial(self._estimator, pair.new, older=pair.old, names=chosen))
        failed = _failed(pair.old), _failed(pair.new)
        drops: list[Drop | str] = []
        for name in chosen:
            ids = frozenset(pair.queries).difference(*(queries[name] for queries in failed))
            drops.append(_drop(estimator_of(ids), name, len(ids), alpha) if ids else NO_VALUES)
        adjusted = holm([None if isinstance(drop, str) else drop.p for drop in drops])
        return list(zip(drops, adjusted, strict=True))

    def means(self, pair: EvaluationPair) -> dict[str, Mean]:
        """Return the estimates, with the intervals that speak of questions like these."""
        estimator_of, failed = cache(partial(self._estimator, pair.new)), _failed(pair.new)
        means = dict.fromkeys(failed, Mean(None))
        for name, queries in failed.items():
            if ids := frozenset(pair.queries) - queries:
                of = estimator_of(ids).estimates("questions", pair.confidence)[name]
                means[name] = Mean(of.value, finite(of.low), finite(of.high), len(ids))
        return means

    def differences(self, result: EvaluationResult, names: Sequence[str] = ()) -> list[Row]:
        """Return a row a pair of retrievers, read as "the second minus the first".

        It is of the questions on which neither failed; a pair without any has no row.

        Returns:
            ``name_a``, ``name_b``, ``metric``, ``difference``; ``questions_low``,
            ``questions_high``, ``items_low``, ``items_high`` (None: nothing is known),
            ``n_labels``, ``effective_labels``, ``n_no_chance`` (passages that could not
            be drawn yet), ``n`` questions, ``confidence``.

        Raises:
            NotEvaluated: the evaluation has no sample of labels.
            UsageError: an unknown retriever, or a split is wanted.
        """
        self.split(result)
        sampled = sampled_names(result)
        for name in names:
            if name not in sampled:
                raise UsageError(f"unknown retriever {allowed_names(name, sampled)}")
        ids = frozenset(result.queries["query_id"].to_pylist())
        estimator_of, failed = cache(partial(self._estimator, result)), _failed(result)
        manifest = result.manifest(SAMPLED_ESTIMATES_KEY)
        level = float(manifest.config["confidence"]) if manifest is not None else 0.95
        pairs = [(names[0], names[1])] if names else list(combinations(sampled, 2))
        rows: list[Row] = []
        for first, second in pairs:
            if not (common := ids - failed[first] - failed[second]):
                continue
            turned, estimator = [(second, first)], estimator_of(common)
            (one,) = estimator.differences("questions", level, turned).values()
            (item,) = estimator.differences("items", level, turned).values()
            row: Row = {"name_a": first, "name_b": second, "metric": str(self.metric)}
            row |= {"difference": one.value, "n": len(common), "confidence": level}
            row |= {"questions_low": finite(one.low), "questions_high": finite(one.high)}
            row |= {"items_low": finite(item.low), "items_high": finite(item.high)}
            row |= {"n_labels": one.n_labels, "effective_labels": one.effective_labels}
            rows.append({**row, "n_no_chance": one.n_no_chance})
        return rows

    def difference_columns(self, rows: Sequence[Row]) -> Iterator[Column]:
        """Yield the difference with both intervals."""
        yield Column("difference", "difference", "+.4f", is_required=True)
        yield from _intervals(rows)
        yield Column("n_labels", "labels", "d")

    def difference_text(self, row: Row) -> str:
        """Return what one of them comes to, in one sentence that claims no more."""
        a, b = row["name_a"], row["name_b"]
        if row["questions_low"] is None:
            return f"{b} against {a}: {no_interval_text(row['n_no_chance'])}"
        bounds, labels = (row["questions_low"], row["questions_high"]), f"{row['n_labels']} labels"
        on = f"on {QUESTIONS}"
        return pair_sentence((a, b), row["difference"], bounds, "is better than", labels, on)

    def _estimator(
        self,
        result: EvaluationResult,
        questions: Collection[str],
        older: EvaluationResult | None = None,
        names: Sequence[str] = (),
    ) -> Estimator:
        """Return what estimates the metric; ``names`` of an older one stand after :data:`_OLD`."""
        metric = self.metric._replace(measure=self.metric.measure.removeprefix(SAMPLED))
        table, sampled = required(result, SAMPLED_LABELS_KEY), sampled_names(result)
        passages = passages_of(required(result, SAMPLED_PASSAGES_KEY), sampled)
        if older is not None:
            tables = passages_of(required(older, SAMPLED_PASSAGES_KEY), names)
            for name, rows in tables.items():  # the labels of now count
                unlabelled = rows.drop_columns("label").append_column("label", pa.nulls(len(rows)))
                passages[_OLD + name] = unlabelled
        both = (board.manifest(SAMPLED_PASSAGES_KEY) for board in (result, older or result))
        depth = min(int(manifest.config["depth"]) for manifest in both if manifest is not None)
        if int(metric.cutoff or 0) > depth:
            problem = f"{self.metric} is deeper than the sample"
            raise UsageError(f"{problem}; allowed: a cut-off up to {depth}")
        ids = [query for query in result.queries["query_id"].to_pylist() if query in questions]
        sample = stored_sample(table, passages, ids, depth)
        return Estimator(sample, metric, _clusters(result, ids), len(sampled))


def _drop(estimator: Estimator, name: str, n: int, alpha: float) -> Drop | str:
    """Return how an estimate went; the reason where the sample does not hold for both."""
    from scipy.special import stdtr

    systems, pair = estimator.sample.pool.systems, (name, _OLD + name)
    values = estimator.estimates()
    new, old = (values[name] for name in pair)
    if np.array_equal(*(estimator.weights[systems.index(system)] for system in pair)):
        return Drop(n, old.value, old.value, 0.0, 0.0, 0.0, None, None)
    change = estimator.differences("questions", 1 - alpha, [pair])[pair]
    if old.n_no_chance and not new.n_no_chance:
        problem = f"of what it returned then, the sample never had {old.n_no_chance} passages"
        return f"{problem}; `rag-assets anchor PATH` pins an evaluation that it has"
    if not np.isfinite(change.error):
        return no_interval_text(change.n_no_chance)
    p = float(stdtr(change.freedom, change.value / change.error))
    smallest = detectable(change.error, round(change.freedom) + 1, look_level(alpha))
    return Drop(n, old.value, new.value, change.value, change.low, change.high, p, smallest)


def _clusters(result: EvaluationResult, ids: Sequence[str]) -> list[str] | None:
    manifest = result.manifest(SAMPLED_ESTIMATES_KEY)
    is_clustered = manifest is not None and manifest.config["clustered"]
    if not is_clustered or not result.evaluation.entries_of(QUERY_FACTS_KEY.asset):
        return None
    names = {row["query_id"]: row["cluster"] for row in counting_of(result.table)}
    return [names.get(query_id, query_id) for query_id in ids]


def required(result: EvaluationResult, key: ArtifactKey) -> pa.Table:
    """Return a table of a sample.

    Raises:
        NotEvaluated: the evaluation has no sample of labels.
    """
    if not result.has(key):
        last = result.evaluation
        problem = f"evaluation {last.evaluation_id} of {last.experiment} has no sample of labels"
        how = "`rag-assets label` asks for the labels that tell most, and then evaluate"
        raise NotEvaluated(f"{problem}; {how}")
    return result.table(key)


def sampled_names(result: EvaluationResult) -> list[str]:
    """Return the retrievers whose passages are sampled, in the order of the experiment."""
    manifest = result.manifest(SAMPLED_PASSAGES_KEY)
    return list(manifest.config["retrievers"]) if manifest is not None else []


def _failed(result: EvaluationResult) -> dict[str, set[str]]:
    """Return retriever -> the questions on which it failed, which say nothing of it."""
    runs = {name: result.run_keys(name).values() for name in sampled_names(result)}
    return {name: {q for key in keys for q in result.failures(key)} for name, keys in runs.items()}


MAX_PAIRS = 12
"""Pairs in the section of the page."""


def sampled(result: EvaluationResult) -> Row | None:
    """Return the section of the page; None without a sample, or with all of it graded."""
    if not (sheets := sampled_sheets(result)):
        return None
    metric = estimable_metric(sheets[0].rows[0]["metric"])
    source = SampledLabels(metric._replace(measure=SAMPLED + metric.measure))
    pairs = source.differences(result)[:MAX_PAIRS]
    return {"sheets": sheets, "pairs": [source.difference_text(row) for row in pairs]}
