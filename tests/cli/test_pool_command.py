"""``rag-assets pool`` and what surrounds it, from a folder without labels to a leaderboard."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rag_assets.cli import main
from tests.made_tables import sheet_rows, write_sheet
from tests.tiny_experiment import Tiny


def invoke(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, [str(a) for a in arguments])


@pytest.fixture
def tiny(tmp_path: Path, computed: Tiny) -> Tiny:
    tiny = Tiny(tmp_path / "tiny").start_from(computed)
    kept = ("bm25", "okapi")
    tiny.config["retrievers"] = {name: tiny.config["retrievers"][name] for name in kept}
    tiny.write()
    (tiny.folder / "judgments.jsonl").unlink()
    return tiny


def test_a_passage_of_several_chunkings_is_asked_once(tiny: Tiny, tmp_path: Path) -> None:
    """Whole documents hold all parts: of each query and document there is one row."""
    whole = {"type": "bm25", "chunking": "whole", "analyzer": "english"}
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"], "whole": whole}
    tiny.write_config()
    tiny.write_document("long.md", "A dog barks. " * 4000)
    store = ("--store", tiny.root / "store")
    assert invoke("evaluate", tiny.folder, *store).exit_code == 0
    sheet = tmp_path / "sheet.csv"
    pooled = invoke("pool", tiny.folder, *store, "--depth", 3, "--out", sheet)
    said = pooled.stderr.replace("\n", " ")
    assert "passages, some of which overlap; where a part of a text answers, copy it" in said
    rows = sheet_rows(sheet)
    assert len({(row["query_id"], row["document_id"]) for row in rows}) == len(rows)
    assert max(len(row["text"]) for row in rows) <= 32_767
    for row in rows:
        answers = row["query_id"] == "q1" and row["document_id"] == "fares.md"
        row |= {"grade": "1", "evidence": "A dog needs a ticket"} if answers else {"grade": "0"}
    write_sheet(sheet, rows)
    pool = f"rag-assets pool --store {tiny.root / 'store'} {tiny.folder}"
    advice = f"when it is filled in: {pool} --import {sheet}"
    assert advice.replace(" ", "") in said.replace(" ", "")
    imported = invoke("pool", tiny.folder, "--import", sheet)
    assert imported.exit_code == 0, imported.output
    lines = (tiny.folder / "judgments.jsonl").read_text(encoding="utf-8").splitlines()
    relevant = [row for row in map(json.loads, lines) if row["relevance"]]
    assert [row["quote"] for row in relevant] == ["A dog needs a ticket"]
    assert invoke("evaluate", tiny.folder, *store).exit_code == 0
    again = invoke("pool", tiny.folder, *store, "--depth", 3)
    assert again.stdout.count("\n") == 1  # what was judged with another passage is not asked again
    repeated = invoke("pool", tiny.folder, "--import", sheet)
    assert "0 judgments added" in repeated.stderr.replace("\n", " ")


def test_a_sheet_that_cannot_be_imported_says_so(
    evaluated: tuple[Path, Path], tmp_path: Path
) -> None:
    """Before somebody fills it in."""
    folder, store = evaluated
    pooled = invoke("pool", folder, "--store", store, "--out", tmp_path / "sheet.csv")
    said = " ".join(pooled.stderr.split())
    assert "sheet cannot be imported as it is: a dataset of format beir takes no judgments" in said
    assert "when it is filled in" not in said


def test_a_changed_document_asks_for_an_evaluation(tiny: Tiny) -> None:
    store = ("--store", tiny.root / "store")
    tiny.write_document("crew.md", "A crew of six sails each ferry.\n")
    assert invoke("pool", tiny.folder, *store, "--depth", 10).exit_code == 2  # deeper than top_k
    missing = invoke("pool", tiny.folder, *store, "--depth", 5)
    assert missing.exit_code == 1
    assert "rag-assets evaluate" in missing.stderr


def test_a_sheet_is_of_what_was_evaluated_and_the_sample_wants_all(
    tiny: Tiny, tmp_path: Path
) -> None:
    """Who begins with the cheap retriever can grade at once."""
    store = ("--store", tiny.root / "store")
    tiny.configure("okapi", k1=0.7)
    assert invoke("evaluate", tiny.folder, *store, "--retriever", "bm25").exit_code == 0
    sheet = tmp_path / "sheet.csv"
    pooled = invoke("pool", tiny.folder, *store, "--depth", 3, "--out", sheet)
    assert pooled.exit_code == 0, pooled.output
    assert "not in the sheet, because they are not evaluated yet: okapi" in pooled.stderr
    assert sheet.read_text(encoding="utf-8").count("\n") > 6
    for command in (("label", tiny.folder, "--status"), ("pool", tiny.folder, "--sample", 3)):
        refused = invoke(*command, *store)
        assert refused.exit_code == 1
        assert "okapi have no results yet" in refused.stderr.replace("\n", " ")
    assert invoke("evaluate", tiny.folder, *store).exit_code == 0
    assert "not evaluated" not in invoke("pool", tiny.folder, *store, "--depth", 3).stderr
