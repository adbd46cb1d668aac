"""The gate: does an evaluation pass, or did a retriever get worse?

A retriever fails when its mean dropped by more than is allowed and chance does not explain a drop
(p < alpha). With ``strict`` it fails unless the whole interval lies above the allowed drop, so
what was not shown to be harmless fails too. An evaluation that is not complete always fails.

The drop is the mean of old - new over the queries that have a value in both. H0 is that there is
none. p is that of the paired randomisation test against a drop, and the interval that of the
bootstrap at confidence 1 - alpha, as in :mod:`rag_assets.statistics`. The smallest true drop that
the test finds with power 0.8 is (t(1 - alpha) + t(0.8)) * standard error, t being quantiles of
Student's distribution with n - 1 degrees of freedom (Bloom, "Minimum detectable effects", 1995).

What a judge says of answers counts only as labels of people calibrate it: p and the interval are
those of :mod:`rag_assets.statistics.calibrated_differences`, of the answers that changed. Another
judge alone changes neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np

from rag_assets.answers.stage import answers_key
from rag_assets.engine.failures import UNANSWERED
from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric, refuse_lower_is_better
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.report.evaluation_pairs import EvaluationPair, comparability
from rag_assets.report.formats import Row, four_places
from rag_assets.report.judged_changes import change_lines, judged_change, judged_change_rows
from rag_assets.report.metric_choice import check_names, is_judged, is_of_answers, is_sampled, noun
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sampled import sampled_difference, sampled_pair
from rag_assets.statistics.intervals import bootstrap_intervals, number_or_none
from rag_assets.statistics.randomisation import randomisation_p_values
from rag_assets.statistics.resampling import Floats
from rag_assets.statistics.t_test import POWER, spread
from rag_assets.statistics.units import (
    SAME,
    Counted,
    Units,
    counted_by_split,
    units_of,
    weighted_mean,
)


@dataclass(frozen=True)
class Drop:
    """How a metric of one retriever went, on the queries that have a value in both.

    Attributes:
        n: queries.
        old: weighted mean of the older values; None: of a judge, and not calibrated.
        new: weighted mean of the newer ones; likewise.
        change: by how much it rose.
        low: lower bound of new - old; None for fewer than two independent units.
        high: upper bound.
        p: one-sided; how often chance alone gives so large a drop.
        detectable: the smallest drop that is found with power 0.8; None: no spread is known.
        reason: why there is no interval, where that is not too few units.
    """

    n: int
    old: float | None
    new: float | None
    change: float
    low: float | None
    high: float | None
    p: float
    detectable: float | None
    reason: str | None = None

    @property
    def drop(self) -> float:
        """By how much the mean fell; negative where it rose."""
        return 0.0 - self.change


def drop_of(pair: EvaluationPair, old: str, new: str, alpha: float) -> Drop | None:
    """Compare retriever ``new`` of the newer evaluation with ``old`` of the older one.

    Args:
        pair: two evaluations, a metric and a split.
        old: name of a retriever in the older evaluation.
        new: name of one in the newer.
        alpha: level of the test; the interval has confidence 1 - alpha.

    Returns:
        None where they have no query with a value in common.
    """
    tables = pair.old_cells[old], pair.new_cells[new]
    for counted in counted_by_split(pair.counting, tables):
        before, after = (counted.values(table, pair.metric.column) for table in tables)
        both = ~(np.isnan(before) | np.isnan(after))
        if both.any():
            return _drop(pair, counted, before, after, alpha)
    return None


def _drop(
    pair: EvaluationPair, counted: Counted, before: Floats, after: Floats, alpha: float
) -> Drop:
    gained = after - before
    values = np.column_stack([gained, np.where(np.isnan(gained), np.nan, before)])
    units = units_of(values, counted.weights, counted.clusters)
    change = Units(units.sums[:, :1], units.weights[:, :1])
    resampling = replace(pair.resampling, confidence=1 - alpha)
    low, high = bootstrap_intervals(change, resampling)
    p = randomisation_p_values(change, resampling, "less")[0]
    difference, old = (weighted_mean(*units.column(number)) or 0.0 for number in (0, 1))
    return Drop(
        n=int(np.count_nonzero(~np.isnan(gained))),
        old=old,
        new=old + difference,
        change=old + difference - old,
        low=number_or_none(low[0]),
        high=number_or_none(high[0]),
        p=1.0 if p is None else p,
        detectable=_detectable(*change.column(0), alpha),
    )


def _detectable(sums: Floats, weights: Floats, alpha: float) -> float | None:
    deviation = spread(sums, weights)
    return _smallest(deviation.error, deviation.n_units, alpha) if deviation is not None else None


def _smallest(error: float | None, n_units: int, alpha: float) -> float | None:
    from scipy.special import stdtrit

    if not error:
        return None
    freedom = n_units - 1
    return float((stdtrit(freedom, 1 - alpha) + stdtrit(freedom, POWER)) * error)


def _judged_drop(pair: EvaluationPair, old: str, new: str, alpha: float) -> Drop | None:
    """Return the same of what a judge says, as labels of people calibrate it.

    Raises:
        UsageError: they do not: then it is no result that could pass or fail.
    """
    found = judged_change(pair, old, new, 1 - alpha)
    if found is None:
        return None
    row = found.row
    if row["calibrated"] is None:
        raise UsageError(f"{new}: {pair.metric} is not calibrated: {row['reason']}")
    mean, change = found.mean, row["calibrated"]
    return Drop(
        n=row["n"],
        old=None if mean is None else mean - change,
        new=mean,
        change=change,
        low=row["low"],
        high=row["high"],
        p=found.p,
        detectable=_smallest(found.error, found.n_units, alpha),
        reason=row["reason"],
    )


def _sampled_drop(pair: EvaluationPair, old: str, new: str, alpha: float) -> Drop | None:
    """Return the same of what a sample of labels estimates."""
    found = sampled_difference((pair.old, pair.new), (old, new), pair.metric, 1 - alpha)
    is_known = found.row["questions_low"] is not None
    return Drop(
        n=found.row["n"],
        old=found.means[0],
        new=found.means[1],
        change=found.row["difference"],
        low=found.row["questions_low"],
        high=found.row["questions_high"],
        p=found.p_drop,
        detectable=_smallest(found.error, round(found.freedom) + 1, alpha) if is_known else None,
        reason=None if is_known else "passages had no chance to be asked yet; label more",
    )


BASELINE = "baseline"

SHOWN = 3
"""So many failed queries are told, each with its reason."""


@dataclass(frozen=True)
class Rules:
    """What is allowed.

    Attributes:
        max_drop: by how much a mean may fall, in units of the metric.
        alpha: level of the one-sided test.
        strict: whether a drop must be ruled out, not just not shown.
    """

    max_drop: float = 0.01
    alpha: float = 0.05
    strict: bool = False


@dataclass(frozen=True)
class Check:
    """One retriever.

    Attributes:
        retriever: its name; of an answerer with its cut-off, as ``plain@5``.
        against: the retriever that it is compared with: itself, or the baseline.
        drop: what was measured; None: no query has a value in both.
        failure: why it fails; None: it passes.
        warning: what a pass does not say; None: nothing.
    """

    retriever: str
    against: str
    drop: Drop | None
    failure: str | None
    warning: str | None


@dataclass(frozen=True)
class Gate:
    """The result.

    Attributes:
        experiment: its name.
        evaluation: id of the evaluation that passes or fails.
        against: id of the one that it is compared with; the same for the baseline.
        metric: with its cut-off.
        split: the queries that count: ``all``, ``dev`` or ``test``.
        rules: what was allowed.
        incomplete: what of the evaluation is missing or failed; none: it is complete.
        checks: one a retriever.
        notes: what else a reader should know.
    """

    experiment: str
    evaluation: str
    against: str
    metric: str
    split: str
    rules: Rules
    incomplete: tuple[str, ...]
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the evaluation is complete and no retriever failed."""
        return not self.incomplete and all(check.failure is None for check in self.checks)

    def as_json(self) -> Row:
        """Return everything as a mapping."""
        return {"passed": self.passed, **asdict(self)}


