"""A search that answers at random on equal inputs, each night otherwise, and a gate behind it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rag_assets.pipeline.asked_revisions import ask_revisions
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.report.gate import Gate, gate
from rag_assets.report.gate_checks import Check, Rules
from rag_assets.report.gate_views import gate_markdown
from rag_assets.report.result import EvaluationResult
from rag_assets.store.atomic import write_text
from tests.tiny_experiment import Tiny

N = 20

SEARCH = """
import random
from pathlib import Path

SHARE = <share>
HERE = Path(__file__).parent


def retrieve(query, k):
    right = f"d{query.split()[1]}.md"
    others = [f"d{n}.md" for n in range(3) if f"d{n}.md" != right]
    state = (HERE.parent / "night.txt").read_text()
    is_first = random.Random(f"{query} {state}").random() < SHARE
    found = [right, *others] if is_first else [others[0], right, *others[1:]]
    return [{"id": one} for one in found]
"""
"""Finds the right document first for a share of the questions, else second: mrr is (1 + share) / 2.

What it draws depends on the night, which nothing that is fingerprinted knows.
"""


class Nights(Tiny):
    """Twenty questions, a search that draws, and one that does not."""

    night = 0

    def write(self) -> Nights:
        for number in range(N):
            self.write_document(f"d{number}.md", f"Document {number}.\n")
        rows = [{"query_id": f"q{n}", "text": f"question {n}"} for n in range(N)]
        self.write_rows("queries.jsonl", rows)
        rows = [{"query_id": f"q{n}", "doc_id": f"d{n}.md"} for n in range(N)]
        self.write_rows("judgments.jsonl", rows)
        self.config = {
            "name": "nights",
            "dataset": {"format": "markdown", "judge": "document"},
            "chunking": {"whole": {"strategy": "none"}},
            "retrievers": {
                "drawn": {"type": "python", "call": "search.py:retrieve", "revision": "always"},
                "fixed": {"type": "run_file", "path": "fixed.trec"},
            },
            "top_k": [4],
            "metrics": ["mrr"],
            "primary": "mrr@4",
            "baseline": "fixed",
        }
        self.write_config()
        self.share(0.8)
        self.fix(1)
        return self

    def share(self, share: float) -> None:
        code = SEARCH.replace("<share>", str(share))
        (self.folder / "search.py").write_text(code, encoding="utf-8")

    def fix(self, rank: int) -> None:
        """Have ``fixed`` find every document at this rank."""
        lines = []
        for n in range(N):
            found = [f"d{(n + step) % N}.md" for step in range(1, rank)] + [f"d{n}.md"]
            lines += [f"q{n} Q0 {one} {at} {9 - at} t" for at, one in enumerate(found, 1)]
        (self.folder / "fixed.trec").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def evaluate(self) -> str:
        """One night: the search is asked again, and draws."""
        self.night += 1
        (self.root / "night.txt").write_text(str(self.night), encoding="utf-8")
        ask_revisions(self.pipeline(), ["drawn"])
        self.run()
        return self.snapshot().evaluation_id

    def pin(self) -> None:
        write_text(self.artifacts / "anchor", self.evaluate())

    def gate(self, **rules: float) -> Gate:
        names = EvaluationNames(self.artifacts, self.settings.locks)
        result = EvaluationResult.current(self.artifacts)
        return gate(result, names, "anchor", Rules(**rules))


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(tmp_path / "nights").write()


def of(found: Gate, name: str) -> Check:
    (check,) = (check for check in found.checks if check.retriever == name)
    return check


def test_draws_of_one_system_are_averaged_and_use_up_no_look(nights: Nights) -> None:
    nights.pin()
    values = []
    for n in range(1, 4):
        evaluation = nights.evaluate()
        values.append(EvaluationResult.current(nights.artifacts).leaderboard)
        found = nights.gate()
        check = of(found, "drawn")
        assert check.evaluations == (1, n)
        assert found.look is None
        assert of(found, "fixed").answer == "pass"
        assert check.answer == "cannot tell"
        assert check.reason is not None
        assert "too few for an interval" in check.reason
        assert found.evaluation == evaluation
    means = [
        row["mrr"] for board in values for row in board.to_pylist() if row["retriever"] == "drawn"
    ]
    assert len(set(means)) > 1
    assert check.drop is not None
    assert check.drop.new == pytest.approx(sum(means) / 3)
    assert not (nights.artifacts / "looks").exists()
    text = gate_markdown(found)
    assert (
        "drawn answers at random: its mean over 3 evaluations is compared, and the anchor" in text
    )
    assert "nothing changed, nothing was tested" in text, "of the other one"


@pytest.mark.slow
def test_a_planted_drop_is_found_and_noise_is_not(nights: Nights) -> None:
    """From .8 to .1 of the questions: mrr falls by .35, and its draws vary by about .04."""
    for _ in range(4):
        nights.evaluate()
    nights.pin()
    for _ in range(12):
        nights.evaluate()
    quiet = of(nights.gate(max_drop=0.01), "drawn")
    assert quiet.evaluations == (5, 12)
    assert quiet.answer != "fail"
    assert of(nights.gate(max_drop=0.15), "drawn").answer == "pass"
    nights.share(0.1)
    answers = []
    for _ in range(14):
        nights.evaluate()
        answers.append(of(nights.gate(max_drop=0.01), "drawn"))
    assert answers[0].evaluations is None, "one evaluation of a changed system is a look"
    assert answers[1].evaluations == (17, 2), "all of the anchor's system"
    assert answers[-1].answer == "fail"
    assert answers[-1].reason is not None
    assert "over 14 evaluations" in answers[-1].reason


def test_what_is_not_random_is_looked_at_beside_it(nights: Nights) -> None:
    nights.pin()
    nights.evaluate()
    nights.fix(2)
    nights.evaluate()
    found = nights.gate()
    assert of(found, "fixed").answer == "fail"
    assert of(found, "fixed").evaluations is None
    assert of(found, "drawn").evaluations == (1, 2)
    assert found.look is not None
    assert found.look.number == 1
    assert nights.gate().look is not None
    again = nights.gate().look
    assert again is not None
    assert again.repeated


def test_an_evaluation_that_asks_nobody_is_no_draw(nights: Nights) -> None:
    nights.pin()
    nights.evaluate()
    nights.evaluate()
    nights.run()
    nights.snapshot()
    assert of(nights.gate(), "drawn").evaluations == (1, 2)


def test_seeds_of_this_file_draw_what_they_claim() -> None:
    drawn = [
        random.Random(f"question {n} {night}").random() for n in range(N) for night in range(9)
    ]
    assert 0.7 < sum(one < 0.8 for one in drawn) / len(drawn) < 0.9
