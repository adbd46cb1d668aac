"""A system that answers at random: its expected value, from several evaluations of it.

Each evaluation is one draw x(1), x(2), ...: the mean over the questions. Draws are independent,
and normal as far as means over many questions are. With n draws, their mean and deviation s, and
v = n - 1, the likelihood ratio of "the expected value is not m", mixed over (value - m) / sigma
from N(0, 1) and over sigma,

    e(m) = (1 + n)^(-1/2) * ((1 + t^2 / v) / (1 + t^2 / (v (1 + n))))^(n / 2)
    t = sqrt(n) (mean - m) / s

is a martingale if it is m, so it ever exceeds 1 / alpha with a chance of at most alpha, however
often one looks (Lai, "On confidence sequences", 1976; Wang and Ramdas, "Anytime-valid t-tests and
confidence sequences for Gaussian means with unknown variance", 2023). So this interval holds at all
n at once:

    |mean - m| <= s sqrt(v (k - 1) / (n (1 - k / (1 + n)))),  k = ((1 + n) / alpha^2)^(1 / n)

It is infinite while k >= 1 + n: for fewer than 7 draws at alpha .0025. That values lie between 0
and 1 is not enough to go by: ruling out a drop of .01 would then take some hundred evaluations.

The anchor has draws too, often one. They are no sequence: the mean of m of them is off by at most
t(1 - alpha / 2) s / sqrt(m), with s and n + m - 1 degrees of freedom of all draws together, which
are alike where nothing changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class ExpectedDifference(NamedTuple):
    """The new system's expected value minus the anchor's; bounds are infinite for few draws."""

    old: float
    new: float
    low: float
    high: float


def sequence_radius(deviation: float, n: int, alpha: float) -> float:
    """Return half the width of the interval of an expected value that holds at all n at once."""
    k = ((1 + n) / alpha**2) ** (1 / n) if n > 1 else math.inf
    if k >= 1 + n:
        return math.inf
    return deviation * math.sqrt((n - 1) * (k - 1) / (n * (1 - k / (1 + n))))


def expected_difference(
    new: Sequence[float], anchor: Sequence[float], alpha: float, anchor_alpha: float
) -> ExpectedDifference:
    """Compare what is expected of two systems, on the questions of their evaluations.

    Args:
        new: value of each evaluation of one.
        anchor: of each of the other; at least one.
        alpha: two-sided level of all looks at ``new``.
        anchor_alpha: two-sided level of what the draws of the anchor may be off.
    """
    from scipy.special import stdtrit

    n, m = len(new), len(anchor)
    old, mean = math.fsum(anchor) / m, math.fsum(new) / n
    own = float(np.std(new, ddof=1)) if n > 1 else math.inf
    off = sequence_radius(own, n, alpha)
    if math.isfinite(off):
        spread = float(np.std([*new, *anchor], ddof=1))
        off += float(stdtrit(n + m - 1, 1 - anchor_alpha / 2)) * spread / math.sqrt(m)
    return ExpectedDifference(old, mean, mean - old - off, mean - old + off)
