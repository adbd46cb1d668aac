"""A gate over runs whose every rank is known, so that each number can be said beforehand."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import stdev

import dagster as dg
import pytest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from scipy import stats

import rag_assets
from rag_assets.analysis.drop_causes import LostQuestion
from rag_assets.analysis.gate import Gate, Look, Rules, gate
from rag_assets.analysis.result import EvaluationResult
from rag_assets.assets.evaluate import evaluate
from rag_assets.assets.instance import open_instance
from rag_assets.errors import StoreError, UsageError
from rag_assets.pipeline.evaluation_names import GateLooks, Subject
from rag_assets.pipeline.selection import Selection
from tests.dagster_state import run_as_ui
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
            **{"name": "known", "dataset": {"format": "markdown", "judge": "document"}},
            **{"chunking": {"whole": {"strategy": "none"}}, "top_k": [4], "metrics": ["mrr"]},
            "retrievers": {n: {"type": "run_file", "path": f"{n}.trec"} for n in ("one", "two")},
            **{"primary": "mrr@4", "baseline": "one"},
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

    def fail_on_some(self, retriever: str) -> None:
        """Have its file say that it failed on the first two questions."""
        failed = [{"query_id": f"q{n}", "error": "timeout"} for n in range(2)]
        rows = [{"query_id": f"q{n}", "retrieved_ids": [f"d{n}.md"]} for n in range(2, N)]
        self.write_rows(f"{retriever}.jsonl", [*failed, *rows])
        self.configure(retriever, path=f"{retriever}.jsonl")

    def evaluate(self) -> EvaluationResult:
        self.run()
        self.snapshot()
        return EvaluationResult.current(self.artifacts)

    def gate(self, against: str = "previous", **rules: float) -> Gate:
        """Ask whether the last evaluation is worse; ``first`` is the first one."""
        names = self.names()
        against = names.history().ids()[0] if against == "first" else against
        return gate(EvaluationResult.current(self.artifacts), names, against, Rules(**rules))


@pytest.fixture(scope="module")
def known_master(tmp_path_factory: pytest.TempPathFactory) -> Known:
    known = Known(tmp_path_factory.mktemp("gate") / "master").write()
    known.evaluate()
    return known


@pytest.fixture
def known(known_master: Known, tmp_path: Path) -> Known:
    moved = known_master.copy_to(tmp_path / "known")
    return Known(moved.root, moved.config)


def of(found: Gate, retriever: str) -> tuple[str, str]:
    (check,) = (check for check in found.checks if check.retriever == retriever)
    return check.answer, check.reason or ""


def test_a_drop_that_is_no_chance_fails(known: Known) -> None:
    """Ten of fourteen questions fall from 1 to 1/2: the mean by 5/14, p = 2^-10."""
    known.rank("two", [2] * 10 + [1] * 4)
    known.evaluate()
    found = known.gate(max_drop=0.1)
    assert found.answer == "fail"
    assert of(found, "one") == ("pass", "")
    assert of(found, "two") == ("fail", "dropped by 0.3571 (p = 0.0010); 0.1 is allowed")
    assert found.look == Look(1, False, 0.0025)
    drop, causes = found.checks[1].drop, found.checks[1].causes
    assert drop is not None
    assert (drop.n, drop.old, drop.p) == (14, 1.0, 2**-10)
    assert drop.new == pytest.approx(9 / 14)
    both = stats.ttest_1samp([-0.5] * 10 + [0.0] * 4 + [-1.0, 1.0], 0).confidence_interval()
    assert (drop.low, drop.high) == pytest.approx((both.low, both.high))
    assert causes is not None
    assert causes.n_lost == 10
    assert causes.lost[0] == LostQuestion("q0", "question 0", 1.0, 0.5)
    assert causes.loss == pytest.approx(5 / 14)
    assert causes.unjudged == 0
    assert "two lost most on q0 (1.0000 -> 0.5000)" in found.markdown()


def test_retrievers_of_a_look_share_its_level(known: Known) -> None:
    """Nine fall of either: p is 2^-9, also of two that fall together, but not of two apart."""
    known.rank("two", [2] * 9 + [1] * 5)
    known.evaluate()
    assert of(known.gate(max_drop=0.1), "two")[0] == "fail"
    known.rank("one", [2] * 9 + [1] * 5)
    known.evaluate()
    found = known.gate("first", max_drop=0.1)
    assert [check.p_adjusted for check in found.checks] == [2**-9, 2**-9]
    assert [check.answer for check in found.checks] == ["fail", "fail"]
    known.rank("one", [1] * 5 + [2] * 9)
    known.evaluate()
    found = known.gate("first", max_drop=0.1)
    assert all(check.p_adjusted and check.p_adjusted > 0.0025 for check in found.checks)
    assert [check.answer for check in found.checks] == ["cannot tell", "cannot tell"]


def test_a_search_that_returns_nothing_any_more_is_broken(known: Known) -> None:
    """Five questions without hits fail outside of any test, also where no value changed."""
    for silent, answer in ((4, "cannot tell"), (5, "fail")):
        run = (known.folder / "two.trec").read_text().splitlines()
        gone = {f"q{number}" for number in range(silent)}
        kept = [line for line in run if line.split()[0] not in gone]
        (known.folder / "two.trec").write_text("\n".join(kept) + "\n")
        known.evaluate()
        found = known.gate("first")
        assert of(found, "two")[0] == answer
        known.rank("two", [1] * N)
    assert of(found, "two")[1] == "broken: it returns nothing for 5 questions that had hits"


def test_a_drop_that_is_ruled_out_passes(known: Known) -> None:
    known.rank("two", [2] * 6 + [1] * 8)
    known.evaluate()
    assert known.gate(max_drop=0.5).passed
    assert known.gate(max_drop=0.3).answer == "cannot tell"


def test_a_drop_that_may_be_chance_cannot_be_told(known: Known) -> None:
    """Four fall and three rise: nothing is shown, and this is said beside what could be."""
    known.rank("one", [2] * 3 + [1] * 11)
    known.evaluate()
    known.rank("one", [1] * 3 + [2] * 4 + [1] * 7)
    known.evaluate()
    found = known.gate(max_drop=0.01)
    answer, reason = of(found, "one")
    assert answer == "cannot tell"
    assert reason.startswith("dropped by 0.0357, which may be chance (p = 0.5000, below 0.0025 is")
    # Quantiles of Student's distribution with 13 degrees of freedom, from a printed table.
    error = stdev([0.5] * 3 + [-0.5] * 4 + [0.0] * 7) / 14**0.5
    drop = found.checks[0].drop
    assert drop is not None
    assert drop.detectable is not None
    assert drop.detectable == pytest.approx((3.372 + 0.870) * error, rel=1e-3)
    needed = float(f"{14 * (drop.detectable / drop.drop) ** 2:.2g}")
    assert reason.endswith(
        f"; a drop of {drop.detectable:.4f} can be shown (if the difference stays this large, "
        f"about {needed:,.0f} questions show it; if it is half as large, four times as many)"
    )
    # A mean of 1/4 falls by no more than that.
    known.rank("one", [4] * N)
    known.evaluate()
    known.rank("one", [1] * 2 + [4] * 12)
    known.evaluate()
    assert of(known.gate(), "one")[1].endswith("; no drop can be shown with 14 questions")


def test_a_state_that_was_looked_at_is_no_new_look(known: Known) -> None:
    known.names().pin("latest")
    known.rank("two", [2] * 10 + [1] * 4)
    known.evaluate()
    first = known.gate("anchor", max_drop=0.1)
    known.evaluate()
    again = known.gate("anchor", max_drop=0.1)
    assert again.look == Look(1, True, 0.0025)
    assert again.checks == first.checks
    (kept,) = (known.artifacts / "looks").iterdir()
    assert "question 1" not in kept.read_text(), "no text is where `clean --document` does not look"
    assert again.evaluation != first.evaluation
    assert "this state was looked at before" in again.markdown()
    known.rank("two", [2] * 11 + [1] * 3)
    known.evaluate()
    assert known.gate("anchor", max_drop=0.1).look == Look(2, False, 0.0025)
    known.rank("two", [2] * 10 + [1] * 4)
    known.evaluate()
    assert known.gate("anchor", max_drop=0.1).look == Look(1, True, 0.0025)
    # Other rules are the same look: the same test, read otherwise.
    assert known.gate("anchor", max_drop=0.6).look == Look(1, True, 0.0025)


def test_after_the_last_look_nobody_can_tell(known: Known) -> None:
    names = known.names()
    pinned = names.pin("latest").evaluation_id
    looks = GateLooks(names.settings, names.root, pinned)
    for number in range(20):
        looks.add(Subject("mrr@4", "all", [("one", "one"), ("two", "two")]), f"state {number}")
    known.rank("two", [4] * N)
    known.evaluate()
    found = known.gate("anchor")
    assert found.look == Look(21, False, 0.0025)
    assert of(found, "one") == ("pass", "")
    answer, reason = of(found, "two")
    assert answer == "cannot tell"
    assert reason.startswith(f"20 looks at {pinned} are used up; set a new anchor")
    assert known.gate("anchor").look == Look(21, False, 0.0025)
    known.names().pin("latest")
    known.rank("two", [1] * N)
    known.evaluate()
    assert known.gate("anchor").look == Look(1, False, 0.0025)


def test_looks_that_are_not_what_was_written(known: Known) -> None:
    """An edited state, any flipped bit, a file without a checksum: one line, exit 3."""
    file = known.artifacts / "looks" / f"{known.names().pin('latest').evaluation_id}.json"
    known.rank("two", [4] * N)
    known.evaluate()
    assert not known.gate("anchor").passed
    written = file.read_bytes()
    edited = [written.replace(b"mrr@4", b"mrr@1"), b'{"looks": [1]}', b'{"looks": []}', b"[1]"]
    for bit in random.Random(3).sample(range(8 * len(written)), 25):
        flipped = bytearray(written)
        flipped[bit // 8] ^= 1 << bit % 8
        edited.append(bytes(flipped))
    for content in edited:
        assert content != written
        file.write_bytes(content)
        with pytest.raises(StoreError, match=r"json: is damaged .* set a new anchor, or delete it"):
            known.gate("anchor")
    done = known.command("gate", ".", "--against", "anchor", columns=200)
    assert done.exit_code == 3
    assert done.output.count("\n") == 1


def test_an_incomplete_evaluation_fails_and_is_compared_with_nothing(known: Known) -> None:
    known.config["top_k"] = [2, 4]
    known.write_config()
    known.snapshot()
    known.config["top_k"] = [4]
    incomplete = known.names().find("latest")
    found = known.gate("previous")
    assert not found.passed
    assert found.incomplete == ("one has no cell at top_k 2", "two has no cell at top_k 2")
    known.write_config()
    known.evaluate()
    with pytest.raises(UsageError, match="is not complete; a gate compares with complete ones"):
        known.gate(incomplete.evaluation_id)


def test_failed_queries_fail(known: Known) -> None:
    search = [
        "def search(query, k):",
        "    n = int(query.split()[1])",
        f"    if n >= {N - 4}: raise OSError(f'timed out\\x1b {{n}}')",
        "    return [f'd{n}.md']",
    ]
    (known.folder / "own.py").write_text("\n".join(search) + "\n")
    known.config["retrievers"]["two"] = {"type": "python", "call": "own.py:search"}
    known.config["retrievers"]["both"] = {"type": "rrf", "inputs": ["one", "two"]}
    known.fail_on_some("one")
    known.evaluate()
    found = known.gate(max_drop=1.0)
    assert found.checks[0].answer == "pass"
    assert not found.passed
    reason, of_both = found.incomplete
    assert reason.startswith("two failed on queries: q10: OSError: timed out\\x1b 10; q11: OSErr")
    assert reason.endswith("; and 1 more")
    assert of_both == reason.replace("two", "both", 1), "without those of the file"
    assert "incomplete: two failed on queries" in found.markdown()
    with pytest.raises(UsageError, match=r"is incomplete, .* with --retry-failed where a server"):
        known.names().pin("latest")


def test_what_a_run_file_names_as_failed_is_noted_and_leaves_the_evaluation_complete(
    known: Known,
) -> None:
    known.config["retrievers"]["both"] = {"type": "rrf", "inputs": ["one", "two"]}
    known.fail_on_some("two")
    result = known.evaluate()
    assert result.evaluation.complete
    note = "two failed on queries: q0: timeout; q1: timeout; a run file says so, and no mean "
    for found in (known.gate(), floored(known, one={"metric": "mrr@4", "at_least": 0.5})):
        assert (found.answer, found.incomplete) == ("pass", ())
        assert found.notes[:2] == (
            f"{note}counts them",
            f"{note}counts them".replace("two", "both"),
        )
        assert f"note: {note}" in found.markdown()
    assert known.names().pin("latest").evaluation_id == result.evaluation.evaluation_id


def test_a_retriever_that_came_or_went_is_told(known: Known) -> None:
    known.config["retrievers"]["new"] = known.config["retrievers"].pop("two")
    known.write_config()
    known.evaluate()
    found = known.gate()
    assert found.passed
    assert found.notes == ("new is new, so there is nothing to compare it with", "two is gone")


def test_the_command(known: Known) -> None:
    nothing = known.command("gate", ".", "--against", "previous")
    assert nothing.exit_code == 2
    assert "no complete evaluation before" in nothing.stderr
    known.rank("two", [2] * 10 + [1] * 4)
    known.evaluate()
    failed = known.command("gate", ".", "--against", "previous")
    assert failed.exit_code == 1
    assert "gate FAILED: known, mrr@4 against 2" in failed.stdout
    assert max(map(len, failed.stdout.splitlines())) <= 80
    passed = known.command(
        "gate", ".", "--against", "previous", "--retriever", "one", "--format", "json"
    )
    assert passed.exit_code == 0
    content = json.loads(passed.stdout)
    assert (content["passed"], content["answer"]) == (True, "pass")
    for wrong in (["--max-drop", "2"], ["--alpha", "0"], ["--metric", "mrr@7"]):
        assert known.command("gate", ".", "--against", "previous", *wrong).exit_code == 2
    known.rank("two", [2] * 11 + [1] * 3)
    known.rank("one", [2] * 3 + [1] * 11)
    known.evaluate()
    unknown = known.command("gate", ".", "--against", "previous")
    assert unknown.exit_code == 4
    assert unknown.stdout.startswith("gate cannot tell: known, mrr@4 against 2")
    for option, code in (("pass", 0), ("fail", 1)):
        told = known.command("gate", ".", "--against", "previous", "--cannot-tell", option)
        assert told.exit_code == code


def test_the_anchor_command(known: Known) -> None:
    assert known.command("anchor", ".", "--show").exit_code == 1
    pinned = known.command("anchor", ".", columns=200)
    assert pinned.exit_code == 0
    latest = known.names().find("latest").evaluation_id
    assert f"known: anchor is {latest}" in pinned.stdout
    assert "the gate can fail once 9 questions fall and none rises" in pinned.stderr
    assert known.command("anchor", ".", "--show", columns=200).stdout == pinned.stdout
    assert (known.artifacts / "anchor").read_text() == latest


def floored(known: Known, against: str | None = None, **floors: object) -> Gate:
    known.config["floors"] = list(floors.values()) if "one" in floors else floors
    known.write_config()
    return rag_assets.gate(known.folder, against, store=known.settings.store)


def test_floors_on_the_bound_that_is_nearer(known: Known) -> None:
    """The bounds are Student's over the values and two extreme ones."""
    known.rank("two", [2] * 10 + [1] * 4)
    known.evaluate()
    ends = stats.ttest_1samp([0.5] * 10 + [1.0] * 4 + [0.0, 1.0], 0).confidence_interval()
    of = {"metric": "mrr", "of": ["two"]}
    for bound, side, limit, sign in (
        ("lower", "at_least", ends.low, 1),
        ("upper", "at_most", ends.high, -1),
    ):
        for shift, answer in ((-1e-6, "pass"), (1e-6, "fail")):
            floor = {**of, side: float(limit + sign * shift), "bound": bound}
            found = floored(known, one=floor)
            assert found.answer == answer
    assert found.to_arrow().num_rows == len(found.floors) == 1
    assert (
        found.floors[0].reason == f"{ends.high:.4f}, the upper bound, is above {floor['at_most']:g}"
    )


