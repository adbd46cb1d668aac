"""Journeys: from a folder to a decision, over all pairs of what can differ on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.forked import Forks
from tests.journeys.checks import advice_templates, advices, is_of
from tests.journeys.folder import LAB, Row
from tests.journeys.pairs import combined, covered, covering_rows, stored_rows
from tests.journeys.travel import Journey, Processes, completed, follow

Travel = Callable[[Row], Journey]

ROWS = stored_rows()
ADVICES: dict[str, str] = json.loads(Path(__file__).with_name("advices.json").read_text("utf-8"))
"""Each command that a message advises -> the journey that meets it, or why none does."""

IN_PROCESSES = 8
"""Of so many journeys one runs as real processes."""


def walk(journey: Journey) -> None:
    """Evaluate, label, change, evaluate again, and do what follows."""
    folder = journey.folder
    journey.run("evaluate", LAB)
    if folder.row.store == "warm":
        journey.run("evaluate", LAB)
    if folder.is_labelled_on_page:
        journey.run("label", LAB, "--no-browser", person=folder.labels_on_page)
        journey.run("evaluate", LAB)
    folder.change(journey.run)
    journey.run("evaluate", LAB)
    follow(journey)


@pytest.mark.parametrize("row", ROWS, ids="-".join)
def test_journey(row: Row, travel: Travel, forks: Forks) -> None:
    journey = travel(row)
    if ROWS.index(row) % IN_PROCESSES == 6:
        journey.command = Processes(forks, journey.folder.root)
    walk(journey)
    for template, where in ADVICES.items():
        if where == "-".join(row):
            assert any(is_of(one, template) for one in journey.advised), template


def test_the_gate_decides_by_a_drawn_sample(travel: Travel) -> None:
    """Nobody asks for it: half of the drawn passages are graded, before and after a change."""
    journey = travel(Row("drawn", "python", "none", "more", "10", "empty", "setting", "gate"))
    walk(journey)
    *_, first, last = (step for step in journey.steps if step.arguments[0] == "gate")
    assert "had no labels for sampled_dcg@3" in first.stderr
    assert "`rag-assets anchor PATH`" in first.stderr
    answers = {0: "passed", 1: "FAILED", 4: "cannot tell"}
    assert f"gate {answers[last.code]}: lab, sampled_dcg@3 against" in last.stdout
    assert "mine" in last.stdout


def test_from_documents_alone(travel: Travel) -> None:
    """A folder of documents: everything that is advised on the way to a first evaluation works."""
    journey = travel(Row("none", "bm25", "none", "more", "10", "empty", "nothing", "evaluate"))
    queries = (journey.folder.path / "queries.jsonl").read_text(encoding="utf-8")
    for name in ("experiment.yaml", "queries.jsonl", "answers.json", "search.py"):
        (journey.folder.path / name).unlink()
    journey.run("status", at_once=False)
    journey.run("evaluate", LAB, fails=True, at_once=False)
    _, init, ask, _ = journey.advised  # the third one has a model write questions, and needs one
    journey.follow_advice(ask)
    written = journey.run(*completed(init), at_once=False)
    ask, evaluate = advices(f"{written.stdout}\n{written.stderr}")
    journey.follow_advice(ask)
    journey.run(*completed(evaluate), fails=True, at_once=False)  # the examples are still there
    (journey.folder.path / "queries.jsonl").write_text(queries, encoding="utf-8")
    journey.run("status")
    journey.follow_advice(evaluate)
    for template, where in ADVICES.items():
        if where == "from documents alone":
            assert any(is_of(one, template) for one in journey.advised), template


def test_every_advice_of_the_package_is_met() -> None:
    """Each is run by a journey that is named in advices.json, or it is said why not."""
    assert ADVICES.keys() == advice_templates().keys()
    places = {*map("-".join, ROWS), "from documents alone"}
    for template, where in ADVICES.items():
        assert where in places or where.startswith("elsewhere: "), template


def test_the_journeys_cover_all_pairs() -> None:
    assert {pair for row in ROWS for pair in covered(row, 2)} >= combined(2)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_triples(part: int, travel: Travel) -> None:
    for row in covering_rows(3)[part::40]:
        walk(travel(row))
