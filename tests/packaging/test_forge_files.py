"""The files for a public forge: what can be checked of them without running them there."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import REPOSITORY
from tests.packaging.release_notes import release_notes

FORGE = REPOSITORY / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
TEMPLATES = sorted((FORGE / "ISSUE_TEMPLATE").glob("*.yml"))
EXPRESSION = re.compile(r"\$\{\{ ?(.*?) ?\}\}")
CONTEXTS = {"github", "matrix", "runner", "env", "vars", "secrets", "steps", "needs"}
JOB_KEYS = {
    "name", "needs", "runs-on", "timeout-minutes", "env", "permissions", "strategy", "steps",
    "environment",
}  # fmt: skip
STEP_KEYS = {"name", "uses", "with", "run", "env", "working-directory", "if", "id"}
FIELDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def loaded(file: Path) -> dict[str, Any]:
    # YAML 1.1 reads the key `on` as true.
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in document.items()}


def steps(file: Path) -> Iterator[dict[str, Any]]:
    for job in loaded(file)["jobs"].values():
        yield from job["steps"]


def test_there_are_ci_and_release() -> None:
    assert [file.stem for file in WORKFLOWS] == ["ci", "release"]
    assert [file.stem for file in TEMPLATES] == ["bug", "config", "docs_disagree"]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_has_the_form_that_the_forge_asks_for(file: Path) -> None:
    workflow = loaded(file)
    assert set(workflow) <= {"name", "on", "permissions", "concurrency", "env", "jobs"}
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert set(job) <= JOB_KEYS
        systems = job.get("strategy", {}).get("matrix", {}).get("system", ["ubuntu-latest"])
        assert job["runs-on"] in ("ubuntu-latest", "${{ matrix.system }}")
        assert {*systems} <= {"ubuntu-latest", "macos-latest"}
        assert job["timeout-minutes"] <= 120
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= set(workflow["jobs"])
    for step in steps(file):
        assert set(step) <= STEP_KEYS
        assert ("uses" in step) != ("run" in step), step
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"])


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_its_expressions_name_contexts_and_values_that_exist(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count("${{") == len(EXPRESSION.findall(text)) == text.count("}}")
    for expression in EXPRESSION.findall(text):
        context, _, name = expression.partition(".")
        assert context in CONTEXTS, expression
        if context == "matrix":
            matrices = [job.get("strategy", {}) for job in loaded(file)["jobs"].values()]
            assert any(name in one.get("matrix", {}) for one in matrices), expression


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_its_scripts_are_bash_and_name_files_that_exist(file: Path) -> None:
    for step in steps(file):
        script = EXPRESSION.sub("value", step.get("run", ""))
        checked = subprocess.run(
            ["bash", "-n"], input=script, capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stderr
        # What an outsider chooses (a branch's name) must not become part of a script.
        assert not EXPRESSION.search(step.get("run", "")), step
        for name in re.findall(r"(?:^|[\s/\"])(\.ci/run|tests/[\w/]+\.py)", script):
            assert (REPOSITORY / name).is_file()
        for module in re.findall(r"python -m (tests[\w.]+)", script):
            assert (REPOSITORY / f"{module.replace('.', '/')}.py").is_file()


def test_later_pythons_are_those_that_are_resolved() -> None:
    matrix = loaded(FORGE / "workflows" / "ci.yml")["jobs"]["later-pythons"]["strategy"]["matrix"]
    tested = (REPOSITORY / "tests" / "packaging" / "test_versions.py").read_text(encoding="utf-8")
    assert str(matrix["python"]).replace("'", '"') in tested


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.stem)
def test_an_issue_template_is_a_form(file: Path) -> None:
    form = loaded(file)
    if file.stem == "config":
        assert form == {"blank_issues_enabled": True}
        return
    assert set(form) == {"name", "description", "labels", "body"}
    ids = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(set(ids)) == len(ids) > 0
    for field in form["body"]:
        assert field["type"] in FIELDS
        assert ("value" if field["type"] == "markdown" else "label") in field["attributes"]
        if field["type"] == "dropdown":
            assert len(set(field["attributes"]["options"])) > 1


CHANGELOG = """# Changelog

## [Unreleased]

## [1.1.0] - 2026-11-01

### Added
- A thing.

## [1.0.0] - 2026-10-01
- The first.
"""


def test_release_notes_are_the_section_of_the_version() -> None:
    assert release_notes("v1.1.0", "1.1.0", CHANGELOG) == "### Added\n- A thing.\n"
    assert release_notes("v1.0.0", "1.0.0", CHANGELOG) == "- The first.\n"


@pytest.mark.parametrize(
    ("tag", "version", "problem"),
    [
        ("v1.1.0", "1.2.0", "pyproject.toml has version 1.2.0"),
        ("1.1.0", "1.1.0", "pyproject.toml has version 1.1.0"),
        ("v1.2.0", "1.2.0", r"no section \[1.2.0\], only Unreleased, 1.1.0, 1.0.0"),
        ("vUnreleased", "Unreleased", "says nothing below"),
    ],
)
def test_a_release_that_does_not_fit_is_refused(tag: str, version: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        release_notes(tag, version, CHANGELOG)
