"""What this Dagster instance has been told, so that nothing is reported twice or left out.

Lies inside the instance's storage and is deleted with it: then everything is reported again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from rag_assets.assets.floor_checks import floors_at
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.atomic import write_text
from rag_assets.store.canonical import fingerprint
from rag_assets.store.locks import locked

REPORTED_DIR = "rag_assets"


class UpstreamVersion(NamedTuple):
    """The latest version of an asset outside of the experiment, and its place in the event log."""

    version: str
    pointer: str


Upstream: TypeAlias = Mapping[str, Mapping[str, UpstreamVersion]]
"""Stage -> assets outside of the experiment that it depends on in Dagster -> their versions."""


class ReportedVersions:
    """The record of one experiment: partition -> the state that was last reported."""

    def __init__(self, pipeline: Pipeline, upstream: Upstream | None = None) -> None:
        """Open the record; absent means that nothing was reported.

        Args:
            pipeline: the experiment and its store.
            upstream: the versions of assets outside of the experiment; None: they are not known
                here, so what was reported of them counts as current.
        """
        self._pipeline = pipeline
        self._upstream = upstream
        folder = pipeline.settings.dagster_home / REPORTED_DIR
        self._file = folder / f"{pipeline.experiment.name}.json"
        self._states = _read(self._file)

    def is_current(self, key: ArtifactKey) -> bool:
        """Whether Dagster's last report of a partition is about its present state."""
        state = self._state(key)
        above = self._state_above(key)
        return (
            state is not None
            and self._states.get(str(key)) == state
            and (above is None or self._states.get(_above(key), "") == above)
        )

    def add(self, keys: list[ArtifactKey]) -> None:
        """Remember that the present state of these partitions was reported."""
        states = {str(key): self._state(key) for key in keys}
        for key in keys:
            if (above := self._state_above(key)) is not None:
                states[_above(key)] = above
        locks = self._pipeline.settings.locks
        with locked(locks / f"reported-{self._pipeline.experiment.name}.lock"):
            self._states = {**_read(self._file), **states}
            # What a power failure takes is reported again.
            write_text(self._file, json.dumps(self._states), durable=False)

    def _state(self, key: ArtifactKey) -> str | None:
        """Hash a partition's version and its inputs', as Dagster's staleness, and its checks'."""
        artifact = self._pipeline.current(key)
        if artifact is None:
            return None
        inputs = {}
        for above in read_keys(self._pipeline.experiment, key):
            parent = self._pipeline.current(above)
            if parent is not None:
                inputs[str(above)] = self._pipeline.data_version(parent, above)
        experiment = self._pipeline.experiment
        # What only its checks read: they are run again.
        severity = (experiment.baseline, experiment.config.checks.regression)
        checked = severity if key.asset == "comparisons" else ()
        floors = [[str(one), *one.of] for one in floors_at(experiment, key.asset)]
        own = self._pipeline.data_version(artifact, key)
        return fingerprint([artifact.manifest.fingerprint, own, inputs, *checked, *floors])

    def _state_above(self, key: ArtifactKey) -> str | None:
        """Hash the versions of what lies outside of the experiment; empty where nothing does."""
        if self._upstream is None:
            return None
        versions = self._upstream.get(key.asset, {})
        state = {name: version for name, (version, _) in versions.items()}
        return fingerprint(state) if state else ""


def _above(key: ArtifactKey) -> str:
    return f"above {key}"


def read_keys(experiment: Experiment, key: ArtifactKey) -> list[ArtifactKey]:
    """Return the partitions on which one depends in Dagster: its inputs, and what is shown with it.

    Who wins is shown with the leaderboard, and is known from the comparisons.
    """
    inputs = [item.edge or item.key for item in STAGES[key.asset].inputs(experiment, key)]
    compared = STAGES["comparisons"].keys(experiment) if key.asset == "leaderboard" else []
    return list(dict.fromkeys([*inputs, *compared]))


def _read(file: Path) -> Mapping[str, str | None]:
    try:
        states = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return states if isinstance(states, dict) else {}
