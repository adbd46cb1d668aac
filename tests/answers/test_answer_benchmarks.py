"""The scripts of benchmarks/ that are about answers, on data that every checkout has."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from tests.answers.answering import with_answers
from tests.tiny_experiment import Tiny

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_variants_by_rules() -> None:
    variants = runpy.run_path(str(BENCHMARKS / "rule_variants.py"))["variants"]
    assert variants("In what year did Robert Crispin go against the Turks?") == [
        "year Robert Crispin go against Turks",
        "Robert Crispin Turks",
        "year Robert Crispin",
        "go against Turks",
    ]
    assert variants("what is an oxide?") == ["oxide"]
    assert variants("who is it?") == []


def test_all_pairs_of_answerers_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = with_answers(Tiny(tmp_path / "tiny").write())
    tiny.run()
    tiny.snapshot()
    words = [str(tiny.folder), "--store", str(tiny.settings.store), "--metrics", "answer_f1"]
    monkeypatch.setattr(sys, "argv", ["answer_differences.py", *words])
    runpy.run_path(str(BENCHMARKS / "answer_differences.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "answer_f1"
    means, pairs = (
        [line for line in lines if ("->" in line) == paired and line.startswith("  ")]
        for paired in (False, True)
    )
    n = len(tiny.pipeline().experiment.answer_cells)
    assert (len(means), len(pairs)) == (n, n * (n - 1) // 2)
    assert means[0].split()[:3] == ["official@-", "all", "0.5746"]
    assert pairs[0].split()[:3] == ["official@-", "->", "read@3"]
    assert "+0.0000" in pairs[0]