def gate(
    new: EvaluationResult,
    names: EvaluationNames,
    against: str,
    rules: Rules,
    *,
    metric: str | None = None,
    split: str | None = None,
    retrievers: Collection[str] = (),
    intersection: bool = False,
) -> Gate:
    """Judge an evaluation.

    Args:
        new: the evaluation.
        names: finds the evaluation to compare with.
        against: ``baseline``, ``previous``, ``anchor``, or a part of an id.
        rules: what is allowed.
        metric: the primary one when absent; of answerers their headline.
        split: test where there is one, when absent.
        retrievers: only these, or only these answerers at their cut-offs, as ``plain@5``; all that
            both evaluations have when empty.
        intersection: compare also where queries or labels differ, on those that are the same.

    Raises:
        UsageError: the evaluations are not comparable, or a name is unknown.
        NotEvaluated: there is nothing to compare with, or the evaluation has no such metric.
    """
    chosen_metric = new.chosen_metric(metric, retrievers)
    refuse_lower_is_better(str(chosen_metric), "a gate fails where a value falls")
    check_names(chosen_metric, retrievers)
    new.check_cells(chosen_metric)
    answers = is_of_answers(chosen_metric)
    if answers and against == BASELINE:
        raise UsageError("answerers have no baseline; compare with an earlier evaluation")
    old = new if against == BASELINE else _older(names, new, against, chosen_metric)
    if is_sampled(chosen_metric):
        pair = sampled_pair(old, new, chosen_metric, split)
    else:
        queries = comparability(old, new, answers=answers).chosen(intersection=intersection)
        pair = EvaluationPair.of(old, new, queries, chosen_metric, split)
    chosen = _chosen(pair, retrievers, against)
    checks = tuple(_check(pair, name, other, rules) for name, other in chosen)
    return Gate(
        experiment=new.evaluation.experiment,
        evaluation=new.evaluation.evaluation_id,
        against=old.evaluation.evaluation_id,
        metric=str(pair.metric),
        split=pair.split,
        rules=rules,
        incomplete=tuple(incomplete_parts(new)),
        checks=checks,
        notes=tuple(_notes(pair, retrievers)) if against != BASELINE else (),
    )


