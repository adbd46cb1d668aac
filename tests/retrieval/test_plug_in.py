"""The steps of CONTRIBUTING.md, followed to the letter, and what a broken plug-in is told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assets.errors import ConfigError
from rag_assets.retrieval.registry import OWN_TYPES, retriever_types
from tests.conftest import REPOSITORY
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny

RUN = """
import json, sys
from pathlib import Path
from rag_assets.chunking.stage import chunks_key, texts_to_index
from rag_assets.retrieval.runs_stage import run_key
from tests.tiny_experiment import Tiny

tiny = Tiny(Path(sys.argv[1]))
tiny.run()
pipeline = tiny.pipeline()
run = pipeline.artifact(run_key(pipeline.experiment, "trigrams", 5))
chunks = pipeline.artifact(chunks_key("whole")).table()
texts = texts_to_index(pipeline.experiment, "whole", chunks)
indexed = dict(zip(chunks["document_id"].to_pylist(), texts, strict=True))
print(json.dumps([run.table().to_pylist(), indexed, sorted(tiny.run())]))
"""


def block(language: str) -> str:
    """Return the one block of a language in CONTRIBUTING.md."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return str(found)


def install(folder: Path, source: str, pyproject: str) -> Path:
    """Put a package of one module into a folder, as an installer does."""
    project = tomllib.loads(pyproject)["project"]
    name, version = project["name"], project["version"]
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    points = project["entry-points"]["rag_assets.retrievers"]
    lines = [f"{point} = {value}\n" for point, value in points.items()]
    (info / "entry_points.txt").write_text("[rag_assets.retrievers]\n" + "".join(lines))
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    modules = {value.partition(":")[0] for value in points.values()}
    for module in modules:
        (folder / f"{module}.py").write_text(source, encoding="utf-8")
    return folder


def python(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), str(REPOSITORY)])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_the_steps_of_contributing_add_a_type(tmp_path: Path) -> None:
    site = install(tmp_path / "site", block("python"), block("toml"))
    tiny = Tiny(tmp_path / "tiny")
    tiny.config["retrievers"] = yaml.safe_load(block("yaml"))["retrievers"]
    del tiny.config["baseline"]
    tiny.write()
    done = python(site, "-c", RUN, str(tiny.root))
    assert done.returncode == 0, done.stderr
    rows, indexed, computed_again = json.loads(done.stdout)
    assert computed_again == []
    assert set(indexed) == set(DOCUMENTS)
    for query in QUERIES:
        own = [row for row in rows if row["query_id"] == query["query_id"]]
        found = [(row["document_id"], row["score"]) for row in own]
        assert found == expected(query["text"], indexed)[:5]


def expected(query: str, indexed: dict[str, str]) -> list[tuple[str, float]]:
    """(document, score) by the definition, in the order of every ranking."""

    def triples(text: str) -> set[str]:
        return {a + b + c for a, b, c in zip(text, text[1:], text[2:], strict=False)}

    asked = triples(query.lower())
    scores = {name: float(len(asked & triples(t.lower()))) for name, t in indexed.items()}
    found = [(name, score) for name, score in scores.items() if score > 0]
    return sorted(found, key=lambda pair: (pair[1], pair[0]), reverse=True)


POINT = "entry point rag_assets.retrievers "
FINE = block("python")
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
    install(tmp_path, source, pyproject("broken", name))
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
    install(tmp_path, source, pyproject("broken", "shared_ngrams"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_module", raising=False)
    with pytest.raises(ConfigError, match="cannot be imported: PydanticSchemaGenerationError: "):
        retriever_types().check()


def test_two_packages_with_one_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        install(tmp_path, FINE, pyproject(name, "shared_ngrams"))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"of two 2\.0: the type exists already, in one 2\.0$"):
        retriever_types().check()


def test_without_plug_ins_there_are_our_own() -> None:
    assert list(retriever_types()) == list(OWN_TYPES)


def test_the_command_line_says_it_in_one_line(tmp_path: Path) -> None:
    site = install(tmp_path, "import nothing_like_it", pyproject("broken", "ngrams"))
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
