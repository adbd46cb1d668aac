"""The answer of an evaluation, over runs whose every rank is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

import rag_assets
from rag_assets.cli import main
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.report.html import write_report
from rag_assets.report.view import View
from rag_assets.report.winner import Winner, winner_of
from tests.tiny_experiment import Tiny

N = 60

FEW = 12
"""The first questions have a tag of their own."""

HOSTILE = "<b>[red]\x1b\u202e& part"

Ranked = Callable[[Mapping[str, Sequence[int]]], Tiny]


@pytest.fixture
def ranked(tmp_path: Path) -> Ranked:
    def ranked(ranks: Mapping[str, Sequence[int]]) -> Tiny:
        tiny = Tiny(tmp_path / "ranked")
        for number in range(N):
            tiny.write_document(f"d{number:02}.md", f"Document {number}.\n")
        tags = [[HOSTILE if n < FEW else "other", "all"] for n in range(N)]
        rows = [{"query_id": f"q{n:02}", "text": f"q {n}", "tags": tags[n]} for n in range(N)]
        tiny.write_rows("queries.jsonl", rows)
        labels = [{"query_id": f"q{n:02}", "doc_id": f"d{n:02}.md"} for n in range(N)]
        tiny.write_rows("judgments.jsonl", labels)
        tiny.config = {
            "name": "ranked",
            "dataset": {"format": "markdown", "judge": "document"},
            "chunking": {"whole": {"strategy": "none"}},
            "retrievers": {n: {"type": "run_file", "path": f"{n}.trec"} for n in ranks},
            "top_k": [4],
            "metrics": ["mrr"],
            "primary": "mrr@4",
            "statistics": {"resamples": 2000},
        }
        tiny.write_config()
        for name, places in ranks.items():
            (tiny.folder / f"{name}.trec").write_text(_run(places))
        tiny.run()
        tiny.snapshot()
        return tiny

    return ranked


def _run(ranks: Sequence[int]) -> str:
    """Return a run that finds the document of each question at its rank, of four; 5: not at all."""
    lines = []
    for number, at in enumerate(ranks):
        others = [f"d{(number + step) % N:02}.md" for step in range(1, 5)]
        hits = [*others[: at - 1], f"d{number:02}.md", *others[at - 1 :]][:4]
        lines += [f"q{number:02} Q0 {d} {i} {9 - i} t" for i, d in enumerate(hits, 1)]
    return "\n".join(lines) + "\n"


FILE = "is a ranking from a file"


def answer(tiny: Tiny, **milliseconds: float) -> Winner:
    view = View(EvaluationTable.current(tiny.artifacts))
    view.__dict__["speed"] = milliseconds
    found = winner_of(view)
    assert found is not None
    return found


def test_a_winner_is_better_than_every_other(ranked: Ranked) -> None:
    tiny = ranked({"good": [1] * N, "fair": [2] * N, "poor": [4] * 50 + [5] * 10})
    found = answer(tiny, good=9, fair=1, poor=1)
    assert found.proven
    assert found.title == "Use good"
    assert found.sentences == [f"good {FILE}; its mrr@4 is 1.0000, fair has 0.5000."]
    page = write_report(EvaluationTable.current(tiny.artifacts)).read_text(encoding="utf-8")
    assert '<h1>Use <mark class="winner">good</mark></h1>' in page


def test_without_a_winner_it_says_who_is_tied_and_what_would_tell(ranked: Ranked) -> None:
    """Ten questions are won and six lost, by half each: 2/60 apart; poor is out."""
    ahead = [1] * 10 + [2] * 6 + [1] * 44
    behind = [2] * 10 + [1] * 6 + [1] * 44
    tiny = ranked({"behind": behind, "ahead": ahead, "poor": [5] * N})
    found = answer(tiny, behind=2.5, ahead=30, poor=1)
    assert not found.proven
    assert found.title == "No winner yet: ahead and behind are tied"
    assert found.tied == ("behind",)
    # Variance of a question's difference: (16 / 4 - 60 / 900) / 59; level .025 / 3 pairs.
    deviation = ((16 / 4 - 60 * (1 / 30) ** 2) / 59) ** 0.5
    needed = ((2.39398 + 0.84162) * deviation * 30) ** 2 - N
    assert found.more_questions == pytest.approx(needed, rel=0.03)
    assert found.if_half == pytest.approx(4 * (needed + N), rel=0.03)
    assert found.sentences[1:3] == [
        f"About {found.more_questions} more questions would tell if the difference stays as it was "
        f"seen; if it is half of that, about {found.if_half:,} in all.",
        "The fastest of them is behind, 2.5 ms a query.",
    ]
    assert answer(tiny, ahead=30).cheapest is None, "the other may be faster"
    said = repr(EvaluationTable.current(tiny.artifacts))
    assert "No winner yet: ahead and behind are tied." in said
    page = write_report(EvaluationTable.current(tiny.artifacts)).read_text(encoding="utf-8")
    assert "<h1>No winner yet: ahead and behind are tied</h1>" in page
    assert "That difference is not shown to be real" in page


def test_those_that_are_alike_are_not_told_apart_by_any_number(ranked: Ranked) -> None:
    tiny = ranked({name: [1] * N for name in ("a", "b", "c", "d")})
    found = answer(tiny)
    assert found.title == "No winner yet: a, b and 2 more are tied"
    assert found.more_questions == float("inf")
    assert found.sentences[1] == "They are too alike for 10,000 more questions to tell."


@pytest.mark.parametrize(("n", "alike"), [(1, False), (1, True), (2, False), (4, False)])
def test_of_few_questions_nothing_is_known(n: int, alike: bool) -> None:
    """Their spread is a guess: it says neither that they are alike nor what would tell."""
    pets = ["cat", "dog", "cow", "pig"]
    result = rag_assets.evaluate(
        documents=[f"a {pet}" for pet in pets],
        queries=pets[-n:],
        judgments={place: [4 - n + place] for place in range(n)},
        retrievers={
            "good": lambda query: [pets.index(query), 0],
            "bad": lambda query: [pets.index(query)] if alike else [0],
        },
        settings={"metrics": ["mrr"]},
    )
    said = repr(result).splitlines()[1:4]
    assert said[0].startswith("No winner yet: ")
    assert said[2] == "These questions are too few to say how many more would tell."


def test_one_alone_is_no_winner(ranked: Ranked) -> None:
    found = answer(ranked({"alone": [1] * 30 + [5] * 30}))
    assert (found.proven, found.title) == (False, "alone, compared with no other")
    assert found.sentences == [f"alone {FILE}; its mrr@4 is 0.5000."]


def test_an_exception_is_named_at_once(ranked: Ranked) -> None:
    """All twelve of the tag are lost: p is 2^-11, and there are two tags to be corrected for."""
    tiny = ranked({"usual": [2] * FEW + [1] * (N - FEW), "special": [1] * FEW + [4] * (N - FEW)})
    found = answer(tiny)
    (one,) = found.exceptions
    assert (one.retriever, one.value, one.best_value, one.shown) == ("special", 1.0, 0.5, True)
    assert found.title == "Use usual"
    assert found.sentences[-1] == (
        r"usual is best over all, but special is better for <b>[red]\x1b\u202e& part "
        "(1.00, usual 0.50)."
    )
    page = write_report(EvaluationTable.current(tiny.artifacts)).read_text(encoding="utf-8")
    (lead,) = re.findall(r'<p class="told">(.*?)</p>', page, re.DOTALL)
    assert r"&lt;b&gt;[red]\x1b\u202e&amp; part" in lead
    assert "<b>" not in lead


def test_an_exception_that_is_not_shown_is_named_as_that(ranked: Ranked) -> None:
    """Six of the tag are lost: p is 2^-5, and above .05 after Holm over four tests."""
    usual = [2] * 6 + [1] * (N - 6)
    special = [1] * FEW + [4] * (N - FEW)
    tiny = ranked({"usual": usual, "vast": usual, "special": special})
    found = answer(tiny)
    (one,) = found.exceptions
    assert (one.retriever, one.shown) == ("special", False)
    assert found.sentences[-1].endswith("(1.00, usual 0.75); the data does not settle it.")


def test_the_command_begins_with_the_answer(ranked: Ranked) -> None:
    tiny = ranked({"good": [1] * N, "fair": [2] * N})
    words = ["evaluate", str(tiny.folder), "--store", str(tiny.settings.store)]
    runner = CliRunner(env={"COLUMNS": "100"})
    said = runner.invoke(main, words).stdout
    assert said.startswith(f"Use good.\ngood {FILE}; its mrr@4 is 1.0000, fair has 0.5000.\n\n")
    assert "\n# retriever " in said
    assert "Use good" not in runner.invoke(main, [*words, "--quiet"]).stdout