def _older(
    names: EvaluationNames, new: EvaluationResult, against: str, metric: Metric
) -> EvaluationResult:
    evaluation = names.find(against)
    if not evaluation.complete:
        problem = f"evaluation {evaluation.evaluation_id} is not complete"
        raise UsageError(f"{problem}; a gate compares with complete ones only")
    old = EvaluationResult(new.root, evaluation)
    if is_of_answers(metric) or is_sampled(metric):
        return old
    if not old.has_metrics:
        problem = f"evaluation {evaluation.evaluation_id} had no labels, so it has no metrics"
        raise UsageError("; ".join(filter(None, (problem, evaluation.unread_labels))))
    return old


def _chosen(
    pair: EvaluationPair, retrievers: Collection[str], against: str
) -> list[tuple[str, str]]:
    """Return the retrievers to check, each with that with which it is compared."""
    baseline = pair.new.evaluation.baseline
    if against == BASELINE:
        if baseline not in pair.new_cells:
            raise UsageError(f"the baseline {baseline} has no cell of {pair.metric}")
        pairs = {name: baseline for name in pair.new_cells if name != baseline}
    else:
        pairs = {name: name for name in pair.new_cells if name in pair.old_cells}
    for name in retrievers:
        if name not in pairs:
            raise UsageError(f"nothing to compare for {allowed_names(name, pairs)}")
    chosen = [
        (name, other) for name, other in pairs.items() if not retrievers or name in retrievers
    ]
    if not chosen:
        raise UsageError(f"no {noun(pair.metric)} has a cell of {pair.metric} to compare")
    return chosen


