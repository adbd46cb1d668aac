"""Partitions that failed a blocking check: what reads them directly is not computed.

One small file a failed artifact, in the experiment's folder of the store, so that it holds whoever
computes next: the command line, a run of the UI, a worker on another machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from rag_assets.checks.check import MAX_EXAMPLES, CheckResult
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import fingerprint, read_sealed, sealed_json

FAILED_CHECKS_DIR = "failed_checks"


class FailedChecks:
    """The partitions of one experiment whose blocking checks failed, as of now."""

    def __init__(self, pipeline: Pipeline) -> None:
        """List what is known."""
        self._pipeline = pipeline
        self._folder = pipeline.root / FAILED_CHECKS_DIR
        self._names = {file.name for file in self._folder.glob("*.json")}

    def failed(self, key: ArtifactKey) -> bool:
        """Return whether the up-to-date artifact of a partition failed."""
        return bool(self._names) and self._name(key) in self._names

    def reason(self, key: ArtifactKey) -> str | None:
        """Return what failed on the up-to-date artifact of a partition; None: nothing did."""
        if not self.failed(key):
            return None
        file = self._folder / str(self._name(key))
        try:
            return f"{key}: {read_sealed(file.read_bytes())['problems'][0]}"
        except (OSError, ValueError):
            return f"{key}: a blocking check failed; {file} is damaged, delete it to check again"

    def can_be_computed(self, key: ArtifactKey) -> bool:
        """Return whether no input failed, and none is missing because one of its own did."""
        if not self._names:
            return True
        inputs = STAGES[key.asset].inputs(self._pipeline.experiment, key)
        return self.stopped_by(key) is None and all(
            item.optional or self._pipeline.current(item.key) for item in inputs
        )

    def stopped_by(self, key: ArtifactKey) -> ArtifactKey | None:
        """Return an input of a partition that failed; None: it can be computed."""
        if not self._names:
            return None
        inputs = STAGES[key.asset].inputs(self._pipeline.experiment, key)
        return next((item.key for item in inputs if self.failed(item.key)), None)

    def record(self, keys: Iterable[ArtifactKey], results: Sequence[CheckResult]) -> None:
        """Remember which of the partitions failed, and that the others did not."""
        settings = self._pipeline.settings
        failed: dict[ArtifactKey, list[str]] = {}
        repaired: list[Path] = []
        for result in results:
            if result.blocks:
                problems = result.outcome.problems[:MAX_EXAMPLES]
                failed.setdefault(result.key, []).append(f"{result.check.name}: {problems[0]}")
        for key in keys:
            name = self._name(key)
            if key in failed and name is not None:
                content = {"partition": str(key), "problems": failed[key]}
                text = sealed_json(content)
                settings.write_record(self._folder / name, text, partial(_newest, text))
                self._names.add(name)
            elif name in self._names:
                self._names.discard(str(name))
                repaired.append(self._folder / str(name))
        settings.remove(repaired)

    def _name(self, key: ArtifactKey) -> str | None:
        artifact = self._pipeline.current(key)
        if artifact is None:
            return None
        return f"{fingerprint([str(key), artifact.manifest.fingerprint])[:32]}.json"


def _newest(text: str, _: object) -> str:
    """Return the record that is written, whatever another process wrote meanwhile."""
    return text
