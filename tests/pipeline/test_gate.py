"""A gate over runs whose every rank is known, so that each number can be said beforehand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import stdev
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from rag_assets.cli import main
from rag_assets.errors import UsageError
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.report.evaluation_pairs import EvaluationPair
from rag_assets.report.gate import Gate, Rules, drop_of, gate
from rag_assets.report.gate_views import gate_markdown, junit
from rag_assets.report.result import EvaluationResult
from tests.tiny_experiment import Tiny

N = 14
"""More than 13: up to there the signed-rank test takes all patterns, which takes seconds."""


class Known(Tiny):
    """Fourteen questions with one relevant document each, and retrievers that are run files."""

    def write(self) -> Known:
        for number in range(N):
            self.write_document(f"d{number}.md", f"Document {number}.\n")
        queries = [{"query_id": f"q{number}", "text": f"question {number}"} for number in range(N)]
        self.write_rows("queries.jsonl", queries)
        rows = [{"query_id": f"q{n}", "doc_id": f"d{n}.md"} for n in range(N)]
        self.write_rows("judgments.jsonl", rows)
        self.config = {
            "name": "known",
            "dataset": {"format": "markdown", "judge": "document"},
            "chunking": {"whole": {"strategy": "none"}},
            "retrievers": {
                name: {"type": "run_file", "path": f"{name}.trec"} for name in ("one", "two")
            },
            "top_k": [4],
            "metrics": ["mrr"],
            "primary": "mrr@4",
            "baseline": "one",
        }
        self.write_config()
        self.rank("one", [1] * N)
        self.rank("two", [1] * N)
        return self

    def rank(self, retriever: str, ranks: Sequence[int]) -> None:
        """Have a retriever find the document of each question at this rank, of four."""
        lines = []
        for number, at in enumerate(ranks):
            others = [f"d{(number + step) % N}.md" for step in range(1, 4)]
            found = [*others[: at - 1], f"d{number}.md", *others[at - 1 :]]
            lines += [f"q{number} Q0 {d} {i} {9 - i} t" for i, d in enumerate(found, 1)]
        (self.folder / f"{retriever}.trec").write_text("\n".join(lines) + "\n")

    def evaluate(self) -> EvaluationResult:
        self.run()
        self.snapshot()
        return EvaluationResult.current(self.artifacts)

    def names(self) -> EvaluationNames:
        return EvaluationNames(self.artifacts, self.settings.locks)

    def gate(self, against: str = "previous", **rules: float | bool) -> Gate:
        own = Rules(**rules)  # type: ignore[arg-type]
        return gate(EvaluationResult.current(self.artifacts), self.names(), against, own)


@pytest.fixture(scope="module")
def known_master(tmp_path_factory: pytest.TempPathFactory) -> Known:
    known = Known(tmp_path_factory.mktemp("gate") / "master").write()
    known.evaluate()
    return known


@pytest.fixture
def known(known_master: Known, tmp_path: Path) -> Known:
    moved = known_master.copy_to(tmp_path / "known")
    return Known(moved.root, moved.config)


def of(found: Gate, retriever: str) -> tuple[bool, str]:
    (check,) = (check for check in found.checks if check.retriever == retriever)
    return check.failure is None, check.failure or check.warning or ""


def test_no_change_passes_also_strictly(known: Known) -> None:
    known.evaluate()
    assert known.gate(max_drop=0.0).passed
    found = known.gate(max_drop=0.0, strict=True)
    assert found.passed
    assert not any(check.warning for check in found.checks)


def test_a_drop_that_is_no_chance_fails(known: Known) -> None:
    """Six of fourteen questions fall from 1 to 1/2: the mean by 3/14, p = 2^-6."""
    known.rank("two", [2] * 6 + [1] * 8)
    known.evaluate()
    found = known.gate(max_drop=0.1)
    assert not found.passed
    assert of(found, "one") == (True, "")
    assert of(found, "two") == (False, "dropped by 0.2143 (p = 0.0156); 0.1 are allowed")
    drop = found.checks[1].drop
    assert drop is not None
    assert (drop.n, drop.old, drop.p) == (14, 1.0, 2**-6)
    assert drop.new == pytest.approx(11 / 14)
    assert drop.low is not None
    assert -0.5 < drop.low < -3 / 14


def test_a_drop_that_is_allowed_passes(known: Known) -> None:
    known.rank("two", [2] * 6 + [1] * 8)
    known.evaluate()
    assert known.gate(max_drop=0.22).passed
    assert known.gate(max_drop=0.1, alpha=0.01).passed


def test_a_drop_that_may_be_chance_passes_with_a_warning(known: Known) -> None:
    """Four fall and three rise: p is far above alpha, and fourteen questions show little."""
    known.rank("one", [2] * 3 + [1] * 11)
    known.evaluate()
    known.rank("one", [1] * 3 + [2] * 4 + [1] * 7)
    known.evaluate()
    found = known.gate(max_drop=0.01)
    passes, warning = of(found, "one")
    assert passes
    assert warning.startswith("14 queries show a drop of 0.")
    assert warning.endswith("one of 0.01 may go unseen")
    strict = known.gate(max_drop=0.01, strict=True)
    assert not strict.passed
    assert "is not ruled out; 0.01 are allowed" in of(strict, "one")[1]


def test_a_rise_passes_also_strictly(known: Known) -> None:
    known.rank("two", [4] * N)
    known.evaluate()
    known.rank("two", [1] * N)
    known.evaluate()
    assert known.gate(max_drop=0.0, strict=True).passed


def test_the_smallest_drop_that_is_found(known: Known) -> None:
    """(t(0.95; 13) + t(0.8; 13)) * sd / sqrt(14), with quantiles from a printed table."""
    before = EvaluationResult.current(known.artifacts)
    known.rank("two", [2] * 6 + [1] * 8)
    pair = EvaluationPair.of(before, known.evaluate(), {f"q{n}" for n in range(N)})
    drop = drop_of(pair, "two", "two", 0.05)
    assert drop is not None
    error = stdev([-0.5] * 6 + [0.0] * 8) / 14**0.5
    assert drop.detectable == pytest.approx((1.771 + 0.870) * error, rel=1e-3)


def test_against_the_baseline(known: Known) -> None:
    known.rank("two", [3] * N)
    known.evaluate()
    found = known.gate("baseline", max_drop=0.5)
    assert [(check.retriever, check.against) for check in found.checks] == [("two", "one")]
    assert not found.passed
    assert "against baseline one" in gate_markdown(found)


def test_the_anchor_stays(known: Known) -> None:
    pinned = known.names().pin("latest")
    known.rank("two", [3] * N)
    known.evaluate()
    known.evaluate()
    assert known.gate("previous").passed
    found = known.gate("anchor")
    assert found.against == pinned.evaluation_id
    assert not found.passed


def test_an_incomplete_evaluation_fails_and_is_compared_with_nothing(known: Known) -> None:
    known.config["top_k"] = [2, 4]
    known.write_config()
    known.snapshot()
    known.config["top_k"] = [4]
    incomplete = known.names().find("latest")
    found = known.gate("previous")
    assert not found.passed
    assert found.incomplete == (
        "one has no cell at top_k 2",
        "two has no cell at top_k 2",
    )
    known.write_config()
    known.evaluate()
    with pytest.raises(UsageError, match="is not complete; a gate compares with complete ones"):
        known.gate(incomplete.evaluation_id)


def test_failed_queries_fail(known: Known) -> None:
    rows = [{"query_id": f"q{n}", "retrieved_ids": [f"d{n}.md"]} for n in range(N - 4)]
    failed = [{"query_id": f"q{n}", "error": f"timed out\x1b {n}"} for n in range(N - 4, N)]
    known.write_rows("two.jsonl", [*rows, *failed])
    known.configure("two", path="two.jsonl")
    known.evaluate()
    found = known.gate(max_drop=1.0)
    assert all(check.failure is None for check in found.checks)
    assert not found.passed
    (reason,) = found.incomplete
    assert reason.startswith("two failed on queries: q10: timed out\x1b 10; q11: timed")
    assert reason.endswith("; and 1 more")
    root = ElementTree.fromstring(junit(found))
    bad = [case for case in root.iter("testcase") if case.find("failure") is not None]
    assert [case.get("name") for case in bad] == ["complete"]
    assert "incomplete: two failed on queries" in gate_markdown(found)


def test_other_labels_are_refused(known: Known) -> None:
    rows = [{"query_id": f"q{n}", "doc_id": f"d{n}.md"} for n in range(N - 1)]
    known.write_rows("judgments.jsonl", [*rows, {"query_id": "q13", "doc_id": "d0.md"}])
    result = known.evaluate()
    with pytest.raises(UsageError, match="1 labelled query with other labels"):
        known.gate()
    found = gate(result, known.names(), "previous", Rules(), intersection=True)
    assert found.passed
    assert found.notes == ("only the 13 of 14 labelled queries that are the same in both count",)


def test_a_retriever_that_came_or_went_is_told(known: Known) -> None:
    known.config["retrievers"]["new"] = known.config["retrievers"].pop("two")
    known.write_config()
    known.evaluate()
    found = known.gate()
    assert found.passed
    assert found.notes == (
        "new is new and has nothing to be compared with",
        "two is gone",
    )


def test_junit(known: Known) -> None:
    known.rank("two", [2] * 6 + [1] * 8)
    known.evaluate()
    root = ElementTree.fromstring(junit(known.gate(max_drop=0.1)))
    assert root.tag == "testsuites"
    (suite,) = root.findall("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == ["complete", "one", "two"]
    (failure,) = cases[2].findall("failure")
    assert "dropped by 0.2143" in str(failure.get("message"))


def test_junit_of_what_no_xml_may_hold(known: Known) -> None:
    known.evaluate()
    found = known.gate()
    bad = Gate(**{**vars(found), "incomplete": ("one failed: \x00\x1b[31m<b>&\ud800",)})
    root = ElementTree.fromstring(junit(bad))
    assert root.find(".//failure").get("message") == "one failed: ??[31m<b>&?"  # type: ignore[union-attr]


def command(known: Known, *options: str) -> Result:
    words = ["gate", str(known.folder), "--store", str(known.settings.store)]
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, [*words, *options])


def test_the_command(known: Known, tmp_path: Path) -> None:
    nothing = command(known, "--against", "previous")
    assert nothing.exit_code == 2
    assert "no complete evaluation before" in nothing.stderr
    known.rank("two", [2] * 6 + [1] * 8)
    known.evaluate()
    file = tmp_path / "reports" / "gate.xml"
    failed = command(known, "--against", "previous", "--junit", str(file))
    assert failed.exit_code == 1
    assert "gate FAILED: known, mrr@4 against 2" in failed.stdout
    assert max(map(len, failed.stdout.splitlines())) <= 80
    assert ElementTree.parse(file).getroot().get("failures") == "1"
    passed = command(known, "--against", "previous", "--retriever", "one", "--format", "json")
    assert passed.exit_code == 0
    assert json.loads(passed.stdout)["passed"] is True
    markdown = command(known, "--against", "previous", "--format", "markdown").stdout
    assert markdown.startswith("### gate FAILED: known, mrr@4 against 2")
    assert "| fail | two | 1.0000 | 0.7857 | -0.2143 |" in markdown
    for wrong in (["--max-drop", "2"], ["--alpha", "0"], ["--metric", "mrr@7"]):
        assert command(known, "--against", "previous", *wrong).exit_code == 2


def test_the_anchor_command(known: Known) -> None:
    words = ["anchor", str(known.folder), "--store", str(known.settings.store)]
    runner = CliRunner()
    assert runner.invoke(main, [*words, "--show"]).exit_code == 1
    pinned = runner.invoke(main, words)
    assert pinned.exit_code == 0
    latest = known.names().find("latest").evaluation_id
    assert f"known: anchor is {latest}" in pinned.stdout
    assert runner.invoke(main, [*words, "--show"]).stdout == pinned.stdout
    assert (known.artifacts / "anchor").read_text() == latest