def test_floors_of_a_slice(known: Known) -> None:
    """The tag has the three questions at rank 4, one of which is long: 1/4, not the mean of all."""
    known.rank("two", [4] * 3 + [1] * (N - 3))
    queries = [
        {
            "query_id": f"q{n}",
            "text": f"question {n}",
            "tags": ["billing"] if n < 3 else [],
            "metadata": {"long": n in (0, 5), "year": 2024},
        }
        for n in range(N)
    ]
    known.write_rows("queries.jsonl", queries)
    known.evaluate()
    of = {"metric": "mrr", "of": ["two"], "at_least": 0.26}
    (floor,) = floored(known, one={**of, "where": {"tag": "billing"}}).floors
    assert (floor.value, floor.n, floor.row["answer"]) == (0.25, 3, "fail")
    assert floor.floor == "mrr >= 0.26 where tag is billing"
    for where, n, value in (
        ({"query.long": True}, 2, 5 / 8),
        ({"query.long": True, "tag": "billing"}, 1, 1 / 4),
        ({"query.year": 2024}, N, (3 / 4 + 11) / 14),
    ):
        (floor,) = floored(known, one={**of, "where": where}).floors
        assert floor.n == n
        assert floor.value == pytest.approx(value)
    lone = {**of, "where": {"query.long": True, "tag": "billing"}, "bound": "lower", "at_least": 0}
    assert floored(known, one=lone).floors[0].reason == "has no interval, of 1 questions"
    for wrong, problem in (
        ({"tag": "biling"}, "no question has the tag 'biling' (did you mean 'billing'?)"),
        ({"query.yaer": 1}, "no query has the field 'yaer' (did you mean 'year'?)"),
        ({"tag": "billing", "query.long": "maybe"}, "no question has the query.long 'maybe'"),
    ):
        with pytest.raises(UsageError, match=re.escape(problem)):
            floored(known, one={**of, "where": wrong})


