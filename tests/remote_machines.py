"""Machines that share a store on S3, in one process: a state folder each, and the same sources."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from rag_assets.analysis.result import EvaluationResult
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.pipeline.evaluation_record import record
from rag_assets.pipeline.evaluations import Evaluation, fetch_experiments, read_current
from rag_assets.pipeline.history import History
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.store.remote import ANY, Objects
from rag_assets.store.settings import StoreSettings
from tests.tiny_experiment import Tiny, materialize


def sources(folder: Path) -> Tiny:
    """Write the same experiment, a small one, into a folder."""
    tiny = Tiny(folder)
    names = ("bm25", "hybrid", "bm25-whole")
    tiny.config["retrievers"] = {name: tiny.config["retrievers"][name] for name in names}
    tiny.config |= {"top_k": [3], "metrics": ["mrr", "ndcg"], "primary": "ndcg@3"}
    return tiny.write()


@dataclass
class Machine:
    """A state folder, in which nothing is at first."""

    tiny: Tiny
    settings: StoreSettings

    @property
    def root(self) -> Path:
        return self.settings.store / "tiny"

    @property
    def address(self) -> str:
        return self.there().address.url

    def pipeline(self) -> Pipeline:
        return Pipeline(load_experiment(self.tiny.folder), self.settings)

    def evaluate(self) -> tuple[set[str], Evaluation]:
        pipeline = self.pipeline()
        return self.finish(pipeline, materialize(pipeline))

    def finish(self, pipeline: Pipeline, computed: set[str]) -> tuple[set[str], Evaluation]:
        now = datetime.now(UTC)
        return computed, record(pipeline, started=now, trigger="test", computed=len(computed))

    def leaderboard(self) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = EvaluationResult(
            self.root, self.current()
        ).leaderboard.to_pylist()
        return rows

    def history(self) -> list[dict[str, object]]:
        fetch_experiments(self.settings, "tiny")
        return History(self.root, self.settings.locks).evaluations()

    def there(self) -> Objects:
        assert self.settings.remote is not None
        return self.settings.remote.objects

    def current(self) -> Evaluation:
        fetch_experiments(self.settings, "tiny")
        return read_current(self.root)

    def names(self) -> EvaluationNames:
        fetch_experiments(self.settings, "tiny")
        return EvaluationNames(self.settings, "tiny")


class Machines:
    """Machines by name, with one store and the same sources."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        self.tiny = sources(folder / "sources")

    def __getitem__(self, name: str) -> Machine:
        return Machine(self.tiny, StoreSettings.at(self.address, str(self.folder / name)))


class Evaluated(NamedTuple):
    """Machines of which `first` has evaluated; its evaluation, and the names of what it sent."""

    machines: Machines
    evaluation: Evaluation
    sent: list[str]


def names_sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that will hold the names of what is sent from now on."""
    names: list[str] = []
    write = Objects.write

    def noted(self: Objects, name: str, content: bytes, expected: str = ANY) -> str | None:
        names.append(name)
        return write(self, name, content, expected)

    monkeypatch.setattr(Objects, "write", noted)
    return names
