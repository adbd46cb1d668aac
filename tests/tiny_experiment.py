"""A complete experiment that is evaluated in a second: eight documents, six questions."""

from __future__ import annotations

import copy
import fnmatch
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from click.testing import CliRunner, Result

from rag_assets.cli import main
from rag_assets.engine.measurements import Measurement, Measurements
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.pipeline.evaluation_record import record
from rag_assets.pipeline.evaluations import Evaluation
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.plan import ACTIONS, CHECK, COMPUTE, Plan, plan
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import required_partitions
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import OBJECTS, ArtifactKey
from rag_assets.store.atomic import remove
from rag_assets.store.settings import StoreSettings

DOCUMENTS = {
    "fares.md": (
        "# Fares\n\nA single ticket costs 40 crowns on every route.\n\n"
        "Children under six travel free of charge.\n\nA dog needs a ticket of 10 crowns.\n"
    ),
    "harbours.md": (
        "# Harbours\n\nThe northern harbour opens at six in the morning.\n\n"
        "The southern harbour closes when the wind exceeds 25 metres per second.\n"
    ),
    "engines.md": (
        "# Engines\n\nEach ferry has two diesel engines of 900 kilowatts.\n\n"
        "The oil is changed after 500 hours.\n\nA spare engine is kept in the northern harbour.\n"
    ),
    "crew.md": (
        "# Crew\n\nA crew of five sails each ferry.\n\n"
        "The mate checks the life jackets every Monday.\n"
    ),
    "safety/jackets.md": (
        "# Life jackets\n\nThere is one life jacket for every passenger.\n\n"
        "Jackets for children are stored beside the bridge.\n"
    ),
    "safety/fire.md": (
        "# Fire\n\nA fire on the car deck is fought with foam.\n\n"
        "The engine room is flooded with carbon dioxide.\n"
    ),
    "timetable.md": (
        "# Timetable\n\nThe first ferry leaves at six thirty.\n\n"
        "In winter the last ferry leaves at nine in the evening.\n"
    ),
    "lost.md": (
        "# Lost property\n\nLost property is kept for 30 days at the ticket office.\n\n"
        "Passports are handed to the police.\n"
    ),
}

QUERIES: list[dict[str, Any]] = [
    {"query_id": "q1", "text": "what does a ticket for a dog cost", "tags": ["fares"]},
    {"query_id": "q2", "text": "when does the southern harbour close", "tags": ["wind", "harbour"]},
    {"query_id": "q3", "text": "where are life jackets for children", "tags": ["safety"]},
    {"query_id": "q4", "text": "how is a fire on the car deck fought", "tags": ["safety"]},
    {"query_id": "q5", "text": "last ferry in winter", "tags": []},
    {"query_id": "q6", "text": "how often is the oil of the engines changed", "tags": ["engines"]},
]

JUDGMENTS: list[dict[str, Any]] = [
    {"query_id": "q1", "doc_id": "fares.md", "quote": "A dog needs a ticket of 10 crowns."},
    {
        "query_id": "q2",
        "doc_id": "harbours.md",
        "quote": "The southern harbour closes when the wind exceeds 25 metres per second.",
        "relevance": 2,
    },
    {
        "query_id": "q3",
        "doc_id": "safety/jackets.md",
        "quote": "Jackets for children are stored beside the bridge.",
        "relevance": 2,
    },
    {
        "query_id": "q3",
        "doc_id": "crew.md",
        "quote": "The mate checks the life jackets every Monday.",
        "relevance": 1,
    },
    {
        "query_id": "q4",
        "doc_id": "safety/fire.md",
        "quote": "A fire on the car deck is fought with foam.",
    },
    {
        "query_id": "q5",
        "doc_id": "timetable.md",
        "quote": "In winter the last ferry leaves at nine in the evening.",
    },
    {"query_id": "q6", "doc_id": "engines.md", "quote": "The oil is changed after 500 hours."},
]

