"""The tutorial notebook runs from its first cell to its last, and shows what it promises."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
NOTEBOOK = REPOSITORY / "docs" / "tutorial.ipynb"
CHAPTER, N_DOCUMENTS = "safety", 6

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("pandas")
pytest.importorskip("polars")


def test_it_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert NOTEBOOK.stat().st_size < 20_000


def copy_of_the_handbook(folder: Path) -> None:
    """Write the first documents of the notebook's chapter, and what is asked and judged of them.

    The model reads a few documents where a reader's reads sixteen.
    """
    shutil.copytree(REPOSITORY / "data" / "handbook", folder)
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
    """Last line of a cell -> what it showed: MIME type -> text."""
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
