"""``checks`` in an ``experiment.yaml``: what a failed check means, and where drift begins."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rag_assets.options import Number, Options

Severity = Literal["warning", "error"]
Share = Annotated[Number, Field(gt=0, lt=1)]


class DriftConfig(Options):
    """When the best scores of queries are called different from those of the anchor.

    ``psi`` is the largest population stability index that is no drift. A query is far from the
    corpus when its best score is below the ``far_quantile`` of the anchor's best scores, or below
    the number that ``far_below`` has for the retriever; ``far_share`` is the largest share of
    queries that may be.
    """

    severity: Severity = "warning"
    psi: Number = Field(default=0.25, gt=0)
    far_share: Share = 0.2
    far_quantile: Share = 0.05
    far_below: dict[str, Number] = Field(default_factory=dict)


class ChecksConfig(Options):
    """How grave a failed check is: ``regression``, that a retriever is worse than the baseline."""

    regression: Severity = "warning"
    drift: DriftConfig = DriftConfig()