def _check(pair: EvaluationPair, retriever: str, against: str, rules: Rules) -> Check:
    measured = _judged_drop if is_judged(pair.metric) else drop_of
    if is_sampled(pair.metric):
        measured = _sampled_drop
    drop = measured(pair, against, retriever, rules.alpha)
    if drop is None:
        return Check(retriever, against, None, "no query has a value in both evaluations", None)
    failure = _failure(drop, rules)
    warning = None if failure else _warning(drop, rules)
    return Check(retriever, against, drop, failure, warning)


def _failure(drop: Drop, rules: Rules) -> str | None:
    allowed = f"{rules.max_drop:g} are allowed"
    if drop.drop > rules.max_drop + SAME and drop.p < rules.alpha:
        return f"dropped by {drop.drop:.4f} (p = {four_places(drop.p)}); {allowed}"
    if not rules.strict:
        return None
    if drop.low is None:
        return f"strict: {drop.reason or f'{drop.n} query is too few for an interval'}"
    if drop.low < -rules.max_drop - SAME:
        return f"strict: a drop of {-drop.low:.4f} is not ruled out; {allowed}"
    return None


def _warning(drop: Drop, rules: Rules) -> str | None:
    if drop.reason is not None:
        return f"shows nothing: {drop.reason}"
    if drop.n < 2:
        return "one query shows nothing"
    if rules.strict or drop.detectable is None or drop.detectable <= rules.max_drop:
        return None
    return (
        f"{drop.n} queries show a drop of {drop.detectable:.4f} or more (level {rules.alpha:g}, "
        f"power {POWER}); one of {rules.max_drop:g} may go unseen"
    )


def incomplete_parts(result: EvaluationResult) -> list[str]:
    """Return what of an evaluation is missing, and on which queries a retriever failed."""
    if result.evaluation.complete:
        return []
    return [*_missing(result), *_failed(result)] or ["not every cell was up to date at its end"]


def _missing(result: EvaluationResult) -> Iterator[str]:
    configuration = result.evaluation.origin.configuration
    if not result.has_metrics:
        return
    entries = result.evaluation.entries_of("metrics")
    cells = {(entry.partition["retriever"], entry.partition["top_k"]) for entry in entries}
    for name in configuration.get("retrievers", {}):
        missing = [str(k) for k in configuration["top_k"] if (name, str(k)) not in cells]
        if missing:
            yield f"{name} has no cell at top_k {', '.join(missing)}"


def _failed(result: EvaluationResult) -> Iterator[str]:
    keys = {name: list(result.run_keys(name).values()) for name in result.run_retrievers}
    for name in result.answer_metrics:
        manifest = result.manifest(answers_key(name))
        # What a file of answers lacks is a finding, which no other evaluation changes.
        if manifest is not None and manifest.facts.get(UNANSWERED):
            keys[name] = [answers_key(name)]
    for name, partitions in keys.items():
        failures: dict[str, str] = {}
        for key in partitions:
            failures |= result.failures(key)
        if failures:
            shown = [f"{query}: {why}" for query, why in sorted(failures.items())[:SHOWN]]
            more = "" if len(failures) <= SHOWN else f"; and {len(failures) - SHOWN} more"
            yield f"{name} failed on queries: {'; '.join(shown)}{more}"


def _notes(pair: EvaluationPair, retrievers: Collection[str]) -> Iterator[str]:
    old, new = pair.old_cells, pair.new_cells
    if not retrievers:
        for name in [name for name in new if name not in old]:
            yield f"{name} is new and has nothing to be compared with"
        for name in [name for name in old if name not in new]:
            yield f"{name} is gone"
    count = len(set(pair.queries))
    asset = "queries" if is_of_answers(pair.metric) or is_sampled(pair.metric) else "qrels"
    labelled = len(set(pair.new.table_of(asset)["query_id"].to_pylist()))
    if is_judged(pair.metric):
        yield from change_lines(judged_change_rows(pair, retrievers))
    if count < labelled:
        yield f"only the {count} of {labelled} labelled queries that are the same in both count"
