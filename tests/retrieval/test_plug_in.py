"""What a broken plug-in is told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import ConfigError
from rag_assets.retrieval.registry import OWN_TYPES, retriever_types
from tests.installed import install, python
from tests.test_contributing import blocks

FINE = blocks()["acme_retrievers.py"]
POINT = "entry point rag_assets.retrievers "
BROKEN: dict[str, tuple[str, str, str]] = {
    "no such module": (
        "import nothing_like_it",
        "shared_ngrams",
        "cannot be imported: ModuleNotFoundError: No module named 'nothing_like_it'",
    ),
    "raises when imported": (
        "1 / 0",
        "shared_ngrams",
        "cannot be imported: ZeroDivisionError: division by zero",
    ),
    "no such class": (
        "",
        "shared_ngrams",
        "cannot be imported: AttributeError: module 'broken_module' has no attribute ",
    ),
    "a function": (
        "def SharedNgrams() -> None: ...",
        "shared_ngrams",
        "is no class of a family, which are LexicalRetriever, EmbeddingRetriever, ",
    ),
    "another class": ("class SharedNgrams: ...", "shared_ngrams", "is no class of a family, "),
    "half a class": (
        FINE.replace("def open(", "def opened("),
        "shared_ngrams",
        "lacks the methods open",
    ),
    "a name of ours": (FINE, "bm25", "the type exists already, in rag_assets"),
    "another name than its type": (
        FINE,
        "ngrams",
        'must have the option `type: Literal["ngrams"]`',
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plug_in_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    source, name, problem = BROKEN[case]
    install(tmp_path, {"broken_module.py": source}, pyproject("broken", name))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_module", raising=False)
    with pytest.raises(ConfigError) as caught:
        retriever_types().check()
    place = f"{POINT}'{name}' = 'broken_module:SharedNgrams' of broken 2.0: "
    assert str(caught.value).startswith(place + problem)
    assert "\n" not in str(caught.value)


def test_options_that_pydantic_cannot_read_are_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FINE.replace("    n: int =", "    strange: memoryview\n    n: int =")
    install(tmp_path, {"broken_module.py": source}, pyproject("broken", "shared_ngrams"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_module", raising=False)
    with pytest.raises(ConfigError, match="cannot be imported: PydanticSchemaGenerationError: "):
        retriever_types().check()


def test_two_packages_with_one_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        install(tmp_path, {f"{name}_module.py": FINE}, pyproject(name, "shared_ngrams"))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"of two 2\.0: the type exists already, in one 2\.0$"):
        retriever_types().check()


def test_without_plug_ins_there_are_our_own() -> None:
    assert list(retriever_types()) == list(OWN_TYPES)


def test_the_command_line_says_it_in_one_line(tmp_path: Path) -> None:
    site = install(
        tmp_path, {"broken_module.py": "import nothing_like_it"}, pyproject("broken", "ngrams")
    )
    assert python(site, "-m", "rag_assets.cli", "--help").returncode == 0
    done = python(site, "-m", "rag_assets.cli", "evaluate", "nowhere")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {POINT}'ngrams' = 'broken_module:SharedNgrams' of broken 2.0: ")
    assert (done.returncode, done.stdout) == (2, "")


def pyproject(package: str, point: str) -> str:
    lines: dict[str, Any] = {"name": package, "version": "2.0"}
    head = "".join(f'{name} = "{value}"\n' for name, value in lines.items())
    group = '[project.entry-points."rag_assets.retrievers"]'
    return f'[project]\n{head}{group}\n{point} = "{package}_module:SharedNgrams"\n'
