"""Every block of docs/judges.md loads, and every command prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rag_assets.experiment.config import ExperimentConfig
from rag_assets.judges.registry import JUDGE_TYPES
from tests.walked_page import DOCS, walk

PAGE = (DOCS / "judges.md").read_text(encoding="utf-8")


def test_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_ASSETS_STORE", str(tmp_path / "store"))
    used = [command.line.split()[1] for command in walk("judges.md", tmp_path)]
    labels = ["evaluate", "judge", "judge", "evaluate", "compare"]
    trials = ["evaluate", "judge", "judge"]
    assert used == ["evaluate", "judge", "floor.jsonl", "evaluate", *labels, *trials]


def test_every_type_has_a_line_and_an_example() -> None:
    block = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)[0]
    judges = ExperimentConfig.model_validate(yaml.safe_load(block)).judges
    assert {judge.type for judge in judges.values()} == set(JUDGE_TYPES)
    for name in JUDGE_TYPES:
        assert f"\n| `{name}` |" in PAGE