def test_a_floor_that_cannot_be_read_never_passes(known: Known) -> None:
    for floor, problem in (
        ({"metric": "ndcg", "at_least": 0}, "has no cell of ndcg@4"),
        ({"metric": "mrr@9", "at_least": 0}, "has no cell of mrr@9"),
        ({"metric": "grounded", "at_least": 0}, "has no cell of grounded"),
        ({"metric": "sampled_dcg", "at_least": 0}, "has no sample of labels"),
        ({"metric": "judged_correct", "at_least": 0}, "no judge judged the answers"),
        ({"metric": "mrr", "at_least": 0, "of": ["thre"]}, "nothing is known of 'thre'"),
        ({"metric": "mrr", "at_least": 0, "of": ["one@5"]}, "nothing is known of 'one@5'"),
    ):
        with pytest.raises(UsageError, match=re.escape(problem)) as refused:
            floored(known, one=floor)
        assert str(refused.value).startswith(f"the floor {floor['metric']} >= 0 cannot be read: ")
        assert "\n" not in str(refused.value)
    known.config["floors"] = {}
    known.write_config()
    with pytest.raises(UsageError, match="a gate needs an evaluation to compare with, or a floor"):
        rag_assets.gate(known.folder, None, store=known.settings.store)
    with pytest.raises(UsageError, match=r"`floors\.mrr`: must be a number; found 'high'"):
        rag_assets.gate(known.folder, None, store=known.settings.store, floors={"mrr": "high"})  # type: ignore[dict-item]
    (known.folder / "judgments.jsonl").unlink()
    known.evaluate()
    with pytest.raises(UsageError, match="cannot be read: known had no labels"):
        floored(known, mrr=0.0)


