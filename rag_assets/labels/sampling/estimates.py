"""Metrics of systems, and differences between them, from a sample of labels.

With w the weights of a metric (:mod:`rag_assets.labels.pool`), g the gains, m the working values
and p the probability of each judged item, the total of a system is estimated by

    sum over all items of w m + sum over judged items of w (g - m) / p

(m = g where the label is certain): the Horvitz-Thompson estimator of residuals. It is unbiased
whatever m is. Divided by the number of questions it is the metric's mean over *all* questions; one
without a relevant passage counts 0.

Working values say what the gain of each item is before anybody looks at it, and how sure that is: a
weighted ridge regression of the gains of judged items on what is known of every item, how high and
how often the systems have it and, where there are any, verdicts of judges and votes. Values that
are wrong, of a judge that favours a system too, cost precision and bring no bias. They are
cross-fitted: the value of an item comes from the labels of questions in other folds, so a residual
is never one of its own fit (Chernozhukov et al. 2018; the difference estimator of Särndal, Swensson
and Wretman, Model Assisted Survey Sampling, 1992, section 6.3, with such values).

Two targets, which answer two questions:

- ``items``: *these questions and this pool*. The error is that of not having judged every item:
  sum over judged items of c^2 (1 - p) (g - m)^2 / p^2, c = w of a system or a difference of two.
  A rare label can be missing in a small sample, so the variance that the working values lead to
  expect counts beside it, as much as :data:`PRIOR` items; the interval is Student's.
- ``questions``: *questions like these*. The error is the spread between the estimates of single
  questions, which holds both the questions' and the items' error (clusters of questions whole). Two
  questions with the lowest and the highest value that there can be count beside them, as in
  :mod:`rag_assets.statistics.intervals`, so that no interval has width 0. It is never narrower than
  that of the items, whose error few labels can hide.

No value and no bound is one that the metric cannot have: weighted by 1 / p a sum may be. Where an
item had no chance to be asked yet, nothing is known: the error is infinite. ``pool_recall@k`` is a
ratio of two totals; its errors are those of the linearised ratio.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from rag_assets.errors import NotEstimable
from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.logs import HIGHEST_GRADE
from rag_assets.labels.pool import POOL_RECALL, Flags, Floats, Integers, gains
from rag_assets.labels.sampling.label_sample import LabelSample

Target: TypeAlias = Literal["items", "questions"]

PRIOR = 5.0
"""How many judged items the expected variance weighs as much as."""

NO_CHANCE = 1e-9
"""An item of a lower probability of being asked had no chance yet."""

FOLDS = 5
PSEUDO_LABELS = 1.0
"""Weight of the ridge, in labels: it draws the values to 0 while there are few."""

NO_QUESTION = "every question is marked, so there is nothing to estimate"
"""The problem of a pool whose questions were all marked on the page, which can take marks back."""


class WorkingValues(NamedTuple):
    """The expected gain of each item and the variance of what it really is, shape (items,)."""

    values: Floats
    variances: Floats


def features(weights: Floats, verdicts: Iterable[Floats] = ()) -> Floats:
    """Return what is known of each item without a label, shape (items, features).

    Args:
        weights: what an item counts for each system, shape (systems, items).
        verdicts: of each judge and of voters, shape (items,); NaN is a missing one, and counts as
            the mean of its source.
    """
    mean = weights.mean(axis=0)
    columns = [np.ones_like(mean), mean, mean**2, (weights > 0).mean(axis=0)]
    for row in verdicts:
        if not np.isnan(row).all():
            verdict = np.where(np.isnan(row), np.nanmean(row), row)
            columns += [verdict, verdict * mean]
    return np.column_stack(columns)


def cross_fitted(
    traits: Floats, earned: Floats, probabilities: Floats, judged: Flags, question: Integers
) -> WorkingValues:
    """Return working values of all items, each from the labels of other questions.

    ``traits`` are what :func:`features` gives; gains and probabilities of items that were not drawn
    and judged are not read.
    """
    numbers = np.flatnonzero(judged)
    values, variances = np.zeros(len(earned)), np.zeros(len(earned))
    fold = question % FOLDS
    for number in range(FOLDS):
        others = numbers[fold[numbers] != number]
        here = fold == number
        fit = fitted(traits[others], earned[others], probabilities[others], traits[here])
        values[here], variances[here] = fit
    return WorkingValues(values, variances)


def fitted(traits: Floats, earned: Floats, probabilities: Floats, others: Floats) -> WorkingValues:
    """Return working values of other items, from labels of some.

    The variance is that of the gains around their values. It is at least that of one more label
    that differs from all that were seen.
    """
    if not len(earned):
        return WorkingValues(np.zeros(len(others)), np.ones(len(others)))
    weights = 1.0 / probabilities
    weights = weights / weights.mean()
    weighted = traits * weights[:, None]
    ridge = weighted.T @ traits + PSEUDO_LABELS * np.eye(traits.shape[1])
    both = np.column_stack([earned, earned**2])
    first, second = others @ np.linalg.solve(ridge, weighted.T @ both).T[:, :, None]
    highest = max(float(earned.max()), 1.0)
    values = np.clip(first[:, 0], 0.0, float(earned.max()))
    least = highest**2 / (len(earned) + 2)
    return WorkingValues(values, np.clip(second[:, 0] - values**2, least, highest**2))


class Estimate(NamedTuple):
    """A number, and how far it can be trusted.

    Attributes:
        value: the estimate.
        error: its standard error.
        low, high: the interval at the level that was asked for.
        lowest, highest: the value with all "cannot tell" at the lowest gain, and at the highest;
            of a difference, in favour of either system.
        n_labels: how many items have a label that this number reads, certain ones included.
        effective_labels: how many items drawn with one probability would tell as much as the
            judged ones do (Kish): (sum of 1/p)^2 / sum of 1/p^2.
        freedom: degrees of freedom of the error, for Student's distribution.
        target: what the interval speaks of.
        n_no_chance: how many items that this number reads had no chance to be asked yet; the error
            is infinite then.
    """

    value: float
    error: float
    low: float
    high: float
    lowest: float
    highest: float
    n_labels: int
    effective_labels: float
    freedom: float
    target: Target
    n_no_chance: int = 0


def no_interval_text(n: int) -> str:
    """Return why an estimate that reads ``n`` passages without a chance yet has no interval."""
    if n == 0:
        return "one question or cluster has no spread; at least two are needed"
    had, them = ("1 passage", "it") if n == 1 else (f"{n} passages", "them")
    why = "a retriever was added after the sample was drawn"
    return f"{had} could not be drawn yet, because {why}; `rag-assets label` asks for {them}"


@dataclass
class Estimator:
    """A metric of all systems of a sample; what pairs share is computed once.

    Attributes:
        sample: the pool and its labels.
        metric: ``dcg@k``, ``precision@k`` or ``pool_recall@k``.
        clusters: one name a question; questions of one name are not independent.
        n_known: of so many systems, the first ones, the working values are made; None: of all. So
            a system that is compared with them leaves their estimates as they are.
    """

    sample: LabelSample
    metric: Metric
    clusters: Sequence[str] | None = None
    n_known: int | None = None
    weights: Floats = field(init=False)
    working: WorkingValues = field(init=False)

    def __post_init__(self) -> None:
        """Fit the working values.

        Raises:
            NotEstimable: the metric is no sum over items, or all questions are marked.
        """
        sample = self.sample
        self.weights = sample.pool.weights(self.metric)
        if not sample.pool.question_ids:
            raise NotEstimable(NO_QUESTION)
        self._gains = gains(self.metric, sample.grades)
        self._probabilities = sample.probabilities()
        self._judged = sample.judged
        traits = features(self.weights[: self.n_known], sample.verdicts.values())
        self.working = cross_fitted(
            traits, self._gains, self._probabilities, self._judged, sample.pool.question
        )
        certain = sample.certain
        expected = np.where(certain, self._gains, self.working.values)
        drawn = np.flatnonzero(self._judged)
        self._drawn, self._p = drawn, self._probabilities[drawn]
        self._residuals = (self._gains[drawn] - self.working.values[drawn]) / self._p
        self._filled = expected
        self._filled[drawn] += self._residuals

    def values(self) -> Floats:
        """Return the estimate of each system."""
        return np.asarray(self.weights @ self._filled / self._denominator())

    def estimates(self, target: Target = "items", level: float = 0.95) -> dict[str, Estimate]:
        """Return system -> its estimate."""
        systems = self.sample.pool.systems
        return dict(zip(systems, self._rows(np.eye(len(systems)), target, level), strict=True))

    def differences(
        self,
        target: Target = "items",
        level: float = 0.95,
        pairs: Sequence[tuple[str, str]] | None = None,
    ) -> dict[tuple[str, str], Estimate]:
        """Return (a, b) -> the estimate of a - b; all pairs of systems unless some are named."""
        systems = self.sample.pool.systems
        chosen = list(combinations(systems, 2)) if pairs is None else list(pairs)
        contrasts = np.zeros((len(chosen), len(systems)))
        for row, (first, second) in enumerate(chosen):
            contrasts[row, systems.index(first)] += 1.0
            contrasts[row, systems.index(second)] -= 1.0
        return dict(zip(chosen, self._rows(contrasts, target, level), strict=True))

    def _denominator(self) -> float:
        if self.metric.measure != POOL_RECALL:
            return float(len(self.sample.pool.question_ids))
        return max(float(self._filled.sum()), 1.0)

    def _rows(self, contrasts: Floats, target: Target, level: float) -> list[Estimate]:
        """Return the estimates of sums over systems, contrasts of shape (rows, systems)."""
        values = contrasts @ self.values()
        terms = self.weights / self._denominator()
        mixed = contrasts
        if self.metric.measure == POOL_RECALL:  # linearised: the value times every item's gain
            terms = np.vstack([terms, np.full(terms.shape[1], 1.0 / self._denominator())])
            mixed = np.column_stack([contrasts, -values])
        error, freedom = self._item_errors(mixed, terms, values)
        lowest, highest = self._limits(contrasts)
        middle = values
        if target == "questions":
            whole, units, centre = self._question_errors(contrasts, values, lowest, highest)
            is_wider = _radius(whole, units, level) >= _radius(error, freedom, level)
            error, freedom = np.where(is_wider, whole, error), np.where(is_wider, units, freedom)
            middle = np.where(is_wider, centre, values)
        hopeless = ~self.sample.certain & (self._probabilities < NO_CHANCE)
        n_no_chance = (mixed @ terms[:, hopeless] != 0).sum(axis=1)
        error[n_no_chance > 0] = np.inf
        radius = _radius(error, freedom, level)
        read = contrasts @ self.weights[:, self._drawn] != 0
        sums, squares = read @ (1.0 / self._p), read @ (1.0 / self._p**2)
        effective = np.divide(sums**2, squares, out=np.zeros_like(sums), where=squares > 0)
        certain = (contrasts @ self.weights[:, self.sample.certain] != 0).sum(axis=1)
        value = np.clip(values, lowest, highest)
        unknown = np.isinf(error)
        least, most = np.where(unknown, -np.inf, lowest), np.where(unknown, np.inf, highest)
        below, above = (np.clip(middle + side, least, most) for side in (-radius, radius))
        bounds = np.minimum(below, value), np.maximum(above, value)
        low, high = (np.clip(bound, lowest, highest) for bound in self._bounds(contrasts))
        counts = read.sum(axis=1) + certain, effective + certain
        columns = (value, error, *bounds, low, high, *counts, freedom)
        rows = zip(*(column.tolist() for column in columns), n_no_chance.tolist(), strict=True)
        return [Estimate._make((*row, target, n)) for *row, n in rows]

    def _item_errors(self, mixed: Floats, terms: Floats, values: Floats) -> tuple[Floats, Floats]:
        spread = (1.0 - self._p) * self._residuals**2
        parts = (mixed @ terms[:, self._drawn]) ** 2 * spread
        sampled, squares = parts.sum(axis=1), (parts**2).sum(axis=1)
        freedom = np.divide(sampled**2, squares, out=np.zeros_like(values), where=squares > 0)
        p = np.clip(self._probabilities, 1e-12, 1.0)
        unknown = np.where(self.sample.certain, 0.0, (1.0 - p) / p * self.working.variances)
        products = mixed @ ((terms * unknown) @ terms.T)
        expected = np.maximum((products * mixed).sum(axis=1), 0.0)
        variance = (freedom * sampled + PRIOR * expected) / (freedom + PRIOR)
        return np.sqrt(variance), freedom + PRIOR

    def _limits(self, contrasts: Floats) -> tuple[Floats, Floats]:
        """Return what each contrast of a question can be at least and at most."""
        one = 1.0
        if self.metric.measure == "dcg":  # it has no bound: the largest value seen stands for it
            question, n = self.sample.pool.question, len(self.sample.pool.question_ids)
            sums = [np.bincount(question, row * self._filled, n + 1) for row in self.weights]
            grade = max(1.0, float(self._gains[~np.isnan(self._gains)].max(initial=0.0)))
            discounts = 1 / np.log2(np.arange(int(self.metric.cutoff or 1)) + 2.0)
            one = min(max(1.0, float(np.max(sums))), grade * float(discounts.sum()))
        return one * np.minimum(contrasts, 0.0).sum(1), one * np.maximum(contrasts, 0.0).sum(1)

    def _question_errors(
        self, contrasts: Floats, values: Floats, lowest: Floats, highest: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return standard errors, degrees of freedom, and the middle of the interval.

        Two questions with the extreme values count beside the others, as in
        :mod:`rag_assets.statistics.intervals`.
        """
        n_questions = len(self.sample.pool.question_ids)
        names = np.arange(n_questions) if self.clusters is None else np.asarray(self.clusters)
        unit = np.unique(names, return_inverse=True)[1]
        n = int(unit.max()) + 1
        if n < 2:
            return np.full(len(values), np.inf), np.ones(len(values)), values
        of_item = np.append(unit, 0)[self.sample.pool.question]  # what counts no more weighs 0
        by_unit = [np.bincount(of_item, row * self._filled, n) for row in self.weights]
        sums = contrasts @ np.stack(by_unit)
        is_ratio = self.metric.measure == POOL_RECALL  # of the gains of all items
        totals = np.bincount(of_item, self._filled, n) if is_ratio else np.bincount(unit)
        middle = (n * values + lowest + highest) / (n + 2)
        residuals = (sums - np.outer(middle, totals)) / self._denominator()
        ends = np.column_stack([lowest - middle, highest - middle]) / n
        squares = (residuals**2).sum(axis=1) + (ends**2).sum(axis=1)
        error = n / (n + 2) * np.sqrt(squares * (n + 2) / (n + 1))
        # Of two that return the same, as an evaluation and its copy, the difference is known.
        error[(lowest < 0) & ~(contrasts @ self.weights).any(axis=1)] = 0.0
        return error, np.full(len(values), n + 1.0), middle

    def _bounds(self, contrasts: Floats) -> tuple[Floats, Floats]:
        """Return each contrast with "cannot tell" at the gain that is worst and best for it."""
        unsure = self.sample.cannot_tell & self.sample.asked
        values = contrasts @ self.values()
        if not unsure.any() or not self._judged.any():
            return values, values
        highest = float(gains(self.metric, np.array([float(HIGHEST_GRADE)]))[0])
        p = self._probabilities[unsure]
        # As judged items they would also raise the share that was judged.
        share = self._judged.sum() / (self._judged.sum() + unsure.sum())
        filled = self._filled.copy()
        filled[self._drawn] -= self._residuals * (1.0 - share)
        weights = (contrasts @ self.weights)[:, unsure] / (p / share)
        expected = self.working.values[unsure]
        steps = np.minimum(weights * -expected, weights * (highest - expected))
        most = np.maximum(weights * -expected, weights * (highest - expected))
        middle = contrasts @ (self.weights @ filled)
        denominator = self._denominator()
        return (middle + steps.sum(1)) / denominator, (middle + most.sum(1)) / denominator


def _radius(error: Floats, freedom: Floats, level: float) -> Floats:
    """Return half the width of Student's interval."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(freedom, 0.5 + level / 2) * error)
