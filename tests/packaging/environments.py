"""Virtual environments beside the one that tests run in, and packages that pip puts there.

An environment sees all of ours and has in itself only what differs, so that torch and other large
packages are never fetched again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.conftest import REPOSITORY

SMOKE = REPOSITORY / "tests" / "packaging" / "smoke_experiment.py"
CHECK_INDEX = ["--retries", "0", "--timeout", "10", "--dry-run", "--no-deps", "--ignore-installed"]


def project() -> dict[str, object]:
    """Return the table ``project`` of pyproject.toml."""
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    table: dict[str, object] = tomllib.loads(text)["project"]
    return table


def dependencies() -> list[Requirement]:
    """Return what the package itself needs, without extras."""
    listed = project()["dependencies"]
    assert isinstance(listed, list)
    return [Requirement(text) for text in listed]


def run(*command: str | Path, folder: Path | None = None, **variables: str) -> str:
    """Run a program that must succeed; return its standard output."""
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**plain, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def need_index() -> None:
    """Skip the test where pip reaches no package index."""
    arguments = [sys.executable, "-m", "pip", "install", "-q", *CHECK_INDEX, "hatchling"]
    if subprocess.run(arguments, capture_output=True, check=False).returncode:
        pytest.skip("pip reaches no package index")


def source_tree(folder: Path) -> Path:
    """Copy what a build reads, so that nothing is written beside the sources."""
    for name in ("rag_assets", "tests", "docs", ".github"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignored)
    for pattern in ("*.md", "*.yaml", "*.yml", "*.toml", "*.txt", "*.py", "LICENSE", "Makefile"):
        for file in REPOSITORY.glob(pattern):
            shutil.copy(file, folder / file.name)
    return folder


def build(tree: Path, out: Path, **addresses: str) -> tuple[Path, Path]:
    """Return the sdist, and the wheel that is built from it."""
    run(sys.executable, "-m", "build", "--outdir", out, tree, folder=None, **addresses)
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


@dataclass(frozen=True)
class Environment:
    """A virtual environment in ``folder`` that sees the packages of ours."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Environment:
        """Make it; what is installed there comes before what it sees of ours."""
        venv.create(folder, with_pip=False)
        environment = cls(folder)
        (environment.packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
        return environment

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Where its own packages are."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / "lib" / version / "site-packages"

    def install(self, *arguments: str | Path) -> None:
        """Run ``pip install`` for it."""
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", self.python, "install"]
        run(*pip, "-q", "--no-compile", *arguments)

    def install_package(self, wheel: Path) -> None:
        """Install our wheel, although the one of the sources is seen too, and nothing else."""
        self.install("--no-deps", "--ignore-installed", "--no-index", wheel)

    def evaluate_a_sample(self, folder: Path) -> None:
        """Evaluate a small experiment there, by the command that was installed with the package."""
        folder.mkdir()
        shown = json.loads(run(self.python, SMOKE, folder=folder).splitlines()[-1])
        assert Path(shown["package"]).is_relative_to(self.packages)
        assert shown["recall"] == {"words": 1.0, "vectors": 1.0, "both": 1.0}
        assert shown["report"]

    def version(self, package: str) -> str:
        """Return which version of a package it imports."""
        ask = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
        return run(self.python, "-c", ask, package).strip()
