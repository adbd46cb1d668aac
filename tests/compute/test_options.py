"""`compute` in an experiment.yaml and RAG_ASSETS_COMPUTE: read, checked, in no fingerprint."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from rag_assets.compute.compute import LOCAL, VARIABLE, ComputeConfig, compute_of, connect, in_force
from rag_assets.errors import ComputeUnavailable, ConfigError, UsageError
from rag_assets.experiment import load_experiment
from tests.tiny_experiment import Tiny

RAY = ComputeConfig(type="ray", workers=3)


def test_a_word_and_a_block_are_read(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path).write()
    assert load_experiment(tiny.folder).config.compute == ComputeConfig()
    tiny.config["compute"] = "ray"
    tiny.write_config()
    assert load_experiment(tiny.folder).config.compute == ComputeConfig(type="ray")
    tiny.config["compute"] = {"type": "ray", "address": "head:6379", "workers": 8, "gpus": 0.5}
    tiny.write_config()
    found = load_experiment(tiny.folder).config.compute
    assert (found.address, found.workers, found.gpus) == ("head:6379", 8, 0.5)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "ray", "adress": "auto"}, ": `compute.adress`: unknown key 'adress' (did you"),
        ({"type": "local", "workers": 2}, ": `compute`: workers: only for type: ray"),
        ({"type": "ray", "address": "head"}, ": `compute`: address must be auto, host:port or"),
        ({"type": "ray", "cpus": 0}, ": `compute`: a worker needs cpus or gpus"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, block: object, expected: str) -> None:
    tiny = Tiny(tmp_path).write()
    tiny.config["compute"] = block
    tiny.write_config()
    with pytest.raises(ConfigError) as raised:
        load_experiment(tiny.folder)
    assert expected in str(raised.value)


def test_the_variable_stands_above_the_experiment() -> None:
    assert in_force(RAY, "") == RAY
    assert in_force(RAY, "ray") == RAY
    assert in_force(RAY, "local") == ComputeConfig()
    assert in_force(ComputeConfig(), "ray") == ComputeConfig(type="ray")
    elsewhere = in_force(RAY, "ray://head:10001")
    assert elsewhere == ComputeConfig(type="ray", workers=3, address="ray://head:10001")
    with pytest.raises(UsageError, match=r"RAG_ASSETS_COMPUTE must be local, ray, host:port"):
        in_force(RAY, "cluster")


def test_without_a_word_nothing_leaves_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert compute_of(ComputeConfig()) is LOCAL
    monkeypatch.setenv(VARIABLE, "local")
    assert compute_of(RAY) is LOCAL


def test_no_fingerprint_holds_it_and_a_plan_reaches_no_cluster(
    tmp_path: Path, computed: Tiny
) -> None:
    tiny = Tiny(tmp_path).start_from(computed).write()
    tiny.config["compute"] = {"type": "ray", "address": "127.0.0.1:1"}
    tiny.write_config()
    assert tiny.run() == set()


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'rag-assets\[ray\]'$"):
        connect("auto")


@pytest.mark.usefixtures("with_ray")
def test_where_nobody_answers_there_is_one_line() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # nobody else gets the port, and nobody listens
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(ComputeUnavailable) as raised:
            connect(address)
    assert str(raised.value).startswith(f"compute: ray found no Ray cluster at {address}: ")
    assert "\n" not in str(raised.value)
