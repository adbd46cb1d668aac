"""The component in a fresh project, made and checked by Dagster's own tools."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

import rag_assets
from rag_assets.checks.asset_checks import checks_of
from rag_assets.component import RetrievalExperiment, unloadable
from rag_assets.errors import ConfigError
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.stages import STAGES
from tests.installed import install
from tests.tiny_experiment import Tiny

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "dagster.md"
TYPE = "rag_assets.RetrievalExperiment"


class Project:
    """A project that `create-dagster` made, in an environment in which we are installed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        pyproject = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
        self._installed = install(root / "site", {}, pyproject)
        self.call("create-dagster", "project", "shop", "--no-uv-sync", folder=root)
        self.folder = root / "shop"
        self.defs = self.folder / "src" / "shop" / "defs"

    def call(self, *command: str, folder: Path | None = None, fails: bool = False) -> str:
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

    def write(self, name: str, text: str) -> Path:
        file = self.defs / name / "defs.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    root = tmp_path_factory.mktemp("component")
    for name in ("handbook", "other"):
        tiny = Tiny(root / f"of-{name}").write()
        tiny.config["name"] = name
        tiny.write_config()
        tiny.folder.rename(root / name)
    return Project(root)


def page_block(language: str, having: str) -> str:
    """Return the one example of docs/dagster.md in a language that holds a text."""
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [block for block in blocks if having in block]
    return str(block)


@pytest.mark.slow
def test_two_experiments_side_by_side(project: Project) -> None:
    """The first as docs/dagster.md says, the second with the attributes of its example."""
    commands = page_block("console", "create-dagster")
    scaffold = re.search(r"\$ (dg scaffold .*)", commands)
    assert scaffold is not None
    project.call(*scaffold.group(1).split())
    written = (project.defs / "handbook" / "defs.yaml").read_text(encoding="utf-8")
    assert written == (
        f"type: {TYPE}\n\nattributes:\n  path: ../../../../../handbook\n"
        "  store: ../../../../data/store\n"
    )
    project.write("other", page_block("yaml", TYPE).replace("/handbook", "/other"))
    assert project.call("dg", "check", "defs") in commands
    listed = json.loads(project.call("dg", "list", "defs", "--json"))
    by_experiment: dict[str, list[dict[str, object]]] = {"handbook": [], "other": []}
    for asset in listed["assets"]:
        by_experiment[asset["asset_key_parts"][0]].append(asset)
    assert len(by_experiment["handbook"]) == len(by_experiment["other"]) == 20
    checks = {check["name"] for check in listed["asset_checks"]}
    assert checks >= {"label_health", "queries_answered", "no_regression"}


def test_mistakes_are_refused_with_file_and_line(project: Project) -> None:
    broken = project.root / "broken" / "experiment.yaml"
    broken.parent.mkdir()
    broken.write_text("name: broken\ntop_kk: [1]\n", encoding="utf-8")
    with pytest.raises(dg.DagsterInvalidDefinitionError) as error:
        dg.build_defs_for_component(RetrievalExperiment(path=str(broken), strict=True))
    assert str(error.value).startswith(f"{broken}:2: `top_kk`: unknown key")
    text = f"type: {TYPE}\n\nattributes:\n  path: ../../../../../other\n  stores: x\n"
    file = project.write("broken", text)
    # Named, because without a path `dg` 1.13 looks at one file of each type only.
    said = project.call("dg", "check", "yaml", str(file.parent), fails=True)
    assert f"{file}:5 - {TYPE} attributes.stores Additional properties are not allowed" in said
    file.unlink()


def test_a_broken_experiment_is_one_failed_check(tmp_path: Path) -> None:
    """And what else the project has is loaded."""
    broken = tmp_path / "experiment.yaml"
    broken.write_text("name: broken\ntop_kk: [1]\n", encoding="utf-8")
    problem = f"{broken}:2: `top_kk`: unknown key"
    definitions = dg.build_defs_for_component(RetrievalExperiment(path=str(broken)))
    (key,) = definitions.resolve_asset_graph().get_all_asset_keys()
    (sensor,) = definitions.sensors or ()
    assert isinstance(sensor, dg.SensorDefinition)
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance, definitions=definitions)
        (event,) = sensor.evaluate_tick(context).asset_events
        assert isinstance(event, dg.AssetCheckEvaluation)
        assert (event.asset_key, event.passed) == (key, False)
        assert problem in str(event.description).replace("\\", "")
        job = definitions.resolve_implicit_global_asset_job_def()
        (found,) = job.execute_in_process(instance=instance).get_asset_check_evaluations()
    assert not found.passed
    assert problem in str(found.description).replace("\\", "")