CONFIG: dict[str, Any] = {
    "name": "tiny",
    "dataset": {"format": "markdown"},
    "chunking": {
        "whole": {"strategy": "none"},
        "parts": {"strategy": "recursive", "max_tokens": 16, "overlap": 0},
    },
    "retrievers": {
        "bm25": {"type": "bm25", "chunking": "parts", "analyzer": "english", "k1": 1.2},
        "bm25-whole": {"type": "bm25", "chunking": "whole", "analyzer": "english"},
        "okapi": {"type": "bm25", "chunking": "parts", "analyzer": "standard", "variant": "okapi"},
        "hybrid": {"type": "rrf", "inputs": ["bm25", "bm25-whole"], "candidates": 100},
        "shallow": {"type": "rrf", "inputs": ["bm25", "okapi"], "candidates": "top_k"},
    },
    "top_k": [3, 5],
    "metrics": ["hit_rate", "mrr", "ndcg"],
    "primary": "ndcg@5",
    "baseline": "bm25",
    "measurements": {"latency_sample": 1},
    "statistics": {"resamples": 1000},
}

MINILM: dict[str, Any] = {
    "minilm": {"type": "embedding", "chunking": "parts"},
    "mixed": {"type": "rrf", "inputs": ["bm25-whole", "minilm"], "candidates": 10},
}
"""Retrievers with an embedding model, for the tests that need one."""


