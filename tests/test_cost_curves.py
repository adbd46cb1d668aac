"""How the growth of a cost is told, and drawn."""

from __future__ import annotations

import runpy
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return runpy.run_path(str(BENCHMARKS / "cost_curves.py"))


def curve(script: dict[str, Any], sizes: list[int], seconds: list[float]) -> Any:
    made = script["Curve"]("documents", sizes)
    for value in seconds:
        made.add("cold", script["Cost"](value, value, 10**8))
    return made


@pytest.mark.parametrize("power", [1, 2])
def test_the_exponent_is_of_what_grows(script: dict[str, Any], power: int) -> None:
    sizes = [1, 10, 100, 1000]
    found = curve(script, sizes, [3 + 0.01 * size**power for size in sizes])
    assert found.exponent("cold") == pytest.approx(power, abs=0.05)


def test_a_flat_curve_has_the_exponent_of_all_of_it(script: dict[str, Any]) -> None:
    assert abs(curve(script, [1, 10, 100], [2.0, 2.1, 2.0]).exponent("cold")) < 0.05


def test_every_point_is_drawn(script: dict[str, Any], tmp_path: Path) -> None:
    panel = script["panel"](curve(script, [1, 10, 100], [2.0, 2.1, 4.0]))
    script["write_plot"](tmp_path / "plot.svg", [panel])
    titles = [e.text for e in ET.parse(tmp_path / "plot.svg").iter() if e.tag.endswith("title")]
    assert "cold, 100: 4 s" in titles
    assert len(titles) == 1 + 2 * 3