def test_a_floor_that_cannot_be_read_hides_no_failure(known: Known) -> None:
    """Neither a floor that is not reached, nor a drop, nor another floor that cannot be read."""
    known.evaluate()
    known.rank("one", [2] * N)
    known.evaluate()
    unreadable = [{"metric": "recall@9", "at_least": 0}, {"metric": "ndcg", "at_least": 0}]
    failing = {"metric": "mrr", "at_least": 0.9, "of": ["one"]}
    lines = [f"the floor {floor['metric']} >= 0 cannot be read: " for floor in unreadable]
    found = floored(known, one=unreadable[0], failing=failing, two=unreadable[1])
    assert [floor.problem for floor in found.floors] == ["one: mrr >= 0.9: 0.5000 is below 0.9"]
    assert [note[: len(line)] for note, line in zip(found.notes, lines, strict=True)] == lines
    shown = known.command("gate", ".", columns=200)
    assert shown.exit_code == 1
    assert "failed: one: mrr >= 0.9: 0.5000 is below 0.9" in shown.stdout
    assert all(line in shown.stdout for line in lines)
    dropped = floored(known, "previous", one=unreadable[0])
    assert (dropped.answer, dropped.checks[0].answer, dropped.floors) == ("fail", "fail", ())
    assert f"note: {lines[0]}" in dropped.markdown().replace("\\", "")
    reached = {**failing, "at_least": 0.5}
    with pytest.raises(UsageError) as refused:
        floored(known, one=unreadable[0], reached=reached, two=unreadable[1])
    assert all(line in str(refused.value) for line in lines)


