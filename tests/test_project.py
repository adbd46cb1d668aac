"""The project's own files: what is pinned, what no file may say, its size, and `make quick`."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.house_ceilings import FILE, excesses, sizes
from tests.packaging.environments import dependencies, project

REPOSITORY = Path(__file__).resolve().parents[1]
PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!]+)")

# The parts are apart so that this file passes its own test.
MACHINE_PATH = re.compile(
    r"(?<![\w.~*})\]-])/(?:" + "work|tmp|root|opt|home|Users" + r")/[A-Za-z0-9_.]"
)
REGISTRY_HOST = re.compile(
    "|".join(re.escape(name + end) for name, end in [("pypi", ".org"), ("python", "hosted.org")])
    + "|extra-index"
    + "-url|index"
    + "-url"
)
# Verbatim text of others.
NOT_OURS = {"LICENSE"}


def pins() -> dict[str, Version]:
    found: dict[str, Version] = {}
    for line in (REPOSITORY / "constraints.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pin = PIN.fullmatch(line)
        assert pin, f"not 'name==version': {line!r}"
        name = canonicalize_name(pin[1])
        assert name not in found, f"{name} is pinned twice"
        found[name] = Version(pin[2])
    return found


def public(version: str) -> Version:
    """Return a version without the name of its build (``2.13.0`` for ``2.13.0+cpu``)."""
    return Version(Version(version).public)


def requirements() -> list[Requirement]:
    table: Any = project()["optional-dependencies"]
    return [*dependencies(), *map(Requirement, table["dev"])]


def installed_closure() -> Iterator[metadata.Distribution]:
    """Yield each installed distribution that the project reaches, extras included."""
    pending, seen = requirements(), set()
    while pending:
        requirement = pending.pop()
        visit = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if visit in seen:
            continue
        seen.add(visit)
        distribution = metadata.distribution(requirement.name)
        yield distribution
        for text in distribution.requires or ():
            child = Requirement(text)
            environments = [{"extra": extra} for extra in ("", *requirement.extras)]
            if not child.marker or any(child.marker.evaluate(each) for each in environments):
                pending.append(child)


def test_constraints_name_exact_versions_that_the_requirements_allow() -> None:
    pinned = pins()
    for requirement in requirements():
        version = pinned[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, f"{requirement} does not allow {version}"


def test_every_installed_package_is_pinned_at_its_version() -> None:
    pinned = pins()
    differences = {
        distribution.name: (distribution.version, str(pinned.get(name)))
        for distribution in installed_closure()
        if pinned.get(name := canonicalize_name(distribution.name)) != public(distribution.version)
    }
    assert differences == {}


def tracked_files() -> list[Path]:
    command = ["git", "ls-files", "-z"]
    try:
        listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    names = [name for name in listed.stdout.split("\0") if name and name not in NOT_OURS]
    if not names:
        pytest.skip("git knows no file yet")
    return [REPOSITORY / name for name in names if (REPOSITORY / name).is_file()]


def sayings(pattern: re.Pattern[str]) -> list[str]:
    """Return ``file:line: text`` for each line of a tracked text file that holds the pattern."""
    found = []
    for file in tracked_files():
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        name = file.relative_to(REPOSITORY)
        found += [
            f"{name}:{n}: {hit[0]}" for n, x in enumerate(lines, 1) if (hit := pattern.search(x))
        ]
    return found


def test_no_file_names_a_path_of_one_machine_or_a_registry() -> None:
    assert sayings(MACHINE_PATH) == []
    assert sayings(REGISTRY_HOST) == []


def test_make_lists_every_target_of_the_makefile() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: (\S+)$", makefile, re.MULTILINE))
    listed = subprocess.run(
        ["make", "help"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert targets == set(re.findall(r"^  make (\S+) +\S", listed.stdout, re.MULTILINE))
    assert {"evaluate", "test", "setup", "ui"} <= targets


def test_ci_calls_make_test() -> None:
    script = REPOSITORY / ".ci" / "run"
    assert script.stat().st_mode & 0o111, ".ci/run is not executable"
    assert script.read_text().rstrip().endswith("\nmake test")


LISTED = (REPOSITORY / "tests" / "quick.txt").read_text(encoding="utf-8").splitlines()

# Helpers of the tests that start a browser, a daemon or webserver, a cluster or a database.
SERVICES = {
    "background", "dagster_daemon", "postgres_server", "quick_daemon", "ray_nodes",
}  # fmt: skip
SERVED = re.compile(
    rf"tests\.(?:{'|'.join(sorted(SERVICES))})\b|mark\.(?:browser|slow)|\bplaywright\b"
    r"|\bs3_(?:url|store|server)\b|\bray\.init\b|\bpgserver\b"
)


def test_the_list_of_quick_tests() -> None:
    packages = {path.parent.name for path in (REPOSITORY / "rag_assets").glob("*/__init__.py")}
    tested = {
        path.name for path in (REPOSITORY / "tests").iterdir() if any(path.rglob("test_*.py"))
    }
    listed = {Path(name).parts[1] for name in LISTED}
    assert sorted((packages & tested) - listed) == []
    assert sorted(packages - tested) == []
    assert [name for name in LISTED if not (REPOSITORY / name).is_file()] == []
    assert sorted(set(LISTED)) == LISTED


@pytest.mark.parametrize("name", LISTED)
def test_no_file_of_it_starts_a_service(name: str) -> None:
    assert SERVED.findall((REPOSITORY / name).read_text(encoding="utf-8")) == []


def test_the_package_is_below_its_ceilings() -> None:
    found = sizes()
    assert sum(found["lines"].values()) == found["total"]["lines"] > 0
    assert sum(found["modules of folder"].values()) == found["total"]["modules"] > 0
    problems = excesses(found, json.loads(FILE.read_text(encoding="utf-8")))
    assert not problems, "make it smaller, or name a budget in tests/house_ceilings.json"
