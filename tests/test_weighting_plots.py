"""The plots of docs/weightings.md are those of the engines, and these keep to their formulas."""

from __future__ import annotations

from math import log
from pathlib import Path

import pytest

from tests import weighting_plots as plots
from tests.walked_page import DOCS, walk


@pytest.mark.parametrize("name", plots.PLOTS)
def test_a_plot_is_as_the_code_draws_it(name: str) -> None:
    drawn = (plots.IMAGES / name).read_text(encoding="utf-8")
    assert drawn == plots.svg(plots.PLOTS[name]), "run `make reference`"
    assert f"(images/{name})" in (DOCS / "weightings.md").read_text(encoding="utf-8")


def test_every_weighting_is_drawn() -> None:
    names = set(plots.weightings())
    assert len(names) == len(plots.VARIANTS) + len(plots.WEIGHTINGS)
    for name in plots.PLOTS:
        drawn = (plots.IMAGES / name).read_text(encoding="utf-8")
        titles = {part.split("</title>")[0] for part in drawn.split("<title>")[2:]}
        assert {one for title in titles for one in title.split(", ")} == names


def test_curves_are_those_of_the_formulas() -> None:
    """N = 1,000, k1 = 1.2, b = 0.75; a chunk has 100 words on average."""
    build = plots.weightings()

    def lucene(held: int) -> float:
        return log(1 + (1000 - held + 0.5) / (held + 0.5))

    expected = [lucene(held) / lucene(1) for held in plots.HOLDING]
    assert plots.idf_curve(build["lucene"]) == pytest.approx(expected, abs=1e-12)
    plus = [log(1001 / held) / log(1001) for held in plots.HOLDING]
    assert plots.idf_curve(build["bm25plus"]) == pytest.approx(plus, abs=1e-12)
    sklearn = [(log(1001 / (1 + n)) + 1) / (log(1001 / 2) + 1) for n in plots.HOLDING]
    assert plots.idf_curve(build["tfidf sklearn"]) == pytest.approx(sklearn, abs=1e-12)
    once = 1 / (1 + 1.2)
    saturated = [f / (f + 1.2) / once for f in plots.FREQUENCIES]
    for name in ("lucene", "okapi", "tfidf saturated"):
        assert plots.saturation_curve(build[name]) == pytest.approx(saturated, abs=1e-9), name
    lengths = [1 / (1 + 1.2 * (0.25 + 0.75 * n / 100)) / once for n in plots.LENGTHS]
    assert plots.length_curve(build["atire"]) == pytest.approx(lengths, abs=1e-9)
    inverse = [100 / n for n in plots.LENGTHS]
    assert plots.length_curve(build["tfidf length_normalised"]) == pytest.approx(inverse)


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [command.line for command in walk("weightings.md", tmp_path)] == ["python weights.py"]
