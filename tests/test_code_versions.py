"""A stage whose source changed must say whether its results did: see CONTRIBUTING."""

from __future__ import annotations

import importlib
import json

import pytest

from tests.code_hashes import LOCK_FILE, UNITS, below, found, modules_of, normalised, problems

ONE = {"chunks": {"code_version": "1", "source": "a"}}


def test_code_versions_are_raised_with_the_code() -> None:
    locked = json.loads(LOCK_FILE.read_text(encoding="utf-8"))
    assert problems(locked, found()) == []


@pytest.mark.parametrize("name", UNITS)
def test_every_module_of_a_stage_exists(name: str) -> None:
    for module in modules_of(UNITS[name]):
        importlib.import_module(module)


def test_a_package_means_all_modules_below_it() -> None:
    assert {
        "rag_assets.lexical",
        "rag_assets.lexical.search",
        "rag_assets.lexical.analyzers.cjk",
    } <= set(below("rag_assets.lexical"))


@pytest.mark.parametrize(
    "other",
    [
        'def f(a):\n    """Other words."""\n    return a + 1\n',
        "def f(a):\n    # why\n    return (\n        a + 1\n    )\n",
        'def f(a):\n    return a + 1\n\n\n"""Text."""\n',
    ],
)
def test_comments_docstrings_and_layout_do_not_count(other: str) -> None:
    assert normalised(other) == normalised("def f(a):\n    return a + 1\n")


@pytest.mark.parametrize(
    "other",
    [
        "def f(a):\n    return a + 2\n",
        "def f(b):\n    return b + 1\n",
        "def f(a):\n    return a - 1\n",
        "def f(a):\n    return a + 1.0\n",
        "X = 'text'\ndef f(a):\n    return a + 1\n",
    ],
)
def test_code_counts(other: str) -> None:
    assert normalised(other) != normalised("def f(a):\n    return a + 1\n")


def test_a_change_without_a_new_version_is_told_with_what_to_do() -> None:
    (line,) = problems(ONE, {"chunks": {"code_version": "1", "source": "b"}})
    assert "raise `code_version` in rag_assets.pipeline.stages.chunks" in line
    assert "run `make code-versions`" in line
    assert "rag_assets.chunking.recursive" in line


@pytest.mark.parametrize("now", [{"chunks": {"code_version": "2", "source": "b"}}, {}])
def test_a_lock_file_that_is_behind_is_told(now: dict[str, dict[str, str]]) -> None:
    assert problems(ONE, now) == [
        "chunks: code_versions.json is not up to date; run `make code-versions`"
    ]


def test_nothing_to_tell() -> None:
    assert problems(ONE, ONE) == []
