"""Wilson's interval of a share: it covers near 0 and 1, where mean +- z * error does not.

(p + z^2 / 2n +- z * sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n), z the quantile of the normal
distribution (Wilson, "Probable inference, the law of succession, and statistical inference",
Journal of the American Statistical Association 22, 1927; Brown, Cai and DasGupta 2001).
"""

from __future__ import annotations

import math


def wilson(share: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Return the bounds; (0, 1) without an observation.

    Args:
        share: the mean of values in [0, 1]: of 0 and 1, or of others, which spread no more.
        n: independent observations; no whole number where they weigh unequally.
        level: of the interval, below 1.
    """
    from scipy.special import ndtri

    if n <= 0:
        return 0.0, 1.0
    z = float(ndtri((1 + level) / 2))
    shrink = 1 + z**2 / n
    middle = (share + z**2 / (2 * n)) / shrink
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / shrink
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))
