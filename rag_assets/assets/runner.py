"""Runs stages in this process, one Dagster run a stage, whatever set of partitions is wanted."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from typing import Any, TextIO

import dagster as dg

from rag_assets.assets.build import ASKED_TAG, DEFER_TAG, build_assets
from rag_assets.assets.names import asset_key, partition_key
from rag_assets.assets.partitions import partitions_of
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.store.artifacts import ArtifactKey

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
TRIGGER_TAG = "rag_assets/trigger"

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""Keeps Dagster's events out of the terminal: they are in the instance."""


class StageRunner:
    """Materializes partitions of one experiment through Dagster, in this process."""

    def __init__(self, pipeline: Pipeline, instance: dg.DagsterInstance, trigger: str) -> None:
        """Build the assets once; their bodies share ``pipeline``."""
        self._pipeline = pipeline
        self._instance = instance
        self._trigger = trigger
        assets = build_assets(pipeline.experiment, lambda: pipeline, declare_checks=False)
        definitions = dg.Definitions(assets=assets, executor=dg.in_process_executor)
        self._job = definitions.resolve_implicit_global_asset_job_def()

    def run(self, asset: str, keys: Sequence[ArtifactKey]) -> str:
        """Bring partitions of one asset up to date and report them; return the run's id.

        Raises:
            RagAssetsError: what the stage raised.
        """
        key = asset_key(self._pipeline.experiment.name, asset)
        with _quiet(), _interruptible():
            result = self._job.execute_in_process(
                instance=self._instance,
                asset_selection=[key],
                tags=self._tags(asset, keys),
                run_config=_QUIET,
            )
        return result.run_id

    def _tags(self, asset: str, keys: Sequence[ArtifactKey]) -> dict[str, str]:
        tags = {DEFER_TAG: "true", TRIGGER_TAG: self._trigger}
        partitions = partitions_of(STAGES[asset], self._pipeline.experiment)
        if partitions is not None:
            first, last = _bounding_range(asset, keys, self._pipeline)
            wanted = [partition_key(key) for key in keys]
            tags |= {RANGE_START: first, RANGE_END: last, ASKED_TAG: json.dumps(wanted)}
        return tags


def _bounding_range(asset: str, keys: Sequence[ArtifactKey], pipeline: Pipeline) -> tuple[str, str]:
    """Return the first and last partition of the smallest cross product that holds ``keys``."""
    everything = STAGES[asset].keys(pipeline.experiment)
    ends: list[str] = []
    for pick in (min, max):
        corner = []
        for dimension, _ in keys[0].partition:
            values = list(dict.fromkeys(key[dimension] for key in everything))
            place = pick(values.index(key[dimension]) for key in keys)
            corner.append((dimension, values[place]))
        ends.append(partition_key(ArtifactKey(asset, tuple(corner))) or "")
    return ends[0], ends[1]


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C leave a run as the exception that it is everywhere else."""
    try:
        yield
    except dg.DagsterExecutionInterruptedError as error:
        raise KeyboardInterrupt from error


@contextmanager
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("dagster")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stderr(_WithoutEventLog(sys.stderr)):
            yield
    finally:
        logger.setLevel(level)


class _WithoutEventLog:
    """A stream without the lines that Dagster itself prints when its event log cannot be written.

    The error is raised as well, and is one line then.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if text.startswith("Exception while writing logger call to event log"):
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever a stream has)
        return getattr(self._stream, name)
