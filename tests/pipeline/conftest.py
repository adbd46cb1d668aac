from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from rag_assets.pipeline.evaluations import CURRENT
from rag_assets.pipeline.evaluations import FOLDER as SNAPSHOTS
from rag_assets.pipeline.evaluations import HISTORY_DIR as HISTORY
from rag_assets.store.artifacts import OBJECTS
from rag_assets.store.atomic import remove
from tests.remote_machines import Evaluated, Machines, names_sent
from tests.s3_server import VARIABLES, make_bucket
from tests.tiny_experiment import Tiny


@pytest.fixture(scope="session")
def masters(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[int, ...]], Tiny]:
    """Return a function that gives the experiment with some cut-offs, computed once."""

    @cache
    def made(top_k: tuple[int, ...]) -> Tiny:
        tiny = Tiny(tmp_path_factory.mktemp("pipeline") / "master")
        tiny.config["top_k"] = [*top_k]
        tiny.write()
        # A digest of a file that was just written is not remembered, and a plan would do so.
        for file in tiny.folder.rglob("*"):
            os.utime(file, (0, 1_700_000_000))
        tiny.run()
        tiny.snapshot()
        return tiny

    return made


@pytest.fixture(scope="module")
def pipeline_master(masters: Callable[[tuple[int, ...]], Tiny], cutoffs: tuple[int, ...]) -> Tiny:
    """The experiment, computed once; tests get copies."""
    return masters(cutoffs)


@pytest.fixture
def tiny(pipeline_master: Tiny, tmp_path: Path) -> Tiny:
    """The experiment with everything up to date and a snapshot."""
    return pipeline_master.copy_to(tmp_path / "tiny")


@pytest.fixture
def one(tmp_path: Path) -> Tiny:
    """Two retrievers, one cut-off."""
    tiny = Tiny(tmp_path / "one")
    kept = ("bm25", "bm25-whole")
    tiny.config["retrievers"] = {name: tiny.config["retrievers"][name] for name in kept}
    tiny.config |= {"top_k": [1], "primary": "mrr@1", "metrics": ["mrr"]}
    return tiny.write()


@pytest.fixture(scope="session")
def evaluated(s3_url: str, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """Machines of which `first` has evaluated, and sent everything."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**VARIABLES, "AWS_ENDPOINT_URL": s3_url}.items():
            patch.setenv(name, value)
        make_bucket(s3_url, "evaluated")
        machines = Machines(tmp_path_factory.mktemp("machines"), "s3://evaluated/nightly")
        sent = names_sent(patch)
        computed, evaluation = machines["first"].evaluate()
    assert len(computed) == len(evaluation.entries)
    return Evaluated(machines, evaluation, sent)


@pytest.fixture
def machines(s3_store: str, evaluated: Evaluated, tmp_path: Path) -> Machines:
    """Other machines, with the store in which that one and other tests have evaluated."""
    return Machines(tmp_path, evaluated.machines.address)


@pytest.fixture
def unsent(s3_store: str, evaluated: Evaluated, tmp_path: Path) -> Machines:
    """Machines with an empty store; `a` has computed everything, and sent nothing."""
    machines = Machines(tmp_path, s3_store)
    root, first = machines["a"].root, evaluated.machines["first"].root
    shutil.copytree(first, root)
    shutil.copytree(first.parent / OBJECTS, root.parent / OBJECTS)
    for name in (CURRENT, SNAPSHOTS, HISTORY):
        remove(root / name)
    return machines
