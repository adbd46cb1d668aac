from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from rag_assets.cli import main
from rag_assets.store.settings import StoreSettings
from tests.beir_folder import write_beir
from tests.forked import Forks, Place
from tests.tiny_experiment import Tiny

Invoke = Callable[..., Result]
RunProcess = Callable[..., "subprocess.CompletedProcess[str]"]

ROOT = Path(__file__).parents[2]
BM25_ONLY = "retrievers: {bm25: {type: bm25, analyzer: english}}\ntop_k: [1, 3, 10]\n"
VARIABLES = ("RAG_ASSETS_STORE", "RAG_ASSETS_STATE_DIR", "DAGSTER_HOME")


def warehouse_rows(settings: StoreSettings) -> dict[str, list[object]]:
    """The rows of every table and view of a warehouse but those that tell of time."""
    with duckdb.connect(str(settings.warehouse), read_only=True) as connection:
        names = [row[0] for row in connection.sql("SHOW TABLES").fetchall()]
        return {
            name: sorted(connection.sql(f"SELECT * FROM {name}").fetchall(), key=repr)
            for name in names
            if name
            not in (
                "measurements",
                "evaluations",
                "history",
                "history_retrievers",
                "history_answers",
                "history_judged",
            )
        }


def parsed(result: Result) -> Any:
    """Return the JSON that a command printed."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="session")
def process_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}


@pytest.fixture(scope="session")
def invoke() -> Invoke:
    def run(*arguments: object) -> Result:
        environment: dict[str, str | None] = {**dict.fromkeys(VARIABLES), "COLUMNS": "80"}
        return CliRunner(env=environment).invoke(main, [str(a) for a in arguments])

    return run


@pytest.fixture(scope="session")
def run_process(process_environment: dict[str, str]) -> RunProcess:
    """Return a function that runs the command line in a new process.

    Lines about work that takes long are left out: a busy machine has some.
    """

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "rag_assets.cli", *map(str, arguments)],
            env=process_environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        done.stderr = without_progress(done.stderr)
        return done

    return run


@pytest.fixture
def run_forked(forks: Forks, tmp_path: Path) -> RunProcess:
    """Return a function that does what `run_process` does, without importing everything anew."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        files = [tmp_path / f"forked-{name}.txt" for name in ("output", "errors")]
        place = Place(str(files[0]), environment={"COLUMNS": "80"}, errors=str(files[1]))
        words = [*map(str, arguments)]
        code = forks.run(place, *words)
        output, errors = (file.read_text(encoding="utf-8") for file in files)
        return subprocess.CompletedProcess(words, code, output, without_progress(errors))

    return run


def without_progress(stderr: str) -> str:
    """Leave out the lines that tell of work which takes long here."""
    return re.sub(r"^\d+:\d\d .*\n", "", stderr, flags=re.M)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_beir(tmp_path / "tiny", {"experiment.yaml": BM25_ONLY})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory, invoke: Invoke) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("evaluated")
    folder = write_beir(root / "tiny", {"experiment.yaml": BM25_ONLY})
    result = invoke("evaluate", folder, "--store", root / "store")
    assert result.exit_code == 0, result.output
    return folder, root / "store"


def two_searches(root: Path, computed: Tiny, *, labels: bool) -> Tiny:
    """An evaluation of two retrievers by metrics that can and cannot be estimated by a sample."""
    tiny = Tiny(root / "tiny").start_from(computed)
    names = ("bm25", "okapi")
    tiny.config["retrievers"] = {name: tiny.config["retrievers"][name] for name in names}
    tiny.config |= {"metrics": ["dcg", "ndcg"], "primary": "dcg@5", "top_k": [1, 5]}
    tiny.write()
    if not labels:
        (tiny.folder / "judgments.jsonl").unlink()
    tiny.run()
    tiny.snapshot()
    return tiny


@pytest.fixture(scope="session")
def unlabelled(tmp_path_factory: pytest.TempPathFactory, computed: Tiny) -> Tiny:
    return two_searches(tmp_path_factory.mktemp("unlabelled"), computed, labels=False)


@pytest.fixture
def again(evaluated: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """A copy of an evaluated experiment and its store, to be spoilt."""
    for source, name in zip(evaluated, ("tiny", "store"), strict=True):
        shutil.copytree(source, tmp_path / name)
    listed = json.dumps({"tiny": str(tmp_path / "tiny" / "experiment.yaml")})
    (tmp_path / "store" / "experiments.json").write_text(listed, encoding="utf-8")
    return tmp_path / "tiny", tmp_path / "store"