@dataclass
class Tiny:
    """The experiment's folder and its store, with the changes that the tests make to them."""

    root: Path
    config: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(CONFIG))

    @property
    def folder(self) -> Path:
        return self.root / "data"

    @property
    def settings(self) -> StoreSettings:
        return StoreSettings.resolve(self.root / "store")

    @property
    def artifacts(self) -> Path:
        return self.root / "store" / str(self.config["name"])

    def stored(self, asset: str, *values: str | int) -> list[Path]:
        pipeline, wanted = self.pipeline(), tuple(map(str, values))
        if asset == "rankings":
            named = {
                artifact.manifest.facts["ranking"]
                for stage in pipeline.stages()
                for key in stage.keys(pipeline.experiment)
                if key.asset.endswith("_runs") and (not values or key["retriever"] in values)
                if (artifact := pipeline.current(key)) is not None
            }
            return [pipeline.store.path(asset, one) for one in named]
        keys = [key for stage in pipeline.stages() for key in stage.keys(pipeline.experiment)]
        own = [key for key in keys if key.asset == asset]
        own = [key for key in own if tuple(v for _, v in key.partition)[: len(wanted)] == wanted]
        found = [pipeline.current(key) for key in own]
        return list(dict.fromkeys(one.path for one in found if one is not None))

    def objects(self, asset: str) -> Path:
        return self.settings.store / OBJECTS / asset

    def lose(self, asset: str, *values: str | int) -> None:
        """Remove the artifacts of some partitions; of rankings, those of a retriever."""
        for path in self.stored(asset, *values):
            remove(path)

    def write(self) -> Tiny:
        for name, text in DOCUMENTS.items():
            self.write_document(name, text)
        self.write_rows("queries.jsonl", QUERIES)
        self.write_rows("judgments.jsonl", JUDGMENTS)
        self.write_config()
        return self

    def write_document(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def write_rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (self.folder / name).write_text(text, encoding="utf-8")

    def write_config(self) -> None:
        text = yaml.safe_dump(self.config, sort_keys=False)
        (self.folder / "experiment.yaml").write_text(text, encoding="utf-8")

    def configure(self, retriever: str, **values: Any) -> None:
        self.config["retrievers"].setdefault(retriever, {}).update(values)
        self.write_config()

    def replace(self, name: str, old: str, new: str) -> None:
        file = self.folder / name
        text = file.read_text(encoding="utf-8")
        if old not in text:
            raise ValueError(f"{old!r} is not in {name}")
        file.write_text(text.replace(old, new, 1), encoding="utf-8")

    def copy_to(self, root: Path) -> Tiny:
        """Return a copy with all that is stored, whose list of experiments names the copy."""
        shutil.copytree(self.root, root)
        moved = Tiny(root, copy.deepcopy(self.config))
        name, source = str(moved.config["name"]), str(moved.folder / "experiment.yaml")
        moved.settings.registry.write_text(json.dumps({name: source}), encoding="utf-8")
        return moved

    def start_from(self, computed: Tiny) -> Tiny:
        """Put all that another one stored, which has no evaluation, into the empty store."""
        shutil.copytree(computed.root / "store", self.root / "store")
        return self

    def pipeline(self) -> Pipeline:
        return Pipeline(load_experiment(self.folder), self.settings)

    def run(self) -> set[str]:
        return materialize(self.pipeline())

    def names(self) -> EvaluationNames:
        """Return the names of its evaluations, such as ``latest``."""
        return EvaluationNames(self.settings, self.artifacts.name)

    def rows(self, key: ArtifactKey) -> list[dict[str, Any]]:
        """Return the up-to-date table of a partition."""
        return list(self.pipeline().artifact(key).table().to_pylist())

    def facts(self, key: ArtifactKey) -> dict[str, Any]:
        """Return what the manifest of a partition says."""
        return dict(self.pipeline().artifact(key).manifest.facts)

    def ranked(
        self, retriever: str, top_k: int, column: str = "unit_id"
    ) -> dict[str, list[tuple[str, float]]]:
        """Return, for each query, what a retriever found and its scores."""
        ranked: dict[str, list[tuple[str, float]]] = {q["query_id"]: [] for q in QUERIES}
        for row in self.rows(run_key(self.pipeline().experiment, retriever, top_k)):
            ranked[row["query_id"]].append((row[column], row["score"]))
        return ranked

    def command(self, *words: str, columns: int = 80) -> Result:
        """Run ``rag-assets`` on the store; ``.`` stands for the experiment's folder."""
        own = [str(self.folder) if word == "." else word for word in words]
        runner = CliRunner(env={"COLUMNS": str(columns), "DAGSTER_HOME": None})
        return runner.invoke(main, [*own, "--store", str(self.settings.store)])

    def snapshot(self) -> Evaluation:
        return record(self.pipeline(), started=datetime.now(UTC), trigger="test", computed=0)


def materialize(pipeline: Pipeline, selection: Selection | None = None) -> set[str]:
    """Bring partitions up to date without Dagster; return those that were computed."""
    experiment = pipeline.experiment
    selection = selection or Selection.of(experiment)
    computed = set()
    for asset, keys in required_partitions(experiment, selection).items():
        outcomes = pipeline.materialize(asset, keys)
        new = {outcome.artifact.path for outcome in outcomes if not outcome.reused}
        # A partition that equals one that was computed is as new.
        computed |= {short(one.key) for one in outcomes if one.artifact.path in new}
    return computed


def short(key: ArtifactKey) -> str:
    return "/".join([key.asset, *(value for _, value in key.partition)])


def matching(pipeline: Pipeline, *patterns: str) -> set[str]:
    names = [short(key) for stage in pipeline.stages() for key in stage.keys(pipeline.experiment)]
    found = {pattern: set(fnmatch.filter(names, pattern)) for pattern in patterns}
    if not all(found.values()):
        raise ValueError(f"a pattern matches nothing: {found}")
    return set().union(*found.values())


def planned(tiny: Tiny, retrievers: Sequence[str] = (), top_k: Sequence[int] = ()) -> Plan:
    pipeline = tiny.pipeline()
    return plan(pipeline, Selection.of(pipeline.experiment, retrievers, top_k))


def by_action(found: Plan) -> dict[str, set[str]]:
    actions: dict[str, set[str]] = {action: set() for action in ACTIONS}
    for step in found.steps:
        actions[step.action].add(short(step.key))
    return actions


def is_done(found: Plan, computed: set[str]) -> bool:
    """Whether all that is to be computed was, and nothing that is to be reused."""
    actions = by_action(found)
    return actions[COMPUTE] <= computed <= actions[COMPUTE] | actions[CHECK]


def damage(tiny: Tiny, key: ArtifactKey, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replace the table of an up-to-date partition by a changed one."""
    pipeline = tiny.pipeline()
    artifact = pipeline.artifact(key)
    changed = change(artifact.table())
    remove(artifact.path)  # what is there would stay
    pipeline.store.write_table(changed, artifact.manifest)
    pipeline.store.verified.save()


def set_cell(column: str, row: int, value: object) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        values = table.column(column).to_pylist()
        values[row] = value
        place = table.column_names.index(column)
        field = table.schema.field(column)
        return table.set_column(place, field, pa.array(values, field.type))

    return change


def drop_query(query_id: str) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        kept = [row != query_id for row in table.column("query_id").to_pylist()]
        return table.filter(pa.array(kept))

    return change


def all_measurements(measurements: Measurements) -> list[Measurement]:
    """Return what each file holds, in the order of the files."""
    files = sorted(measurements.folder.glob("*/*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]