def test_no_name_of_a_folder_and_no_cron_expression_takes_the_project_down(tmp_path: Path) -> None:
    shown = unloadable(["my shop (old)", "a-b.c", "experiment"], lambda: None, "a problem")
    dg.Definitions.validate_loadable(shown)
    assert [*shown.resolve_asset_graph().get_all_asset_keys()] == [
        dg.AssetKey(["my_shop__old_", "a-b.c", "experiment"])
    ]
    tiny = Tiny(tmp_path)
    tiny.config["schedule"] = {"cron": "0 25 * * *"}
    tiny.write()
    component = RetrievalExperiment(path=str(tiny.folder), store=str(tmp_path / "store"))
    graph = dg.build_defs_for_component(component).resolve_asset_graph()
    assert {key.name for key in graph.asset_check_keys} == {"can_be_loaded"}


def test_what_dg_tells_of_the_type() -> None:
    assert rag_assets.RetrievalExperiment is RetrievalExperiment
    with pytest.raises(AttributeError, match="has no attribute 'RetrievalExperiments'"):
        _ = rag_assets.RetrievalExperiments
    schema = RetrievalExperiment.model().model_json_schema()
    assert list(schema["properties"]) == ["path", "store", "deps", "ray", "strict"]
    assert schema["required"] == ["path"]
    assert all(value["description"] for value in schema["properties"].values())
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"\n| `{name}` |" in page for name in schema["properties"])


def test_checks_on_the_page_are_those_that_there_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    checks = {check for stage in STAGES.values() for check in checks_of(stage)}
    for check in checks:
        lines = [line for line in page.splitlines() if line.startswith(f"| `{check.name}` |")]
        assert lines, check.name


def test_without_dg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Tiny(tmp_path)
    tiny.config["name"] = "handbook"
    tiny.write().folder.rename(tmp_path / "handbook")
    monkeypatch.chdir(tmp_path)
    names: dict[str, dg.Definitions] = {}
    exec(page_block("python", "build_defs"), names)  # our own page
    graph = names["defs"].resolve_asset_graph()
    assert len(graph.get_all_asset_keys()) == 22
    readers = graph.get(dg.AssetKey("raw_pages")).child_keys
    assert {key.path[-1] for key in readers} == {"documents", "queries", "qrels"}
    assert graph.get(dg.AssetKey("weekly_mail")).parent_keys == {
        dg.AssetKey(["handbook", "metrics_summary"])
    }


def test_deps_of_the_yaml_and_of_the_component_come_together(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path)
    tiny.config["deps"] = {"documents": ["raw_pages"], "qrels": ["labels/export"]}
    tiny.write()
    component = RetrievalExperiment(path=str(tiny.folder), store=str(tmp_path), deps=["mirror"])
    graph = dg.build_defs_for_component(component).resolve_asset_graph()
    outside = {
        name: {key.to_user_string() for key in graph.get(dg.AssetKey(["tiny", name])).parent_keys}
        for name in ("documents", "queries", "qrels")
    }
    assert outside["documents"] == {"raw_pages", "mirror"}
    assert outside["queries"] == {"mirror"}
    assert outside["qrels"] >= {"labels/export", "mirror"}
    tiny.config["deps"] = {"docs": ["raw_pages"]}
    tiny.write_config()
    with pytest.raises(ConfigError, match=r"yaml:\d+: `deps.docs`: .*documents"):
        load_experiment(tiny.folder)


def test_steps_and_values_on_the_page_of_kubernetes(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "how_to" / "kubernetes.md").read_text(encoding="utf-8")
    steps = set(re.findall(r"handbook__\w+", page))
    defs = rag_assets.build_defs(REPOSITORY / "data" / "handbook", store=tmp_path)
    nodes = {node.name for node in defs.resolve_implicit_global_asset_job_def().nodes}
    assert steps
    assert steps <= nodes
    values = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    assert deployment["dagsterApiGrpcArgs"] == ["--python-file", "/app/definitions.py"]


def test_a_store_on_s3_is_not_asked_for_the_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("RAG_ASSETS_STATE_DIR", raising=False)
    tiny = Tiny(tmp_path).write()
    component = RetrievalExperiment(path=str(tiny.folder), store="s3://a-bucket/nightly")
    definitions = component.build_defs(dg.ComponentTree.for_test().load_context)
    assert definitions.resolve_asset_graph().get_all_asset_keys()
