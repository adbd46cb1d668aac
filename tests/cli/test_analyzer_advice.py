"""What `auto` chose is said, and empty results name the analyzer as their likely cause."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rag_assets.cli import main
from tests.tiny_experiment import QUERIES, Tiny

CAUSE = (
    "exact: nothing retrieved for 6 queries{}; the likely cause is its analyzer (whitespace): "
    "these queries share no word with any chunk as it cuts them; try `analyzer: auto`"
)


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    """An experiment one retriever of which finds nothing: it keeps the marks on words."""
    tiny = Tiny(tmp_path / "tiny")
    tiny.config["top_k"] = [3]
    bm25 = {"type": "bm25", "chunking": tiny.config["retrievers"]["bm25"]["chunking"]}
    tiny.config["retrievers"] = {
        "plain": bm25,
        "exact": {**bm25, "analyzer": "whitespace"},
        "codes": {**bm25, "identifiers": True},
    }
    tiny.config.pop("baseline", None)
    tiny.write()
    marked = [row | {"text": row["text"].replace(" ", "? ") + "?"} for row in QUERIES]
    tiny.write_rows("queries.jsonl", marked)
    return tiny


def test_empty_results_name_the_analyzer_and_plan_and_report_what_auto_chose(tiny: Tiny) -> None:
    def run(command: str) -> str:
        options = [command, str(tiny.folder), "--store", str(tiny.root / "store")]
        result = CliRunner(env={"COLUMNS": "80"}).invoke(main, options)
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    assert "analyzer auto: plain (by its chunks), codes (by its chunks)" in run("plan")
    cause = CAUSE.format("; those with a relevant document count 0")
    assert cause in run("evaluate")
    assert cause in run("leaderboard")
    assert "analyzer auto: plain english, codes english+identifiers" in run("plan")
    report = next((tiny.root / "store").rglob("report.html")).read_text(encoding="utf-8")
    assert "plain <code>auto: english</code>, exact <code>whitespace</code>" in report
    assert "the likely cause is its analyzer (whitespace)" in report

    (tiny.folder / "judgments.jsonl").unlink()
    assert f"note: {CAUSE.format('')}" in run("evaluate")
