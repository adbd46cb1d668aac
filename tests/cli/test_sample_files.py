"""Commands on files of samples as other tools write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from tests.sources.test_samples import DOCUMENTS, MUSIQUE, QUESTIONS

CONFIG = "name: tiny\nretrievers: {a: {type: bm25}}\ntop_k: [1]\n"
CASES = {
    "Ragas beside documents": ("", {**DOCUMENTS, "testset.csv": QUESTIONS["Ragas"][1]}, 2),
    "promptfoo beside documents": (
        "",
        {**DOCUMENTS, "tests.csv": QUESTIONS["promptfoo, CSV"][1]},
        0,
    ),
    "MuSiQue alone": ("musique.json", {"musique.json": json.dumps(MUSIQUE)}, 2),
}


@pytest.mark.parametrize("case", CASES)
def test_a_layout_from_init_to_the_numbers(tmp_path: Path, invoke: Invoke, case: str) -> None:
    file, files, labels = CASES[case]
    root, store = tmp_path / "data", ("--store", tmp_path / "store")
    root.mkdir()
    for name, content in files.items():
        (root / name).write_text(content, encoding="utf-8")
    started = invoke("init", root / file)
    assert started.exit_code == 0, started.output
    assert f" documents, 2 queries, {labels} judgments" in started.stdout
    assert "not read as such" not in started.stderr
    written = (root / "experiment.yaml").read_text(encoding="utf-8")
    assert f"path: {file or '.'}" in written
    (root / "experiment.yaml").write_text(
        f"{CONFIG}dataset: {{path: {file or '.'}}}\n", encoding="utf-8"
    )
    checked = invoke("validate", root, *store)
    assert (checked.exit_code, "0 errors" in checked.output) == (0, True), checked.output
    assert invoke("evaluate", root, *store).exit_code == 0
    if labels:
        rows = json.loads(invoke("leaderboard", root, *store, "--format", "json").stdout)
        assert "1.0" in json.dumps(rows)
