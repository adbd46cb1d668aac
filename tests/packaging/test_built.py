"""The sdist and the wheel: built as a release builds them, installed, and used."""

from __future__ import annotations

import re
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.packaging.conftest import FORGE
from tests.packaging.environments import Environment, build

pytestmark = pytest.mark.slow

RELATIVE = re.compile(r"\]\((?!\w+:|#)")


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as files:
        name = next(name for name in files.namelist() if name.endswith("/METADATA"))
        return Parser().parsestr(files.read(name).decode())


def readme_of(wheel: Path) -> str:
    payload = metadata_of(wheel).get_payload()
    assert isinstance(payload, str)
    return re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE).sub("", payload)


def test_the_wheel_holds_every_file_of_the_package(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as files:
        inside = {name for name in files.namelist() if name.startswith("rag_assets/")}
    ours = {
        str(file.relative_to(REPOSITORY))
        for file in (REPOSITORY / "rag_assets").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert inside == ours
    assert {"rag_assets/py.typed", "rag_assets/report/page/templates/page.html"} <= inside


def test_the_sdist_holds_what_a_packager_tests_with(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    wanted = {"pyproject.toml", "hatch_build.py", "constraints.txt", "LICENSE", "Makefile"}
    wanted |= {"CHANGELOG.md", "SECURITY.md", "UPGRADING.md", "tests/packaging/test_built.py"}
    assert wanted <= names


def test_links_of_the_readme_are_absolute(built: tuple[Path, Path]) -> None:
    readme = readme_of(built[1])
    assert not RELATIVE.search(readme)
    assert f"]({FORGE}/blob/v1/docs/statistics.md)" in readme
    assert f"]({FORGE}/raw/v1/docs/images/report.png)" in readme
    listed = metadata_of(built[1]).get_all("Project-URL", [])
    urls = {name: url for name, _, url in (text.partition(", ") for text in listed)}
    assert urls == {
        "Source": FORGE,
        "Documentation": f"{FORGE}/blob/v1/docs/index.md",
        "Changelog": f"{FORGE}/blob/v1/CHANGELOG.md",
        "Issues": f"{FORGE}/issues",
    }


def test_without_an_address_none_is_made_up(tree: Path, tmp_path: Path) -> None:
    _, wheel = build(tree, tmp_path, RAG_ASSETS_REPOSITORY="")
    readme = readme_of(wheel)
    assert not RELATIVE.search(readme)
    assert "(docs/statistics.md)" in readme
    assert metadata_of(wheel).get_all("Project-URL") is None


def test_an_installed_wheel_evaluates(built: tuple[Path, Path], tmp_path: Path) -> None:
    environment = Environment.make(tmp_path / "env")
    environment.install_package(built[1])
    smoke = tmp_path / "smoke"
    environment.evaluate_a_sample(smoke)