def test_floors_change_no_fingerprint_and_are_checks_in_dagster(known: Known) -> None:
    known.rank("two", [2] * 10 + [1] * 4)
    known.evaluate()
    with open_instance(known.settings) as instance:
        for floors, passed, text in (
            ({"mrr": 0.6}, True, "Every floor of experiment.yaml is reached: mrr >= 0.6."),
            ({"mrr": 0.7}, False, "two: mrr >= 0.7: 0.6429 is below 0.7"),
            ({"ndcg": 0.7}, False, "Not checked: the floor ndcg >= 0.7 cannot be read: "),
            ({"ndcg": 0.7, "mrr": 0.7}, False, "- two: mrr >= 0.7: 0.6429 is below 0.7\n- the "),
        ):
            known.config["floors"] = floors
            known.write_config()
            pipeline = known.pipeline()
            work = evaluate(pipeline, Selection.of(pipeline.experiment), instance=instance)
            assert work.computed == 0
            key = dg.AssetCheckKey(dg.AssetKey(["known", "leaderboard"]), "floors")
            (record,) = instance.event_log_storage.get_asset_check_execution_history(key, 1)
            assert record.event is not None
            told = record.event.get_dagster_event().asset_check_evaluation_data
            assert (told.passed, (told.description or "").startswith(text)) == (passed, True)
            severity = (
                dg.AssetCheckSeverity.WARN if [*floors] == ["ndcg"] else dg.AssetCheckSeverity.ERROR
            )
            assert told.severity is severity or passed
        before = len(instance.get_runs())
        evaluate(pipeline, Selection.of(pipeline.experiment), instance=instance)
        assert len(instance.get_runs()) == before
        known.config["floors"] = {"mrr": 0.7}
        known.write_config()
        assert run_as_ui(known, ["leaderboard"]).success  # a check stops nothing
        (record,) = instance.event_log_storage.get_asset_check_execution_history(key, 1)
        assert record.status is AssetCheckExecutionRecordStatus.FAILED
