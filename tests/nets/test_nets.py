"""What must not change unnoticed: recipes, effects of options, public surface, faces.

The data were made before the package was restructured. A difference that is meant is kept by the
command that a failure names; a new recipe or surface stands in UPGRADING.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.nets import bits, goldens, kept, options, public_surface, recipes
from tests.nets.experiments import NAMES

QUICK = ("fusion", "filters", "sample", "unlabelled")
ROOT = Path(__file__).parents[2]
FACES = [
    pytest.param(name, marks=pytest.mark.slow) if name == "answers_with_judges" else name
    for name in goldens.EXPERIMENTS
]
"""Experiments whose faces are kept; that with answers takes as long as the others together."""
SLOW = tuple(name for name in NAMES if name not in QUICK)


def test_recipes(tmp_path: Path) -> None:
    kept.check(recipes.compared(QUICK, tmp_path), recipes.COMMAND)


@pytest.mark.slow
def test_recipes_of_the_other_experiments(tmp_path: Path) -> None:
    kept.check(recipes.compared(SLOW, tmp_path), recipes.COMMAND)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_a_change_of_an_option_makes_anew(name: str, tmp_path: Path) -> None:
    (changes,) = options.opened([name], tmp_path)
    tables = kept.read(options.FILE)
    kept.check(kept.differences(tables[name], options.table(changes)), options.COMMAND)


def test_every_option_of_every_type_is_tried() -> None:
    tables = kept.read(options.FILE)
    kept.check(kept.differences(tables["not tried"], options.untried(tables)), options.COMMAND)


def test_public_surface() -> None:
    lines = kept.differences(kept.read(public_surface.FILE), public_surface.surface())
    kept.check(lines, f"{public_surface.COMMAND}, and say so in UPGRADING.md")


@pytest.mark.slow
@pytest.mark.parametrize("name", bits.DATA_SETS)
def test_bits_on_real_data(name: str, tmp_path: Path) -> None:
    if not bits.is_comparable():
        pytest.skip("sums are made in another order here; OMP_NUM_THREADS=1 is needed too")
    if not bits.DATA.is_dir():
        pytest.skip(f"{bits.DATA} is not there")
    kept.check(bits.compared([name], "", tmp_path), bits.COMMAND)


def test_every_promise_names_a_test_that_is_there() -> None:
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page)
    assert len(named) > 20
    for file, test in named:
        assert f"def {test}" in (ROOT / file).read_text(encoding="utf-8"), (file, test)


@pytest.mark.parametrize("name", FACES)
def test_every_topic_on_every_face(name: str, tmp_path: Path) -> None:
    lines = list(goldens.differing([name], goldens.drawn([name], tmp_path)))
    kept.check(lines[:200], goldens.COMMAND)
