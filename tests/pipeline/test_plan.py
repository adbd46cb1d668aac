"""What a plan says of every partition after a change, why, and that an evaluation does it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rag_assets.pipeline.plan import CHECK, COMPUTE, REUSE, Plan, plan
from rag_assets.pipeline.selection import Selection
from tests.pipeline.test_incremental import CHANGES
from tests.tiny_experiment import Tiny, short

Change = Callable[[Tiny], object]
ALL = "*"


def planned(tiny: Tiny, *retrievers: str, top_k: tuple[int, ...] = ()) -> Plan:
    pipeline = tiny.pipeline()
    return plan(pipeline, Selection.of(pipeline.experiment, retrievers, top_k))


def by_action(found: Plan) -> dict[str, set[str]]:
    actions: dict[str, set[str]] = {COMPUTE: set(), CHECK: set(), REUSE: set()}
    for step in found.steps:
        actions[step.action].add(short(step.key))
    return actions


def reasons(found: Plan, name: str) -> list[str]:
    (step,) = [step for step in found.steps if short(step.key) == name]
    return [reason.text for reason in step.reasons]


def files_of(tiny: Tiny) -> set[str]:
    return {str(path) for path in tiny.artifacts.rglob("*")}


def check_that_it_is_done(tiny: Tiny, found: Plan) -> None:
    """Evaluate: what is planned is computed, and nothing that is reused."""
    actions = by_action(found)
    computed = tiny.run()
    assert actions[COMPUTE] <= computed <= actions[COMPUTE] | actions[CHECK]


@pytest.mark.parametrize("change", [change for change, _ in CHANGES.values()], ids=CHANGES)
def test_an_evaluation_does_what_the_plan_said(tiny: Tiny, change: Change) -> None:
    change(tiny)
    before = files_of(tiny)
    found = planned(tiny)
    assert files_of(tiny) == before
    check_that_it_is_done(tiny, found)
    after = planned(tiny)
    assert {step.action for step in after.steps} == {REUSE}
    assert not any(step.reasons for step in after.steps)
