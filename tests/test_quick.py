"""The list of `make quick`: the core of every package, and nothing that needs a service."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
LISTED = (REPOSITORY / "tests" / "quick.txt").read_text(encoding="utf-8").splitlines()

# Helpers of the tests that start a browser, a daemon or webserver, a cluster or a database.
SERVICES = {
    "background", "dagster_backfill", "dagster_daemon", "dagster_services", "dagster_webserver",
    "pool_launcher", "postgres_server", "quick_daemon",
    "ray_nodes",
}  # fmt: skip
SERVED = re.compile(
    rf"tests\.(?:{'|'.join(sorted(SERVICES))})\b|mark\.(?:browser|slow)|\bplaywright\b"
    r"|\bs3_(?:url|store|server)\b|\bray\.init\b|\bpgserver\b"
)


def test_every_package_with_tests_is_in_it() -> None:
    packages = {path.parent.name for path in (REPOSITORY / "rag_assets").glob("*/__init__.py")}
    tested = {
        path.name for path in (REPOSITORY / "tests").iterdir() if any(path.rglob("test_*.py"))
    }
    listed = {Path(name).parts[1] for name in LISTED}
    assert sorted((packages & tested) - listed) == []
    assert sorted(packages - tested) == []


def test_it_names_files_that_are_there_each_once_in_order() -> None:
    assert [name for name in LISTED if not (REPOSITORY / name).is_file()] == []
    assert sorted(set(LISTED)) == LISTED


@pytest.mark.parametrize("name", LISTED)
def test_no_file_of_it_starts_a_service(name: str) -> None:
    assert SERVED.findall((REPOSITORY / name).read_text(encoding="utf-8")) == []
