from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rag_assets.cli import main
from rag_assets.sources import open_dataset

FILES = {
    "d.md": "# Fares\nA ticket is 40 kr.\n",
    "queries.jsonl": '{"query_id": "q1", "text": "How much?", "tags": ["price"]}\n',
    "judgments.jsonl": '{"query_id": "q1", "doc_id": "d.md", "quote": "40 kr"}\n',
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("to", "file", "losses"),
    [
        ("jsonl", "", 0),
        ("beir", "", 1),
        ("trec", "", 2),
        ("llamaindex", "dataset.json", 3),
    ],
)
def test_every_format_can_be_read_again(
    source: Path, tmp_path: Path, to: str, file: str, losses: int
) -> None:
    folder = tmp_path / "out"
    result = CliRunner().invoke(main, ["convert", str(source), "--to", to, "--out", str(folder)])
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{folder}: documents 1, queries 1, qrels 1\n"
    said = " ".join(result.stderr.split())
    assert said.count(f"note: {to}: ") == losses
    assert (f"note: {to}: 1 span is written as its whole document" in said) == (to != "jsonl")
    dataset = open_dataset(folder / file)
    assert dataset.format == to
    assert dataset.read_documents().table.column("document_id").to_pylist() == ["d.md"]


def test_refusals(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    arguments = ["convert", str(source), "--to", "beir", "--out", str(folder)]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    again = CliRunner().invoke(main, arguments)
    assert (again.exit_code, again.stderr) == (
        2,
        f"error: {folder}: already exists; choose a new folder\n",
    )
    unknown = CliRunner().invoke(main, [*arguments[:2], "--to", "squad", "--out", str(folder)])
    assert unknown.exit_code == 2
    (source / "judgments.jsonl").write_text("{", encoding="utf-8")
    broken = CliRunner().invoke(main, [*arguments[:-1], str(tmp_path / "new")])
    assert broken.exit_code == 1
    assert not (tmp_path / "new").exists()
