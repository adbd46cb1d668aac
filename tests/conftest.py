"""Fixtures for all tests: real data where it is there, and no network."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from hypothesis import settings

from rag_assets.analysis.result import EvaluationResult
from rag_assets.cli import progress_bars
from tests.answers.answering import with_answers
from tests.forked import Forks, forking
from tests.llm.server import Server, serving
from tests.process_state import ModuleState, ProcessState
from tests.s3_server import VARIABLES, make_bucket, s3_server
from tests.tiny_experiment import CONFIG, MINILM, Tiny

REPOSITORY = Path(__file__).resolve().parents[1]

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")

# What tests write lies in memory where there is room: nobody waits for a disk then.
IN_MEMORY, ROOM = Path("/dev/shm"), 8 * 2**30
if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))

# How long an example takes says nothing about its result.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--shuffle SEED``: tests must pass in any order."""
    parser.addoption("--shuffle", type=int, help="run the tests in the order of this seed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle files, and the tests of each, so that fixtures of a file are made once."""
    seed = config.getoption("--shuffle")
    if seed is not None:
        order = random.Random(seed)
        places = {name: order.random() for name in sorted({item.path for item in items})}
        order.shuffle(items)
        items.sort(key=lambda item: places[item.path])


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name bytes by their number: those of an archive may hold the time at which they are made."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


def pytest_configure() -> None:
    """Let SIGINT mean something, also in the background of a script, where it is ignored.

    After a run in this process Dagster handles SIGTERM as SIGINT, and what is ignored is ignored by
    child processes too: they would not end when they are asked to. And look for no garbage while
    tests are collected: what is imported then stays.
    """
    gc.disable()
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Look no more for garbage among the tests and modules, which stay to the end.

    And look more rarely: what is imported later is large too, and was a tenth of the time of a
    journey.
    """
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def pytest_unconfigure() -> None:
    """Let the interpreter take everything apart at its end, as DuckDB wants it."""
    gc.unfreeze()


def _left_as_it_was(before: ProcessState | ModuleState) -> Iterator[None]:
    yield
    if changes := before.changes():
        pytest.fail("left behind for later tests: " + "; ".join(changes), pytrace=False)


@pytest.fixture(autouse=True)
def leaves_the_process_as_it_was() -> Iterator[None]:
    """Fail a test that leaves the environment, the working directory or a context variable."""
    yield from _left_as_it_was(ProcessState.now())


@pytest.fixture(autouse=True, scope="module")
def leaves_the_package_as_it_was() -> Iterator[None]:
    """Fail the last test of a file that leaves names of the package bound to something else."""
    yield from _left_as_it_was(ModuleState.now())


@pytest.fixture(scope="session")
def with_ray() -> None:
    """Import Ray before the state of the process is noted: it sets a variable and a path."""
    pytest.importorskip("ray", reason="the extra ray is not installed")


@pytest.fixture(autouse=True, scope="session")
def no_lines_about_long_work() -> None:
    """Print none in this process: whether there are any depends on how busy the machine is."""
    progress_bars.LINE_INTERVAL_S = 1e9


@pytest.fixture(autouse=True, scope="session")
def migrations_are_read_once() -> Iterator[None]:
    """Keep what alembic read: each new Dagster instance reads all migrations, eight times."""
    read, kept = ScriptDirectory.from_config, dict[str | None, ScriptDirectory]()

    def from_config(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        if place not in kept:
            kept[place] = read(config)
        return kept[place]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", from_config)
        yield


@pytest.fixture(autouse=True, scope="session")
def instances_are_copied(
    tmp_path_factory: pytest.TempPathFactory, migrations_are_read_once: None
) -> Iterator[None]:
    """Let a new Dagster instance be a copy of an empty one: making its databases takes longer.

    Where Dagster is not imported once all tests are collected, none needs an instance.
    """
    if "dagster" not in sys.modules:
        yield
        return
    from dagster import DagsterInstance

    make, empty = DagsterInstance.local_temp, dict[str, Path]()

    def local_temp(home: str, overrides: dict[str, Any]) -> DagsterInstance:
        (storage,) = overrides["storage"]
        if storage not in empty:
            empty[storage] = tmp_path_factory.mktemp("instance")
            told = json.loads(json.dumps(overrides).replace(home, str(empty[storage])))
            make(str(empty[storage]), told).dispose()
        if not (Path(home) / "history").exists():
            shutil.copytree(empty[storage], home, dirs_exist_ok=True)
        return make(home, overrides)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DagsterInstance, "local_temp", local_temp)
        yield


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Return a function that gives the folder of a real data set, or skips with a reason.

    The folders lie below ``RAG_ASSETS_SHARED_DATA``, or ``../shared/data`` beside the repository.
    """
    root = Path(os.environ.get("RAG_ASSETS_SHARED_DATA") or REPOSITORY.parent / "shared" / "data")

    def find(name: str) -> Path:
        folder = root / name
        if not folder.exists():
            pytest.skip(f"real data '{name}' is not there (set RAG_ASSETS_SHARED_DATA)")
        return folder

    return find


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """Return the URL of a server on loopback that speaks S3."""
    pytest.importorskip("moto", reason="the server is part of the extra `dev`")
    with s3_server() as url:
        yield url


@pytest.fixture
def s3_store(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a new, empty store; the environment names the server."""
    for name, value in {**VARIABLES, "AWS_ENDPOINT_URL": s3_url}.items():
        monkeypatch.setenv(name, value)
    bucket = f"ferries-{uuid.uuid4().hex[:12]}"
    make_bucket(s3_url, bucket)
    return f"s3://{bucket}/nightly/runs"


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server on loopback that speaks the protocols of language models and rerankers.

    A module's ``reply`` says what it writes; ``answer to: ...`` where there is none.
    """
    reply = getattr(request.module, "reply", None)
    with serving(*([reply] if reply is not None else [])) as running:
        yield running


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    with forking() as made:
        yield made


@pytest.fixture(scope="module")
def cutoffs(request: pytest.FixtureRequest) -> tuple[int, ...]:
    """The cut-offs of a module's experiments: its TOP_K, or those of every other."""
    return tuple(getattr(request.module, "TOP_K", CONFIG["top_k"]))


@pytest.fixture
def fresh(tmp_path: Path, cutoffs: tuple[int, ...]) -> Tiny:
    """The experiment with an empty store."""
    tiny = Tiny(tmp_path / "fresh")
    tiny.config["top_k"] = [*cutoffs]
    return tiny.write()


@pytest.fixture(scope="session")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The experiment, computed and not evaluated: for tests whose subject is what they change."""
    tiny = Tiny(tmp_path_factory.mktemp("computed") / "tiny").write()
    tiny.run()
    return tiny


@pytest.fixture(scope="session")
def computed_answers(tmp_path_factory: pytest.TempPathFactory, computed: Tiny) -> Tiny:
    """The experiment without and with right answers and answerers, computed and not evaluated."""
    tiny = Tiny(tmp_path_factory.mktemp("computed_answers") / "tiny").start_from(computed)
    with_answers(tiny.write())
    tiny.run()
    return tiny


@pytest.fixture
def with_minilm(tmp_path: Path) -> Tiny:
    """A small experiment with an embedding model, with an empty store; costs seconds."""
    tiny = Tiny(tmp_path / "minilm")
    kept = tiny.config["retrievers"]["bm25-whole"]
    tiny.config["retrievers"] = {"bm25-whole": kept, **MINILM}
    tiny.config["baseline"] = "bm25-whole"
    return tiny.write()


@pytest.fixture(scope="session")
def tiny_result(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    """Return one small evaluation that several files of tests read."""
    tiny = Tiny(tmp_path_factory.mktemp("report_of_tiny"))
    tiny.config["top_k"] = [1, 3, 5]
    tiny.write().run()
    return EvaluationResult(tiny.artifacts, tiny.snapshot())
