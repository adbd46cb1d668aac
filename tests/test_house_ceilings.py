"""The package stays as small as it is, unless a budget in ``house_ceilings.json`` says more."""

from __future__ import annotations

import json
from pathlib import Path

from tests.house_ceilings import FILE, Sizes, excesses, lowered, sizes

FILES = {
    "rag_assets/api.py": "x = 1 if y else 2\n",
    "rag_assets/store/files.py": "try:\n    pass\nexcept OSError:\n    raise\n",
    "rag_assets/report/page.js": "let a\nlet b\n",
    "rag_assets/report/page.html": "<p>",
    "rag_assets/report/words.txt": "a\n",
    "rag_assets/report/__pycache__/page.pyc": "\n" * 99,
}


def planted(folder: Path) -> Sizes:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return sizes(folder / "rag_assets")


def test_the_package_is_below_its_ceilings() -> None:
    problems = excesses(sizes(), json.loads(FILE.read_text(encoding="utf-8")))
    assert not problems, "make it smaller, or name a budget in tests/house_ceilings.json"


def test_what_is_counted(tmp_path: Path) -> None:
    assert planted(tmp_path) == {
        "total": {"lines": 9, "modules": 2},
        "lines": {"JavaScript": 2, "Python": 5, "data": 1, "templates": 1},
        "lines of folder": {".": 1, "report": 4, "store": 4},
        "modules of folder": {".": 1, "store": 1},
        "cases": {"except": 1, "if": 0, "raise": 1},  # the condition in api.py is in no such folder
    }


def test_ceilings_hold_and_only_fall(tmp_path: Path) -> None:
    today = planted(tmp_path)
    ceilings = {"budgets": {}, **today}
    assert excesses(today, ceilings) == []
    (tmp_path / "rag_assets/store/files.py").write_text("if x:\n    pass\n" * 4)
    larger = sizes(tmp_path / "rag_assets")
    assert excesses(larger, ceilings) == [
        "total lines: 13, at most 9",
        "lines Python: 9, at most 5",
        "lines of folder store: 8, at most 4",
        "cases if: 4, at most 0",
    ]
    with_budget = {**ceilings, "budgets": {"a search": {"lines": 4, "if": 4}}}
    assert excesses(larger, with_budget) == []
    after = lowered(larger, ceilings)
    assert after == {**ceilings, "cases": {"if": 0}}
    (tmp_path / "rag_assets/report/page.js").unlink()
    assert lowered(sizes(tmp_path / "rag_assets"), ceilings)["total"] == {"lines": 9, "modules": 2}
    (tmp_path / "rag_assets/store/files.py").unlink()
    assert lowered(sizes(tmp_path / "rag_assets"), ceilings)["total"] == {"lines": 3, "modules": 1}
