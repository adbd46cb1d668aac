"""Metrics of systems, and differences between them, from a sample of labels.

With w the weights of a metric (:mod:`.label_pool`), g the gains, m the working values and p the
probability of each judged item, the total of a system is estimated by

    sum over all items of w m + sum over judged items of w (g - m) / p

(m = g where the label is certain): the Horvitz-Thompson estimator of residuals. It is unbiased
whatever m is. Divided by the number of questions it is the metric's mean over *all* questions; one
without a relevant passage counts 0.

Two targets, which answer two questions:

- ``items``: *these questions and this pool*. The error is that of not having judged every item:
  sum over judged items of c^2 (1 - p) (g - m)^2 / p^2, c = w of a system or a difference of two.
  A rare label can be missing in a small sample, so the variance that the working values lead to
  expect counts beside it, as much as :data:`PRIOR` items; the interval is Student's.
- ``questions``: *questions like these*. The error is the spread between the estimates of single
  questions, which holds both the questions' and the items' error (clusters of questions whole).

``pool_recall@k`` is a ratio of two totals; its errors are those of the linearised ratio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from rag_assets.errors import NotEstimable
from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.sampling.judgment_log import HIGHEST_GRADE
from rag_assets.labels.sampling.label_pool import POOL_RECALL, Floats, gains
from rag_assets.labels.sampling.label_sample import LabelSample
from rag_assets.labels.sampling.working_values import WorkingValues, cross_fitted, features

Target: TypeAlias = Literal["items", "questions"]

PRIOR = 5.0
"""How many judged items the expected variance weighs as much as."""


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
        target: what the interval speaks of.
    """

    value: float
    error: float
    low: float
    high: float
    lowest: float
    highest: float
    n_labels: int
    effective_labels: float
    target: Target


