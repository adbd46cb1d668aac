"""The component in a fresh project, made and checked by Dagster's own tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.tiny_experiment import Tiny

REPOSITORY = Path(__file__).resolve().parents[1]
GROUP = "dagster_dg_cli.registry_modules"
TYPE = "rag_assets.RetrievalExperiment"


class Project:
    """A project that `create-dagster` made, in an environment in which we are installed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._installed = _installed(root / "site")
        self.call("create-dagster", "project", "shop", "--no-uv-sync", folder=root)
        self.folder = root / "shop"
        self.defs = self.folder / "src" / "shop" / "defs"

    def call(self, *command: str, folder: Path | None = None, fails: bool = False) -> str:
        """Run a tool; return what it printed."""
        tool = Path(sys.executable).with_name(command[0])
        paths = [REPOSITORY, self._installed, self.root / "shop" / "src"]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "VIRTUAL_ENV": str(Path(sys.executable).parents[1]),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "NO_COLOR": "1",
            "COLUMNS": "300",
        }
        result = subprocess.run(
            [str(tool), *command[1:]],
            cwd=folder or self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (result.returncode != 0) == fails, result.stdout + result.stderr
        return result.stdout if not fails else result.stdout + result.stderr

    def add(self, name: str, lines: Sequence[str]) -> Path:
        """Write an instance of the component."""
        file = self.defs / name / "defs.yaml"
        file.parent.mkdir(exist_ok=True)
        attributes = "".join(f"  {line}\n" for line in lines)
        file.write_text(f"type: {TYPE}\n\nattributes:\n{attributes}", encoding="utf-8")
        return file


def _installed(folder: Path) -> Path:
    """Make the entry points of pyproject.toml known, as an installation would."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / "rag_assets_here-0.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rag-assets-here\nVersion: 0\n")
    lines = [f"{name} = {module}\n" for name, module in project["entry-points"][GROUP].items()]
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{''.join(lines)}")
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    root = tmp_path_factory.mktemp("component")
    for name in ("tiny", "other"):
        tiny = Tiny(root / name).write()
        tiny.config["name"] = name
        tiny.write_config()
    return Project(root)


def test_two_experiments_side_by_side(project: Project) -> None:
    project.call("dg", "scaffold", "defs", TYPE, "tiny", "--path", "../../../../../tiny/data")
    written = (project.defs / "tiny" / "defs.yaml").read_text(encoding="utf-8")
    assert written == (f"type: {TYPE}\n\nattributes:\n  path: ../../../../../tiny/data\n")
    owners = 'owners: ["team:search"]'
    project.add("other", ["path: ../../../../../other/data", "store: store", owners])
    listed = json.loads(project.call("dg", "list", "defs", "--json"))
    by_experiment: dict[str, list[dict[str, object]]] = {"tiny": [], "other": []}
    for asset in listed["assets"]:
        by_experiment[asset["asset_key_parts"][0]].append(asset)
    assert len(by_experiment["tiny"]) == len(by_experiment["other"]) == 20
    assert by_experiment["tiny"][0]["owners"] == []
    assert by_experiment["other"][0]["owners"] == [{"team": "search"}]
    checks = {check["name"] for check in listed["asset_checks"]}
    assert checks >= {"label_health", "ids_exist", "no_regression"}


def test_mistakes_are_refused_with_file_and_line(project: Project) -> None:
    project.add("broken", ["path: ../../../../../broken"])
    broken = project.root / "broken" / "experiment.yaml"
    broken.parent.mkdir()
    broken.write_text("name: broken\ntop_kk: [1]\n", encoding="utf-8")
    said = project.call("dg", "check", "defs", fails=True)
    assert f"{broken}:2: `top_kk`: unknown key" in said
    file = project.add("broken", ["path: ../../../../../tiny/data", "stores: x"])
    # Named, because without a path `dg` 1.13 looks at one file of each type only.
    said = project.call("dg", "check", "yaml", str(file.parent), fails=True)
    assert f"{file}:5 - {TYPE} attributes.stores Additional properties are not allowed" in said
    file.unlink()


def test_what_dg_tells_of_the_type() -> None:
    from rag_assets import RetrievalExperiment

    schema = RetrievalExperiment.model().model_json_schema()
    assert list(schema["properties"]) == ["path", "store", "owners"]
    assert schema["required"] == ["path"]
    assert all(value["description"] for value in schema["properties"].values())


def test_a_name_that_the_package_lacks() -> None:
    import rag_assets

    assert "RetrievalExperiment" in dir(rag_assets)
    with pytest.raises(AttributeError, match="has no attribute 'RetrievalExperiments'"):
        _ = rag_assets.RetrievalExperiments  # type: ignore[attr-defined]
