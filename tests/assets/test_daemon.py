"""End to end: a real daemon, its code server, the sensor, the job, the same instance and store."""

from __future__ import annotations

import time

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import InstigatorTick, TickStatus

from rag_assets.assets.instance import open_instance
from rag_assets.pipeline.evaluations import Evaluation, read_current
from rag_assets.pipeline.registry import register
from tests.dagster_daemon import daemon, dagster
from tests.dagster_state import counts, n_runs, not_fresh
from tests.tiny_experiment import Tiny, matching


def ticks(tiny: Tiny) -> list[InstigatorTick]:
    """Return the ticks of all sensors, the latest first."""
    with open_instance(tiny.settings) as instance:
        return [
            tick
            for state in instance.all_instigator_state()
            for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=20)
        ]


def current(tiny: Tiny) -> Evaluation:
    return read_current(tiny.artifacts)


def skipped_since(tiny: Tiny, moment: float) -> bool:
    return any(
        tick.timestamp > moment
        and tick.status is TickStatus.SKIPPED
        and "11 files: nothing changed since" in str(tick.skip_reason)
        for tick in ticks(tiny)
    )


def done(tiny: Tiny, evaluation_id: str) -> bool:
    """Whether there is another evaluation, and the run that made it ended."""
    with open_instance(tiny.settings) as instance:
        going = instance.get_runs_count(
            dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTED])
        )
    return current(tiny).evaluation_id != evaluation_id and not going


@pytest.mark.slow
def test_an_edit_computes_what_depends_on_it_and_a_touch_nothing(tiny: Tiny) -> None:
    register(tiny.pipeline().experiment, tiny.settings)
    first = current(tiny)
    with daemon(tiny) as running:
        dagster(tiny, "sensor", "start", "tiny_sources")
        running.wait("the first look", lambda: done(tiny, first.evaluation_id))
        looked = current(tiny)
        assert (looked.trigger, looked.computed, looked.content) == ("sensor", 0, first.content)

        runs, told = n_runs(tiny), counts(tiny)
        for file in tiny.folder.rglob("*.*"):
            file.touch()
        moment = time.time()
        running.wait("a skipped tick", lambda: skipped_since(tiny, moment))
        assert (n_runs(tiny), counts(tiny)) == (runs, told)

        tiny.replace("fares.md", "travel free of charge", "pay nothing")
        running.wait("the evaluation", lambda: done(tiny, looked.evaluation_id))
    edited = current(tiny)
    assert edited.trigger == "sensor"
    told_again = {name for name, n in counts(tiny).items() if n > told[name]}
    everything = matching(tiny.pipeline(), "*")
    print(sorted(everything - told_again), edited.computed, len(told_again))
    assert not_fresh(tiny) == {}
