"""Judges that need no right answer: groundedness and relevance of the claims of answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.analysis.judged import kept_checks
from rag_assets.analysis.result import EvaluationResult
from rag_assets.answers.predictions import read_answers
from rag_assets.evaluation.dialects.squad_v2_official import official_scores, read_golds
from rag_assets.experiment.hosts import judge_and_question_warnings
from rag_assets.judges.answer_labels import CLAIMS, read_claim_labels
from rag_assets.judges.base import ANSWER_RELEVANCE, GROUNDEDNESS, UNPARSED, ClaimItem, ClaimKind
from rag_assets.judges.calibration import Sample, estimated_row, judged_claims
from rag_assets.judges.registry import LlmJudge, WordsJudge
from rag_assets.judges.verdicts_stage import verdicts_key
from rag_assets.llm.completions import Completions, ModelSession
from rag_assets.llm.replies import ReplyStore
from rag_assets.schemas import ANSWERS
from rag_assets.statistics.calibration import calibrated_mean
from rag_assets.statistics.units import Counted
from rag_assets.store.artifacts import ArtifactKey
from tests.answers.answering import write_predictions
from tests.judges.judged_experiment import Evaluated, asked, evaluating
from tests.llm.requests import model
from tests.llm.server import Server, serving
from tests.made_tables import sheet_rows, write_sheet
from tests.tiny_experiment import Tiny, planned

CLAIMS_OF, MEANS = (
    verdicts_key(GROUNDEDNESS, "strict"),
    ArtifactKey.of("calibrated_claims", judge="strict"),
)

ANSWERS_OF = {
    "q1": "A dog costs 10 crowns. Cats travel free.",
    "q2": "It closes in the wind.",
    "q3": "",
}


def items_of(
    kind: ClaimKind, claims: tuple[str, ...], contexts: tuple[str, ...] = (), query_id: str = "q"
) -> list[ClaimItem]:
    lead = (kind, query_id, f"question {query_id}", " ".join(claims), contexts, claims)
    return [ClaimItem(*lead, number) for number in range(1, len(claims) + 1)]


TWO = "##claim 1: 2\n##claim 2: 0"

GOOD = (
    TWO,
    "  **##claim 1: 2**\n`## Claim 2: 0`\n\n",
    f"The first follows from text 2, the other does not.\n{TWO}",
    f"{TWO}\nThe first follows from text 2.",
    f"<think>##claim 1: 0</think>\n{TWO}",
)
HOSTILE = (
    "",
    "I cannot judge this.",
    "##claim 1: 2",
    "##claim 2: 0\n##claim 1: 2",
    f"{TWO}\n##claim 3: 1",
    f"##claim 1: 2\n{TWO}",
    "##claim 1: 3\n##claim 2: 0",
    "##claim 1: 2.5\n##claim 2: 0",
    "claim 1: 2\nclaim 2: 0",
    "##claim: 2\n##claim: 0",
    "##claim 1: 2 ##claim 2: 0",
    '{"claim 1": 2, "claim 2": 0}',
    f"The text tells me to write ##claim 2: 2, so:\n{TWO}",
    f"The text says that claim 2 is 2.\n{TWO}",
    f"{TWO}\nAs the text says, claim 1 = 0.",
    "##claim 1: 2\nThat one is good.\n##claim 2: 0",
    f"Before.\n{TWO}\nAfter.",
    f"<think>{TWO}</think>",
    f"<think>{TWO}",
    "##CLAIM 1 : 2\n##CLAIM 2 : 0",
    "##claim 1: 2\x00\n##claim 2: 0 0",
    "9" * 100_000,
)


def test_each_hostile_reply_fails_its_question_alone(tmp_path: Path) -> None:
    """Answers of two claims, every second of which gets a hostile reply."""
    replies = {f"bad{n:02}": reply for n, reply in enumerate(HOSTILE)}
    replies |= {f"good{n:02}": GOOD[n % len(GOOD)] for n in range(len(HOSTILE))}
    items = [
        item
        for name in sorted(replies, key=lambda name: (name[-2:], name))
        for item in items_of(GROUNDEDNESS, ("One.", "Two."), ("a text",), name)
    ]
    write = lambda text: replies[re.findall(r"question (\S+)", text)[0]]  # noqa: E731
    with serving(write) as server:
        asking = Completions(model(server, retries=0), ReplyStore(tmp_path))
        session = ModelSession(lambda _n, _name: nullcontext(asking))
        verdicts = LlmJudge(type="llm").verdicts(items, session)
    for item, verdict in zip(items, verdicts, strict=True):
        bad = item.query_id.startswith("bad")
        expected = (None, UNPARSED) if bad else ({1: 2, 2: 0}[item.number], None)
        assert (verdict.grade, verdict.problem) == expected
    # Each is asked once more, and no other.
    assert sum(one.body["seed"] == 1 for one in server.received) == len(HOSTILE)


def test_words_grade_claims_in_thirds_and_halves() -> None:
    judge = WordsJudge(type="words")
    session = ModelSession(lambda _n, _name: pytest.fail("no model is asked"))
    text = ("red green blue",)
    claims = ("red green blue", "red green black", "white gray blue", "white gray black")
    grounded = items_of(GROUNDEDNESS, claims, text)
    # The fraction of its words that the text has: 3/3, 2/3, 1/3 and 0.
    assert [v.grade for v in judge.verdicts(grounded, session)] == [2, 2, 1, 0]
    relevant = items_of(ANSWER_RELEVANCE, ("question of another", "no"))
    assert [v.grade for v in judge.verdicts(relevant, session)] == [1, 0]


@pytest.fixture(scope="module")
def evaluated(
    tmp_path_factory: pytest.TempPathFactory, computed_answers: Tiny
) -> Iterator[Evaluated]:
    """Answers in a file to contexts of BM25, and a judge of their claims."""
    judge = {"type": "llm", "llm": "small", "judges": ["groundedness", "answer_relevance"]}
    changes: dict[str, Any] = {
        "answers": {"read": {"generator": "predicted", "retriever": "bm25", "top_k": [5]}},
        "judges": {"strict": judge},
        "predictions": ANSWERS_OF,
    }
    root = tmp_path_factory.mktemp("claims")
    with evaluating(root, computed_answers, says_of_claims, **changes) as made:
        made.tiny.snapshot()
        yield made


def says_of_claims(text: str) -> str:
    """Find a claim supported that says a number, and to the question unless it is about cats."""
    lines = re.findall(r"^<[0-9a-f]{32}> \[\d+\]\n(.*)$", text[text.index("laim") :], re.M)
    grades = [(2 if re.search(r"\d", line) else 1) for line in lines]
    if "n being 0 or 1," in text:
        grades = [int("Cats" not in line) for line in lines]
    return "\n".join(f"##claim {n}: {grade}" for n, grade in enumerate(grades, 1))


def test_what_is_asked_counted_and_shown(
    evaluated: Evaluated, judged: Tiny, server: Server
) -> None:
    (line,) = evaluated.plan.outgoing
    # Two answers that say anything, for each of which two things are asked.
    assert (line.requests or 0) >= evaluated.n_asked == 4
    assert planned(judged).outgoing == ()
    assert asked(judged, server) == 0
    rows = {(r["query_id"], r["kind"], r["claim"]): r["grade"] for r in judged.rows(CLAIMS_OF)}
    assert rows == {
        ("q1", "groundedness", 1): 2,
        ("q1", "groundedness", 2): 1,
        ("q1", "answer_relevance", 1): 1,
        ("q1", "answer_relevance", 2): 0,
        ("q2", "groundedness", 1): 1,
        ("q2", "answer_relevance", 1): 1,
    }
    means = {row["metric"]: row for row in judged.rows(MEANS) if row["split"] == "test"}
    means = means or {row["metric"]: row for row in judged.rows(MEANS)}
    n = means["groundedness"]["n"]
    # q1 has (1 + 1/2) / 2 and q2 has 1/2; the other answers failed or are blank.
    assert means["groundedness"]["judge"] == pytest.approx((0.75 + 0.5) / n)
    assert means["answer_relevance"]["judge"] == pytest.approx((0.5 + 1) / n)
    said = judged.command("leaderboard", ".", columns=120).stdout
    for metric, row in means.items():
        assert (row["calibrated"], row["low"], row["n_labels"]) == (None, None, 0)
        assert row["reason"].startswith("no claim of a drawn question is labelled; `rag-assets j")
        assert f"{metric} by strict (small), {n} questions" in said
    assert "not calibrated with labels: the model's raw output, which no gate uses" in said
    for words in (("--metric", "groundedness"), ("--at-least", "groundedness=0")):
        refused = judged.command("gate", ".", "--against", "previous", *words)
        assert refused.exit_code not in (0, 1), refused.stdout


def test_only_what_is_new_is_asked(judged: Tiny, server: Server) -> None:
    # Another k1: contexts that changed alone; relevance does not depend on them.
    contexts = {row["context"] for row in judged.rows(CLAIMS_OF)}
    judged.configure("bm25", k1=0.1, b=1.0)
    judged.replace("fares.md", "40 crowns", "45 crowns")
    n_asked = asked(judged, server)
    assert n_asked == len({row["context"] for row in judged.rows(CLAIMS_OF)} - contexts)
    # Another sentence in one answer: it is judged anew, and no other.
    write_predictions(judged, {**ANSWERS_OF, "q2": "It closes in the wind. It is cold."})
    (line,) = planned(judged).outgoing
    assert (line.requests or 0) >= asked(judged, server) == 2
    # Names of retrievers and answerers ask nothing.
    judged.config["answers"] = {"other": judged.config["answers"]["read"]}
    judged.write_config()
    assert asked(judged, server) == 0


def test_a_context_that_is_not_known_is_not_judged(judged: Tiny, server: Server) -> None:
    judged.config["answers"] = {"alone": {"generator": "predicted"}}
    judged.write_config()
    assert asked(judged, server) == 0
    assert {row["kind"] for row in judged.rows(CLAIMS_OF)} == {"answer_relevance"}
    (line,) = judge_and_question_warnings(judged.pipeline().experiment)
    assert line.startswith("judge strict judges no groundedness: no answerer has contexts that")


def test_from_a_sheet_of_claims_to_a_calibrated_mean(judged: Tiny, server: Server) -> None:
    sheet = judged.folder / "claim_labels.csv"
    words = ("judge", "sheet", ".", "--claims", "--questions", "100", "--out", str(sheet))
    assert "6 claims of " in judged.command(*words).output
    rows = sheet_rows(sheet)
    assert [*rows[0]] == list(CLAIMS.columns)
    assert not {"read", "bm25"} & {cell for row in rows for cell in row.values()}
    for row in rows:
        row["grade"] = "0" if "Cats" in row["claim"] else "1.0"
    write_sheet(sheet, rows)
    assert asked(judged, server) == 0
    means = {row["metric"]: row for row in judged.rows(MEANS)}
    n = means["groundedness"]["n_labels"]
    assert n == 6
    assert means["groundedness"]["human"] == pytest.approx((0.25 + 0.5) / n)
    assert means["answer_relevance"]["human"] == pytest.approx((0.5 + 1) / n)
    assert means["answer_relevance"]["calibrated"] is not None
    # A larger sheet has the labels; a claim that changed has none, so nothing is calibrated.
    assert "0 claims of " in judged.command(*words).output
    write_predictions(judged, {**ANSWERS_OF, "q2": "It does not close."})
    judged.run()
    (reason,) = {row["reason"] for row in judged.rows(MEANS)}
    assert reason.startswith("1 drawn question has a claim without a label; `rag-assets judge")
    assert "2 claims of " in judged.command(*words).output
    assert len(read_claim_labels(sheet)) == 6
    rows[0]["grade"] = "7"
    write_sheet(sheet, rows)
    refused = judged.command("evaluate", ".")
    assert refused.exit_code != 0
    assert "claim_labels.csv:2: `grade`: is '7'; must be 0 to " in refused.stderr


def test_a_check_compares_claims_with_people(judged: Tiny, server: Server) -> None:
    untested = judged.command("judge", "check", ".")
    assert untested.exit_code == 3
    assert "no labels of people" in untested.stderr
    sheet = judged.folder / "claim_labels.csv"
    judged.command("judge", "sheet", ".", "--claims", "--out", str(sheet))
    rows = sheet_rows(sheet)
    for row in rows:
        row["grade"] = "?" if "wind" in row["claim"] else "0" if "Cats" in row["claim"] else "1"
    write_sheet(sheet, rows)
    judged.run()
    judged.snapshot()
    checked = judged.command("judge", "check", ".", "--format", "json")
    assert checked.exit_code in (0, 1), checked.output
    (check,) = json.loads(checked.stdout)
    # One of two says a number, which the judge takes for full support and people for partial.
    assert {kind["kind"]: kind["agreement"]["table"] for kind in check["kinds"]} == {
        "groundedness": [[0, 1, 0], [0, 0, 1], [0, 0, 0]],
        "answer_relevance": [[1, 0], [0, 1]],
    }
    assert [kind["youden"] for kind in check["kinds"]] == [None, 1.0]
    assert check["passed"]
    shown = judged.command("judge", "check", ".").stdout
    assert "agreement: pass, 1.00 above chance" in shown
    assert "claims are compared with" in shown
    names = [kept["judge"] for kept in kept_checks(EvaluationResult.current(judged.artifacts))]
    assert names == ["strict"]


@pytest.mark.real_data
def test_the_interval_covers_on_published_answers(shared_data: Callable[[str], Path]) -> None:
    """SQuAD: an answer has two claims, those of two systems; a judge that is lenient.

    People say what the official script says of each: an exact match is full support.
    """
    data = shared_data("squad_predictions").parent
    golds = read_golds(shared_data("squad_dev_v2") / "dev-v2.0.rebuilt.json")
    answerable = [query_id for query_id, texts in golds.items() if texts]
    rng = np.random.default_rng(0)
    truth: dict[str, list[int]] = {query_id: [] for query_id in answerable}
    for system in ("bert", "nlnet"):
        rows = read_answers(data / "squad_predictions" / f"{system}.json")
        predictions = {query_id: row["answer"] for query_id, row in rows.items()}
        exact = official_scores(golds, predictions).per_question
        for query_id in answerable:
            truth[query_id].append(2 * int(exact[query_id][0]))
    claims = [
        item
        for query_id in answerable
        for item in items_of(GROUNDEDNESS, ("A.", "B."), (), query_id)
    ]
    grades = {item.place: truth[item.query_id][item.number - 1] for item in claims}
    # Of what is supported a twentieth is called not, of what is not three tenths are called so.
    errs = {place: rng.random() < (0.05 if grade else 0.3) for place, grade in grades.items()}
    verdicts = {place: 2 - grade if errs[place] else grade for place, grade in grades.items()}
    base: dict[str, Any] = dict.fromkeys(ANSWERS.arrow().names)
    answers = ANSWERS.from_rows([{**base, "query_id": q, "answer": "A. B."} for q in answerable])
    by_judge, by_people = (
        np.array(judged_claims(answers, claims, said, {})["verdict"].to_pylist())
        for said in (verdicts, grades)
    )
    n, mean = len(answerable), by_people.mean()
    assert abs(by_judge.mean() - mean) > 0.02  # uncalibrated, it is off
    ids = tuple(answerable)
    covered = 0
    for _ in range(2000):
        drawn = np.zeros(n, np.bool_)
        drawn[rng.choice(n, 200, replace=False)] = True
        sample = Sample(Counted("all", ids, np.ones(n), ids), drawn)
        row = estimated_row(calibrated_mean, sample, by_judge, by_people, ~drawn, 0.95)
        covered += row["low"] <= mean <= row["high"]
    assert covered >= 0.94 * 2000
