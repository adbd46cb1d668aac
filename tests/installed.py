"""Packages that are installed for a test, and programs that run with them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import REPOSITORY


def install(folder: Path, files: Mapping[str, str], pyproject: str) -> Path:
    """Put the files of a package into a folder, with what an installer writes beside them."""
    project = tomllib.loads(pyproject)["project"]
    name, version = project["name"], project["version"]
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    groups = [
        f"[{group}]\n" + "".join(f"{point} = {value}\n" for point, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
    return folder


def python(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder whose packages it finds, beside those of this repository."""
    path = os.pathsep.join([str(site), str(REPOSITORY)])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=site,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
