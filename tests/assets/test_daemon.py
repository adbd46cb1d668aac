"""End to end: a real daemon, its code server, the sensor, the job, the same instance and store."""

from __future__ import annotations

import time

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import InstigatorTick, TickStatus

from rag_assets.assets.instance import open_instance
from rag_assets.errors import NotEvaluated
from rag_assets.pipeline.evaluations import Evaluation, read_current
from tests.dagster_daemon import daemon, dagster
from tests.dagster_state import counts, n_runs, not_fresh
from tests.tiny_experiment import Tiny, matching

UNENDED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]


def current(tiny: Tiny) -> Evaluation | None:
    try:
        return read_current(tiny.artifacts)
    except NotEvaluated:
        return None


def another(tiny: Tiny, before: Evaluation | None) -> bool:
    """Whether there is another evaluation, and the run that made it has ended."""
    with open_instance(tiny.settings) as instance:
        unended = instance.get_runs_count(dg.RunsFilter(statuses=UNENDED))
    return current(tiny) != before and not unended


def ticks(tiny: Tiny) -> list[InstigatorTick]:
    with open_instance(tiny.settings) as instance:
        return [
            tick
            for state in instance.all_instigator_state()
            for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=20)
        ]


def skipped_since(tiny: Tiny, moment: float) -> bool:
    return any(
        tick.timestamp > moment
        and tick.status is TickStatus.SKIPPED
        and "11 files: nothing changed since" in str(tick.skip_reason)
        for tick in ticks(tiny)
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_edit_computes_what_depends_on_it_and_a_touch_nothing(small: Tiny) -> None:
    with daemon(small) as running:
        dagster(small, "sensor", "start", "tiny_sources")
        running.wait("the first look", lambda: another(small, None))
        first = current(small)
        assert first is not None
        everything = matching(small.pipeline(), "*")
        assert (first.trigger, first.computed) == ("sensor", len(everything))
        assert counts(small) == dict.fromkeys(everything, 1)

        runs = n_runs(small)
        for file in small.folder.rglob("*.*"):
            file.touch()
        moment = time.time()
        running.wait("a tick that skips", lambda: skipped_since(small, moment))
        assert (n_runs(small), current(small)) == (runs, first)

        small.replace("fares.md", "travel free of charge", "pay nothing")
        running.wait("the evaluation of the edit", lambda: another(small, first))
    second = current(small)
    assert second is not None
    of_queries = matching(
        small.pipeline(), "queries", "query_facts", "query_sets/*", "lexical_queries/*"
    )
    told = {name for name, n in counts(small).items() if n == 2}
    assert told == everything - of_queries
    assert (second.trigger, second.computed) == ("sensor", len(told))
    assert not_fresh(small) == {}
