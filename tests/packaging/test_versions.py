"""The package beside the newest and the lowest versions that pyproject.toml allows.

What the large packages need is resolved by pip. torch is not: its builds for GPUs bring gigabytes,
so a stand-in of the tested version says what torch needs, and where something is run, it runs with
the torch that is there.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.conftest import REPOSITORY
from tests.packaging.environments import Environment, dependencies, need_index, run

pytestmark = pytest.mark.slow

minutes = pytest.mark.skipif(
    not os.environ.get("RAG_ASSETS_PACKAGES"), reason="installs for minutes (`make packages`)"
)

TORCH = metadata.version("torch")


def lowest() -> dict[str, Version]:
    """Return the lowest version of each dependency that is allowed."""
    bounds: dict[str, Version] = {}
    for requirement in dependencies():
        lower = [Version(one.version) for one in requirement.specifier if one.operator == ">="]
        bounds[canonicalize_name(requirement.name)] = lower[0]
    return bounds


def stand_in(folder: Path) -> Path:
    """Write a wheel of torch for every Python, which has the needs of torch and nothing else."""
    version = f"{Version(TORCH).public}+stand.in"
    needs = "".join(f"Requires-Dist: {one}\n" for one in metadata.requires("torch") or ())
    wheel = folder / f"torch-{version}-py3-none-any.whl"
    info = f"torch-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as files:
        described = f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n{needs}"
        files.writestr(f"{info}/METADATA", described)
        files.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        files.writestr(f"{info}/RECORD", "")
    return wheel


def test_no_dependency_is_held_at_one_version() -> None:
    operators = {one.operator for requirement in dependencies() for one in requirement.specifier}
    assert operators == {">=", "<"}
    assert set(lowest()) == {canonicalize_name(one.name) for one in dependencies()}


@minutes
@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_all_is_there_for_later_pythons(version: str, tmp_path: Path) -> None:
    need_index()
    wheel = stand_in(tmp_path)
    report = tmp_path / "report.json"
    arguments: list[str | Path] = ["--dry-run", "--ignore-installed", "-q", "--report", report]
    arguments += ["--target", tmp_path]
    arguments += ["--python-version", version, "--only-binary=:all:"]
    wanted = [str(one) for one in dependencies() if one.name != "torch"]
    # Versions that are tested spare pip the search; tests below take the newest and the lowest.
    arguments += ["--constraint", _constraints_without_torch(tmp_path)]
    run(sys.executable, "-m", "pip", "install", *arguments, wheel, *wanted)
    found = {canonicalize_name(one["metadata"]["name"]): one for one in _installs(report)}
    assert {canonicalize_name(one.name) for one in dependencies()} <= set(found)


def _constraints_without_torch(folder: Path) -> Path:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    file = folder / "constraints.txt"
    file.write_text("".join(f"{line}\n" for line in lines if not line.startswith("torch==")))
    return file


def _installs(report: Path) -> list[dict[str, dict[str, str]]]:
    listed: list[dict[str, dict[str, str]]] = json.loads(report.read_text())["install"]
    return listed


@minutes
def test_it_runs_beside_the_newest(built: tuple[Path, Path], tmp_path: Path) -> None:
    environment = Environment.make(tmp_path / "env")
    environment.install_package(built[1])
    wanted = [str(one) for one in dependencies() if one.name != "torch"]
    held = tmp_path / "held.txt"
    held.write_text(f"torch=={TORCH}\n")
    newest: list[str | Path] = ["--upgrade", "--upgrade-strategy", "eager", "--constraint", held]
    environment.install(*newest, *wanted)
    environment.evaluate_a_sample(tmp_path / "smoke")


@minutes
def test_it_runs_beside_the_lowest(built: tuple[Path, Path], tmp_path: Path) -> None:
    environment = Environment.make(tmp_path / "env")
    environment.install_package(built[1])
    bounds = {name: version for name, version in lowest().items() if name != "torch"}
    pins = [f"{name}=={version}" for name, version in bounds.items()]
    environment.install("rag-assets", *pins)
    there = {name: Version(environment.version(name)) for name in ("duckdb", "numpy", "pyarrow")}
    assert there == {name: bounds[name] for name in there}
    assert Version(Version(TORCH).public) == lowest()["torch"], "constraints.txt has another torch"
    environment.evaluate_a_sample(tmp_path / "smoke")
