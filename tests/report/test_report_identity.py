from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rag_assets.report.html import identity, is_at, render, write_report
from rag_assets.report.result import EvaluationResult
from tests.tiny_experiment import Tiny


def test_a_page_that_says_the_same_is_left_alone(
    tiny_result: EvaluationResult, tmp_path: Path
) -> None:
    file = write_report(tiny_result, tmp_path / "page.html")
    before = file.stat()
    later = dataclasses.replace(tiny_result.evaluation, evaluation_id="later", finished="later")
    write_report(EvaluationResult(tiny_result.root, later), file)
    after = file.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("changed", [{"complete": False}, {"primary": "mrr@5"}, {"entries": ()}])
def test_what_an_evaluation_says_is_in_the_identity(
    tiny_result: EvaluationResult, changed: dict[str, object]
) -> None:
    other = dataclasses.replace(tiny_result.evaluation, **changed)  # type: ignore[arg-type]
    assert identity(EvaluationResult(tiny_result.root, other)) != identity(tiny_result)


def test_a_changed_corpus_writes_the_page_again(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path).write()
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    tiny.write_config()
    tiny.run()
    file = write_report(EvaluationResult(tiny.artifacts, tiny.snapshot()))
    assert "900 kilowatts" in file.read_text(encoding="utf-8")
    tiny.replace("engines.md", "900 kilowatts", "950 kilowatts")
    tiny.run()
    write_report(EvaluationResult(tiny.artifacts, tiny.snapshot()))
    assert "950 kilowatts" in file.read_text(encoding="utf-8")


def test_rendering_is_repeatable(tiny_result: EvaluationResult, tmp_path: Path) -> None:
    file = write_report(tiny_result, tmp_path / "page.html")
    assert file.read_text(encoding="utf-8") == render(tiny_result)
    assert is_at(file, identity(tiny_result))


def test_a_file_that_is_no_report_is_not_the_page(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert not is_at(file, "abc")
    file.write_bytes(b"\xff\xfe other")
    assert not is_at(file, "abc")
