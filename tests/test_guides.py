"""The tutorial and the how-to guides: every command in them prints what they say."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from sentence_transformers import SentenceTransformer

from rag_assets.cli import main
from tests.static_model import save_static_model
from tests.test_docs_pages import COMMANDS
from tests.walked_page import DOCS

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("package", ["tantivy", "chromadb", "lancedb", "pymilvus"])
def test_a_function_around_a_search_library_finds_the_passages(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    text = (DOCS / "how_to/search_libraries.md").read_text(encoding="utf-8")
    files = dict(re.findall(r"^`data/ferry/([^`\n]+)`:\n\n```\w+\n(.*?)^```$", text, re.S | re.M))
    for name, body in files.items():
        (tmp_path / name).write_text(body, encoding="utf-8")
    (name,) = (
        name for name, body in files.items() if re.search(rf"^(import|from) {package}", body, re.M)
    )
    folder = save_static_model(tmp_path / "model", files.values())
    model = SentenceTransformer(str(folder), device="cpu")
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", lambda _: model)
    retrieve = runpy.run_path(str(tmp_path / name))["retrieve"]
    best, *others = retrieve("can a ship enter the harbour in a storm", 3)
    assert (best["text"].strip(), best["source"]) == (
        "In a storm no ship can enter the southern harbour.",
        "weather.md",
    )
    assert len(others) <= 2
    assert all(best["score"] >= other["score"] for other in others)


def test_every_guide_is_walked() -> None:
    assert {f"how_to/{file.name}" for file in (DOCS / "how_to").glob("*.md")} <= set(COMMANDS)


@pytest.mark.parametrize("page", [one for one in COMMANDS if one.startswith(("how", "first"))])
def test_snippets_that_are_not_run_are_sound(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for kind, body in BLOCK.findall(text):
        if kind == "python":
            compile(body, page, "exec")
        if kind == "yaml":
            assert yaml.safe_load(body)
    for line in re.findall(r"rag-assets ((?!\*)[a-z][^`\n>]*)", text):
        name, *words = re.sub(r"  # exit code \d$", "", line).split()
        command = main.get_command(click.Context(main), name)
        assert command is not None, line
        with click.Context(command, resilient_parsing=True) as context:
            command.make_parser(context).parse_args(words)


NOTEBOOK = DOCS / "tutorial.ipynb"
CHAPTER, N_DOCUMENTS = "safety", 6


def test_it_is_kept_without_outputs() -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert NOTEBOOK.stat().st_size < 20_000


def copy_of_the_handbook(folder: Path) -> None:
    """Write the first documents of the notebook's chapter, and what is asked and judged of them.

    The model reads a few documents where a reader's reads sixteen.
    """
    shutil.copytree(DOCS.parent / "data" / "handbook", folder)
    documents = sorted((folder / CHAPTER).iterdir())
    for document in documents[N_DOCUMENTS:]:
        document.unlink()
    gone = {document.relative_to(folder).as_posix() for document in documents[N_DOCUMENTS:]}
    rows = {name: _rows(folder / f"{name}.jsonl") for name in ("queries", "judgments")}
    lost = {row["query_id"] for row in rows["judgments"] if row["doc_id"] in gone}
    for name, found in rows.items():
        kept = [row for row in found if row["query_id"] not in lost]
        lines = "".join(f"{json.dumps(row)}\n" for row in kept)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    for package in ("ipykernel", "pandas", "polars"):
        pytest.importorskip(package)
    nbformat, nbclient = map(pytest.importorskip, ("nbformat", "nbclient"))
    root = tmp_path_factory.mktemp("checkout")
    copy_of_the_handbook(root / "data" / "handbook")
    (root / "docs").mkdir()
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
            patch.setenv(name, str(root / name.lower()))
        client = nbclient.NotebookClient(
            notebook, timeout=240, resources={"metadata": {"path": str(root / "docs")}}
        )
        client.execute()
    return dict(_shown(notebook))


def _shown(notebook: Any) -> Iterator[tuple[str, Any]]:
    for cell in notebook.cells:
        for output in getattr(cell, "outputs", ()):
            # What a cell says beside its value is a warning that readers would see.
            assert output.output_type in ("execute_result", "display_data"), output
            yield cell.source.splitlines()[-1], output.data


@pytest.mark.slow
def test_every_result_shows_itself(executed: dict[str, Any]) -> None:
    assert "; its ndcg@10 is " in executed["result"]["text/html"]
    assert "differences in ndcg@10" in executed["pairs"]["text/html"]
    assert "bm25.k1 1.2 -&gt; 0.6" in executed["history"]["text/html"]
    for name in ("result.plot()", "history.plot()"):
        assert executed[name]["application/vnd.plotly.v1+json"]["data"]


@pytest.mark.slow
def test_only_what_changed_is_computed(executed: dict[str, Any]) -> None:
    (said,) = (data["text/plain"] for line, data in executed.items() if "computed" in line)
    computed, entries = (int(word) for word in said.strip("'").split() if word.isdigit())
    assert 0 < computed < entries / 2 + entries / 4
    (size,) = (data["text/plain"] for line, data in executed.items() if "st_size" in line)
    assert size.startswith("'build/tutorial/store/handbook/report.html: ")