@dataclass
class Estimator:
    """A metric of all systems of a sample; what pairs share is computed once.

    Attributes:
        sample: the pool and its labels.
        metric: ``dcg@k``, ``precision@k`` or ``pool_recall@k``.
        clusters: one name a question; questions of one name are not independent.
    """

    sample: LabelSample
    metric: Metric
    clusters: Sequence[str] | None = None
    weights: Floats = field(init=False)
    working: WorkingValues = field(init=False)

    def __post_init__(self) -> None:
        """Fit the working values.

        Raises:
            NotEstimable: the metric is no sum over items, or no question is there.
        """
        sample = self.sample
        self.weights = sample.pool.weights(self.metric)
        if not sample.pool.question_ids:
            raise NotEstimable("there is no question")
        self._gains = gains(self.metric, sample.grades)
        self._probabilities = sample.probabilities()
        self._judged = sample.judged
        known = features(self.weights, sample.verdicts)
        self.working = cross_fitted(
            known, self._gains, self._probabilities, self._judged, sample.pool.question
        )
        certain = sample.certain
        expected = np.where(certain, self._gains, self.working.values)
        drawn = np.flatnonzero(self._judged)
        self._drawn, self._p = drawn, self._probabilities[drawn]
        self._residuals = (self._gains[drawn] - self.working.values[drawn]) / self._p
        self._filled = expected
        self._filled[drawn] += self._residuals
        self._unsure = ~certain

    def values(self) -> Floats:
        """Return the estimate of each system."""
        return np.asarray(self.weights @ self._filled / self._denominator())

    def estimates(self, target: Target = "items", level: float = 0.95) -> dict[str, Estimate]:
        """Return system -> its estimate."""
        systems = self.sample.pool.systems
        rows = self._rows(self.weights, self.values(), target, level)
        bounds = self._bounds(np.eye(len(systems)))
        return dict(zip(systems, _estimates(rows, bounds, target), strict=True))

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
        values = contrasts @ self.values()
        rows = self._rows(contrasts @ self.weights, values, target, level)
        bounds = self._bounds(contrasts)
        return dict(zip(chosen, _estimates(rows, bounds, target), strict=True))

    def _denominator(self) -> float:
        if self.metric.measure != POOL_RECALL:
            return float(len(self.sample.pool.question_ids))
        return max(float(self._filled.sum()), 1.0)

    def _rows(
        self, weights: Floats, values: Floats, target: Target, level: float
    ) -> list[tuple[float, float, float, float, int, float]]:
        """Return value, error, low, high, labels and effective labels of rows of weights."""
        from scipy.special import stdtrit

        used = weights != 0
        if self.metric.measure == POOL_RECALL:
            weights = weights - values[:, None]
        contributions = weights / self._denominator()
        errors = self._item_errors if target == "items" else self._question_errors
        error, freedom = errors(contributions, values)
        radius = stdtrit(freedom, 0.5 + level / 2) * error
        drawn = used[:, self._drawn]
        sums = drawn @ (1.0 / self._p), drawn @ (1.0 / self._p**2)
        effective = np.divide(sums[0] ** 2, sums[1], out=np.zeros(len(weights)), where=sums[1] > 0)
        certain = used @ self.sample.certain.astype(np.float64)
        labels = (drawn.sum(axis=1) + certain).astype(int)
        columns = values, error, values - radius, values + radius, labels, effective + certain
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _item_errors(self, contributions: Floats, values: Floats) -> tuple[Floats, Floats]:
        spread = (1.0 - self._p) * self._residuals**2
        parts = contributions[:, self._drawn] ** 2 * spread
        sampled, squares = parts.sum(axis=1), (parts**2).sum(axis=1)
        freedom = np.divide(sampled**2, squares, out=np.zeros(len(values)), where=squares > 0)
        p = np.clip(self._probabilities, 1e-12, 1.0)
        unknown = np.where(self._unsure, (1.0 - p) / p * self.working.variances, 0.0)
        expected = contributions**2 @ unknown
        variance = (freedom * sampled + PRIOR * expected) / (freedom + PRIOR)
        return np.sqrt(variance), freedom + PRIOR

    def _question_errors(self, contributions: Floats, values: Floats) -> tuple[Floats, Floats]:
        n_questions = len(self.sample.pool.question_ids)
        units, names = np.arange(n_questions), n_questions
        if self.clusters is not None:
            labels, units = np.unique(np.asarray(self.clusters), return_inverse=True)
            names = len(labels)
        if names < 2:
            nothing = np.full(len(values), np.inf)
            return nothing, np.ones(len(values))
        unit = units[self.sample.pool.question]
        sums = np.stack([np.bincount(unit, row * self._filled, names) for row in contributions])
        if self.metric.measure != POOL_RECALL:  # a ratio's residuals have the mean 0 already
            sums -= np.outer(values / n_questions, np.bincount(units, minlength=names))
        variance = (sums**2).sum(axis=1) * names / (names - 1)
        return np.sqrt(variance), np.full(len(values), names - 1.0)

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
        kept = self._filled.copy()
        kept[self._drawn] -= self._residuals * (1.0 - share)
        weights = (contrasts @ self.weights)[:, unsure] / (p / share)
        expected = self.working.values[unsure]
        steps = np.minimum(weights * -expected, weights * (highest - expected))
        most = np.maximum(weights * -expected, weights * (highest - expected))
        middle = contrasts @ (self.weights @ kept)
        denominator = self._denominator()
        return (middle + steps.sum(1)) / denominator, (middle + most.sum(1)) / denominator


def _estimates(
    rows: Sequence[tuple[float, float, float, float, int, float]],
    bounds: tuple[Floats, Floats],
    target: Target,
) -> list[Estimate]:
    return [
        Estimate(value, error, low, high, lowest, highest, n, effective, target)
        for (value, error, low, high, n, effective), lowest, highest in zip(
            rows, *(bound.tolist() for bound in bounds), strict=True
        )
    ]


def winner(values: Mapping[str, Estimate]) -> str:
    """Return the system of the highest estimate; of equal ones the first."""
    return max(values, key=lambda name: values[name].value)
