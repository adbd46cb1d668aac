"""The schedule that an ``experiment.yaml`` asks for."""

from __future__ import annotations

import dagster as dg

from rag_assets.assets.names import plain_name
from rag_assets.experiment.experiment import Experiment
from rag_assets.plain_text import markdown


def schedules_of(experiment: Experiment, job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    """Return the schedule of the experiment's job, or nothing where the YAML has none.

    It is on as soon as it is loaded: who wrote the time into the YAML wants it to happen, and a
    second switch somewhere else would be forgotten. It can be stopped in the UI.
    """
    schedule = experiment.schedule
    if schedule is None:
        return []
    source = markdown(str(experiment.source))
    return [
        dg.ScheduleDefinition(
            name=f"{plain_name(experiment)}_schedule",
            job=job,
            cron_schedule=schedule.cron,
            execution_timezone=schedule.timezone,
            description=f"Evaluate {experiment.name} again: `schedule` in {source}.",
            default_status=dg.DefaultScheduleStatus.RUNNING,
        )
    ]
