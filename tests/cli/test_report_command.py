from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Invoke = Callable[..., Result]


def test_the_page_is_written_where_it_is_wanted(invoke: Invoke, tiny: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert invoke("report", tiny, "--store", store).exit_code == 1
    assert invoke("evaluate", tiny, "--store", store).exit_code == 0
    page = store / "tiny" / "report.html"
    text = page.read_text(encoding="utf-8")
    page.unlink()
    written = invoke("report", tiny, "--store", store)
    assert (written.exit_code, written.stdout) == (0, f"{page}\n")
    assert page.read_text(encoding="utf-8") == text
    other = tmp_path / "sent" / "page.html"
    assert invoke("report", tiny, "--store", store, "--out", other).stdout == f"{other}\n"
    assert other.read_text(encoding="utf-8") == text


def test_a_folder_is_no_file(invoke: Invoke, tiny: Path, tmp_path: Path) -> None:
    result = invoke("report", tiny, "--store", tmp_path / "store", "--out", tmp_path)
    assert result.exit_code == 2
    assert f"--out {tmp_path} is a folder" in result.stderr
