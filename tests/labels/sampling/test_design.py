from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rag_assets.errors import DataError
from rag_assets.labels.sampling.design import (
    FLOOR,
    Design,
    disagreement,
    new_design,
    permanent_numbers,
    read_design,
    write_design,
)
from tests.labels.sampling.made_pool import chosen, item

ITEMS = [item("q", f"d{number}") for number in range(6)]
WEIGHTS = np.array([[1, 0.5, 0, 0.6, 0.4, 0.2], [0, 0.5, 1, 0.3, 0.4, 0.6]])


def flags(*numbers: int, n: int = 6) -> np.ndarray:
    return np.isin(np.arange(n), numbers)


def test_the_number_of_an_item_depends_on_the_item_and_the_seed_alone() -> None:
    all_numbers = permanent_numbers(ITEMS, 0)
    assert permanent_numbers(ITEMS[3:4], 0) == all_numbers[3]
    assert permanent_numbers(ITEMS, 1)[3] != all_numbers[3]
    assert permanent_numbers([item("q", "d3", 1)], 0) != all_numbers[3]
    # sha256("0\0q\0d0\0000\000100"): the same on every machine and in every version
    assert all_numbers[0] == pytest.approx(0.24969163044228698)


def test_they_are_exponential() -> None:
    numbers = permanent_numbers([item("q", str(n)) for n in range(20_000)], 0)
    assert numbers.mean() == pytest.approx(1, abs=0.02)
    for at in (0.1, 0.7, 2.0):
        assert (numbers > at).mean() == pytest.approx(np.exp(-at), abs=0.012)


def test_rates_are_the_disagreement_and_a_floor() -> None:
    deviations = np.abs(WEIGHTS[0] - WEIGHTS[1]) / 2
    assert disagreement(WEIGHTS) == pytest.approx(deviations + FLOOR * deviations.mean())
    assert disagreement(WEIGHTS[:1]).tolist() == [1] * 6


def test_an_item_is_asked_when_its_hazard_reaches_its_number() -> None:
    design = new_design(ITEMS, WEIGHTS)
    arrivals = design.arrivals()
    for clock in (0.5, 1.0, 3.0):
        assert ((design.hazards(clock) >= design.numbers) == (arrivals <= clock)).all()
    assert design.order().tolist() == np.argsort(design.numbers / design.rates[0]).tolist()
    assert design.probabilities(0.7) == pytest.approx(1 - np.exp(-0.7 * design.rates[0]))


def test_what_was_asked_stays_asked_when_systems_join() -> None:
    first = new_design(ITEMS[:4], WEIGHTS[:, :4])
    asked = flags(*first.order()[:2], n=4)
    more = np.vstack([WEIGHTS, [0, 0.1, 0, 0.9, 1, 0.8]])
    design = first.extended(ITEMS, more, chosen(first, asked))
    assert design.order()[:2].tolist() == first.order()[:2].tolist()
    assert (design.rates[1, :4] >= first.rates[0]).all()
    now = design.starts[1]
    assert design.hazards(now)[4:].tolist() == [0, 0]
    assert design.hazards(now)[:4] == pytest.approx(first.hazards(now))
    assert (design.arrivals()[4:] > now).all()
    assert design.hazards(now + 2) == pytest.approx(design.hazards(now) + 2 * design.rates[1])
    with pytest.raises(ValueError, match="items of a design stay"):
        first.extended(ITEMS[1:], more[:, 1:], [])


def test_probabilities_are_how_often_items_are_asked_also_over_epochs() -> None:
    rates = np.array([[0.5, 0.1, 0], [0.5, 0.4, 1.0]])
    design = Design(tuple(ITEMS[:3]), np.ones(3), rates, (0.8,))
    generator, n = np.random.default_rng(0), 4000
    counts = np.zeros(3)
    for _ in range(n):
        counts += replace(design, numbers=generator.exponential(size=3)).arrivals() < 1.5
    assert counts / n == pytest.approx(design.probabilities(1.5), abs=0.025)


def test_next_items_and_those_that_were_skipped() -> None:
    design = new_design(ITEMS, WEIGHTS)
    order = design.order().tolist()
    skipped = flags(order[2])
    assert design.next_items(flags(*order[:2]), skipped).tolist() == [*order[3:], order[2]]


def test_the_clock_is_that_of_the_first_item_not_asked() -> None:
    design = new_design(ITEMS, WEIGHTS)
    order, arrivals = design.order(), design.arrivals()
    assert design.clock(flags()) == 0
    # The third was answered before the second: two people at once.
    assert design.clock(flags(order[0], order[2])) == arrivals[order[3]]
    assert design.clock(flags(*range(6))) == np.inf
    assert design.probabilities(np.inf).tolist() == [1] * 6


def test_a_file_gives_the_design_back(tmp_path: Path) -> None:
    first = new_design(ITEMS[:4], WEIGHTS[:, :4], seed=7)
    design = first.extended(ITEMS, WEIGHTS, [ITEMS[0]])
    write_design(design, tmp_path / "pool.jsonl")
    same = read_design(tmp_path / "pool.jsonl")
    assert same.items == design.items
    assert (same.seed, same.durations) == (7, design.durations)
    assert (same.rates == design.rates).all()
    assert (same.numbers == design.numbers).all()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"query_id": "q"}', "2: is not a line of a sampling design"),
        ('{"query_id":"q","document_id":"d","start":0,"end":1,"rates":[1,2]}', "2: is not a line"),
        ("nonsense", "2: malformed JSON"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "pool.jsonl"
    file.write_text(f'{{"durations":[],"seed":0}}\n{line}\n', encoding="utf-8")
    with pytest.raises(DataError, match=problem):
        read_design(file)
