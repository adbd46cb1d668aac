"""What the requests that a partition sent to language models took, kept as one measurement."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from rag_assets.engine.stage_context import StageContext
from rag_assets.llm.budget import Budget
from rag_assets.store.artifacts import ArtifactKey


class RequestUsage(NamedTuple):
    """Requests to one model; ``cost`` is None where it has no prices."""

    seconds: float
    calls: int
    tokens: int
    cost: float | None


@contextmanager
def counted_requests(budget: Budget, usages: list[RequestUsage]) -> Iterator[None]:
    """Append what is sent within this block."""
    started, calls, tokens, cost = time.perf_counter(), budget.calls, budget.tokens, budget.cost
    yield
    usages.append(
        RequestUsage(
            time.perf_counter() - started,
            budget.calls - calls,
            budget.tokens - tokens,
            budget.cost - cost if budget.limits.priced else None,
        )
    )


def keep_usage(context: StageContext, key: ArtifactKey, usages: Sequence[RequestUsage]) -> None:
    """Keep the sum for a partition: one measurement, since a second would replace the first.

    The cost is unknown where that of one model is.
    """
    recipe = context.recipe(key)
    if recipe is None or not usages:
        return
    costs = [one.cost for one in usages if one.cost is not None]
    context.measurements.add(
        "ask",
        recipe.fingerprint,
        sum(one.seconds for one in usages),
        sum(one.calls for one in usages),
        asset=key.asset,
        tokens=sum(one.tokens for one in usages) or None,
        cost=sum(costs) if len(costs) == len(usages) else None,
    )
