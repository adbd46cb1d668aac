"""Working values: what the gain of each item is before anybody looks at it, and how sure that is.

A weighted ridge regression of the gains of judged items on what is known of every item: how high
and how often the systems have it and, where there are any, verdicts of judges and votes. The
estimate adds to the sum of working values the weighted residuals of the judged items, so working
values that are wrong, of a judge that favours a system too, cost precision and bring no bias.

They are cross-fitted: the value of an item comes from the labels of questions in other folds. So
a residual is never one of its own fit (Chernozhukov et al. 2018; the difference estimator of
Särndal, Swensson and Wretman, Model Assisted Survey Sampling, 1992, section 6.3, with such values).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rag_assets.labels.sampling.label_pool import Flags, Floats, Integers

FOLDS = 5
PSEUDO_LABELS = 1.0
"""Weight of the ridge, in labels: it draws the values to 0 while there are few."""


class WorkingValues(NamedTuple):
    """The expected gain of each item and the variance of what it really is, shape (items,)."""

    values: Floats
    variances: Floats


def features(weights: Floats, verdicts: Floats | None = None) -> Floats:
    """Return what is known of each item without a label, shape (items, features).

    Args:
        weights: what an item counts for each system, shape (systems, items).
        verdicts: of judges and voters, shape (sources, items); NaN is a missing one, and counts as
            the mean of its source.
    """
    mean = weights.mean(axis=0)
    known = [np.ones_like(mean), mean, mean**2, (weights > 0).mean(axis=0)]
    for row in verdicts if verdicts is not None else ():
        if not np.isnan(row).all():
            verdict = np.where(np.isnan(row), np.nanmean(row), row)
            known += [verdict, verdict * mean]
    return np.column_stack(known)


def cross_fitted(
    known: Floats, gains: Floats, probabilities: Floats, judged: Flags, question: Integers
) -> WorkingValues:
    """Return working values of all items, each from the labels of other questions.

    Args:
        known: what :func:`features` gives.
        gains: of the judged items; others are not read.
        probabilities: of the judged items.
        judged: which items were drawn and judged.
        question: the number of each item's question.
    """
    numbers = np.flatnonzero(judged)
    values, variances = np.zeros(len(gains)), np.zeros(len(gains))
    fold = question % FOLDS
    for one in range(FOLDS):
        others = numbers[fold[numbers] != one]
        here = fold == one
        fit = fitted(known[others], gains[others], probabilities[others], known[here])
        values[here], variances[here] = fit
    return WorkingValues(values, variances)


def fitted(known: Floats, gains: Floats, probabilities: Floats, others: Floats) -> WorkingValues:
    """Return working values of other items, from labels of some.

    The variance is that of the gains around their values. It is at least that of one more label
    that differs from all that were seen.
    """
    if not len(gains):
        return WorkingValues(np.zeros(len(others)), np.ones(len(others)))
    weights = 1.0 / probabilities
    weights = weights / weights.mean()
    weighted = known * weights[:, None]
    ridge = weighted.T @ known + PSEUDO_LABELS * np.eye(known.shape[1])
    both = np.column_stack([gains, gains**2])
    first, second = others @ np.linalg.solve(ridge, weighted.T @ both).T[:, :, None]
    highest = max(float(gains.max()), 1.0)
    values = np.clip(first[:, 0], 0.0, float(gains.max()))
    least = highest**2 / (len(gains) + 2)
    return WorkingValues(values, np.clip(second[:, 0] - values**2, least, highest**2))
