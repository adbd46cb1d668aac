"""Judges without a model: recorded verdicts, their export, and words in common."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rag_assets.cli import main
from rag_assets.errors import DataError
from rag_assets.judges.base import (
    CORRECTNESS,
    GROUNDEDNESS,
    RELEVANCE,
    UNPARSED,
    ClaimItem,
    CorrectnessItem,
    Item,
    RelevanceItem,
    Verdict,
    item_digest,
)
from rag_assets.judges.registry import ABSENT, EDITED, RecordedJudge, WordsJudge
from rag_assets.judges.verdicts_stage import verdicts_key
from rag_assets.llm.completions import ModelSession
from rag_assets.schemas import CLAIM_VERDICTS
from rag_assets.store.artifacts import ArtifactKey
from tests.judges.judged_experiment import Evaluated, evaluating
from tests.llm.server import Server
from tests.tiny_experiment import Tiny

DOG = RelevanceItem("q1", "what does a dog cost", "fares.md", 0, 20, "A dog costs 10 crowns.")
FOAM = RelevanceItem("q1", "what does a dog cost", "fire.md", 5, 9, "Foam.")
RIGHT = CorrectnessItem("q1", "what does a dog cost", "10 crowns", ("10 crowns", "ten crowns"))

OF_ANSWER = (
    "A dog costs 10. Cats pay.",
    ("A dog costs 10 crowns.",),
    ("A dog costs 10.", "Cats pay."),
)
CLAIMS = [ClaimItem(GROUNDEDNESS, "q1", "what does a dog cost", *OF_ANSWER, n) for n in (1, 2)]


def no_model(n: int, name: object) -> Any:
    raise AssertionError("no model is asked")


def verdicts_of(judge: WordsJudge | RecordedJudge, *items: Item) -> list[Verdict]:
    return list(judge.verdicts(items, ModelSession(no_model)))


def recorded(folder: Path, *rows: dict[str, Any]) -> RecordedJudge:
    file = folder / "verdicts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return RecordedJudge(type="recorded", path=file)


def of_dog(**row: Any) -> dict[str, Any]:
    return {"query_id": "q1", "document_id": "fares.md", "start": 0, "end": 20, **row}


def test_replies_and_grades_that_are_read_again(tmp_path: Path) -> None:
    judge = recorded(
        tmp_path,
        of_dog(reply="It names the price.\n##final score: 3", grade=1),
        {"query_id": "q1", "answer": "10 crowns", "reply": "##final score: 1", "correct": True},
    )
    assert verdicts_of(judge, DOG, FOAM) == [Verdict(3, None, "line 1"), Verdict(None, ABSENT)]
    assert verdicts_of(judge, RIGHT) == [Verdict(1, None, "line 2")]
    rows = [of_dog(grade=2), {"query_id": "q1", "answer": "10 crowns", "correct": False}]
    assert verdicts_of(recorded(tmp_path, *rows), DOG) == [Verdict(2)]
    assert verdicts_of(recorded(tmp_path, *rows), RIGHT) == [Verdict(0)]
    judge = recorded(tmp_path, of_dog(grade=None, problem="timed out"))
    assert verdicts_of(judge, DOG) == [Verdict(None, "timed out")]
    judge = recorded(tmp_path, of_dog(reply="I cannot say", grade=0))
    assert verdicts_of(judge, DOG) == [Verdict(None, UNPARSED, "line 1")]
    scale = {"query_id": "q1", "answer": "10 crowns", "reply": "##final score: 2"}
    assert verdicts_of(recorded(tmp_path, scale), RIGHT) == [Verdict(None, UNPARSED, "line 1")]


def of_claim(number: int, **row: Any) -> dict[str, Any]:
    return dict(zip(CLAIM_VERDICTS.key, CLAIMS[number - 1].place, strict=True)) | row


def test_claims_that_are_read_again(tmp_path: Path) -> None:
    """A reply holds the verdicts on all claims of an answer; none where it lacks a line."""
    reply = "##claim 1: 2\n##claim 2: 1"
    rows = [of_claim(number, reply=reply, digest=item_digest(CLAIMS[0])) for number in (1, 2)]
    judge = recorded(tmp_path, *rows)
    assert verdicts_of(judge, *CLAIMS) == [Verdict(2, None, "line 1"), Verdict(1, None, "line 2")]
    edited = CLAIMS[0]._replace(question="and a cat?")
    assert verdicts_of(judge, edited) == [Verdict(None, EDITED)]
    other = CLAIMS[0]._replace(contexts=("Another.",))
    assert verdicts_of(judge, other) == [Verdict(None, ABSENT)]
    judge = recorded(tmp_path, of_claim(1, reply="##claim 1: 2"), of_claim(2, grade=0))
    assert verdicts_of(judge, *CLAIMS) == [Verdict(None, UNPARSED, "line 1"), Verdict(0)]


def test_edited_texts_and_items_that_stand_twice(tmp_path: Path) -> None:
    judge = recorded(tmp_path, of_dog(grade=3, digest=item_digest(DOG)))
    edited = DOG._replace(text="A dog costs 12 crowns.")
    assert verdicts_of(judge, DOG) == [Verdict(3)]
    assert verdicts_of(judge, edited) == [Verdict(None, EDITED)]
    assert verdicts_of(judge, DOG._replace(question="and a cat?")) == [Verdict(None, EDITED)]
    with pytest.raises(DataError, match=r"jsonl:2: `query_id`: was already judged on line 1"):
        verdicts_of(recorded(tmp_path, of_dog(grade=1), of_dog(grade=1)), DOG)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"query_id": "q1"}, "`document_id`: is missing, and so is `answer`"),
        (of_dog(), "`reply`: is missing, and so is `grade`"),
        ({"query_id": "q1", "answer": "x"}, "`reply`: is missing, and so is `correct`"),
        (of_dog(grade=4), "`grade`: is 4; must be an integer from 0 to 3, or null"),
        (of_dog(grade=True), "`grade`: is a boolean; must be an integer from 0 to 3"),
        (of_dog(grade=0, start=-1), "`start`: is -1; must be an integer from 0 on"),
        (of_dog(grade=0, start=21), "`end`: is 20, before its start 21"),
        ({"query_id": "q1", "answer": "x", "correct": 1}, "must be true, false or null"),
        ({"query_id": "q1", "answer": 3, "correct": True}, "`answer`: is 3; must be a string"),
        (of_claim(1), "`reply`: is missing, and so is `grade`"),
        (of_claim(1, grade=3), "`grade`: is 3; must be at most 2 for groundedness"),
        (of_claim(1, grade=1, kind="relevance"), "must be groundedness or answer_relevance"),
        ({"query_id": "q1", "answer": "x", "claim": 1, "grade": 1}, "`kind`: is missing; must be"),
    ],
)
def test_what_breaks_the_format_is_named(tmp_path: Path, row: dict[str, Any], problem: str) -> None:
    judge = recorded(tmp_path, of_dog(grade=1, start=1), row)
    with pytest.raises(DataError) as error:
        verdicts_of(judge, DOG)
    assert "verdicts.jsonl:2: " in str(error.value)
    assert problem in str(error.value)


def test_words_grade_by_quarters_of_the_question() -> None:
    judge, question = WordsJudge(type="words"), "red green blue gold"
    passages = ["grey", "red", "red Green", "Red, green, blue!", "gold red green blue"]
    items = [RelevanceItem("q", question, "d", 0, 1, passage) for passage in passages]
    assert [verdict.grade for verdict in verdicts_of(judge, *items)] == [0, 1, 2, 3, 3]
    assert verdicts_of(judge, items[0]._replace(question="the ?")) == [Verdict(0)]


def test_words_cannot_tell_a_number_or_a_negation_from_a_word() -> None:
    judge = WordsJudge(type="words")
    gold = ("it leaves at nine in the evening",)
    answers = {
        "at nine in the evening": 1,
        "it leaves at ten in the evening": 1,
        "it leaves not at nine in the evening": 1,
        "from the southern harbour": 0,
        "": 0,
    }
    items = [CorrectnessItem("q", "when", answer, gold) for answer in answers]
    assert [one.grade for one in verdicts_of(judge, *items)] == list(answers.values())
    strict = WordsJudge(type="words", right=1.0)
    assert [one.grade for one in verdicts_of(strict, *items)] == [0, 0, 0, 0, 0]
    chinese = CorrectnessItem("q", "?", "十克朗", ("十克朗", "10"))
    assert verdicts_of(WordsJudge(type="words", language="cjk"), chinese) == [Verdict(1)]


KINDS = {"strict": [RELEVANCE, CORRECTNESS], "floor": [RELEVANCE, CORRECTNESS, GROUNDEDNESS]}


@pytest.fixture(scope="module")
def evaluated(
    tmp_path_factory: pytest.TempPathFactory, computed_answers: Tiny
) -> Iterator[Evaluated]:
    def write(text: str) -> str:
        return f"It says {len(text)}.\n##final score: {len(text) % 2}"

    changes: dict[str, Any] = {
        "judges": {
            "strict": {"type": "llm", "llm": "small", "judges": KINDS["strict"]},
            "floor": {"type": "words", "judges": KINDS["floor"]},
        },
        "answers": {"read": {"generator": "predicted", "retriever": "bm25", "top_k": [5]}},
        "unread": "southern harbour",
    }
    with evaluating(tmp_path_factory.mktemp("made"), computed_answers, write, **changes) as made:
        yield made


def export(tiny: Tiny, judge: str, *more: str) -> tuple[Path, str, int]:
    out = tiny.folder / f"{judge}.jsonl"
    done = tiny.command("judge", "export", ".", "--judge", judge, "--out", str(out), *more)
    return out, done.output, done.exit_code


def grades(tiny: Tiny, judge: str) -> list[dict[str, Any]]:
    keys = [verdicts_key(kind, judge) for kind in KINDS[judge.removeprefix("again-")]]
    rows = [row for key in keys for row in tiny.rows(key)]
    assert len({tuple(row) for row in rows}) == len(keys), "a table of each kind"
    return [{name: row[name] for name in row if name != "reply"} for row in rows]


def test_a_recorded_judge_says_what_the_file_says(judged: Tiny, server: Server) -> None:
    for judge in ("strict", "floor"):
        out, output, code = export(judged, judge)
        lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        assert (code, output) == (0, f"{out}: {len(lines)} verdicts of {judge}\n")
        assert all("reply" in line for line in lines) is (judge == "strict")
        recorded = {"type": "recorded", "path": out.name, "judges": KINDS[judge]}
        judged.config["judges"][f"again-{judge}"] = recorded
    judged.write_config()
    asked = len(server.received)
    judged.run()
    assert len(server.received) == asked
    for judge in ("strict", "floor"):
        assert grades(judged, f"again-{judge}") == grades(judged, judge)
    assert {one["problem"] for one in grades(judged, "again-strict")} == {None, "unparsed"}
    judged.replace("fares.md", "40 crowns", "45 crowns")
    judged.run()
    for judge in ("strict", "floor"):
        problems = [one["problem"] for one in grades(judged, f"again-{judge}")]
        assert "recorded of another text" in problems


def test_what_cannot_be_exported_is_said(judged: Tiny) -> None:
    assert "--judge: unknown judge 'strct' (did you mean 'strict'?)" in export(judged, "strct")[1]
    out, _, _ = export(judged, "floor")
    judged.config["judges"] = {"again": {"type": "recorded", "path": out.name}}
    judged.write_config()
    assert f"the verdicts of 'again' are recorded: {out}" in export(judged, "again")[1]
    judged.config["judges"] = {"late": {"type": "words", "right": 0.9}}
    judged.write_config()
    _, output, code = export(judged, "late")
    assert code != 0
    assert "is out of date; run `rag-assets evaluate --store " in output


def test_verdicts_of_a_retriever_are_what_ragas_scores(judged: Tiny) -> None:
    """A question that lacks a verdict has no value in either; where nothing was found ours is 0."""
    judged.snapshot()
    for judge in ("strict", "floor"):
        labels, output, code = export(judged, judge, "--retriever", "bm25")
        lines = labels.read_text(encoding="utf-8").splitlines()
        assert (code, output) == (0, f"{labels}: {len(lines)} verdicts of {judge}\n")
        run = judged.folder / "run.trec"
        exported = judged.command("export-run", ".", "--retriever", "bm25", "--out", str(run))
        assert exported.exit_code == 0
        name = "llm_context_precision_without_reference@5"
        words = ["score", "--run", str(run), "--qrels", str(labels), "--dialect", "ragas"]
        done = CliRunner().invoke(main, [*words, "--metrics", name, "--format", "json"])
        (row,) = judged.rows(ArtifactKey.of("calibrated_rankings", judge=judge))
        n_found = len({json.loads(line)["query_id"] for line in lines})
        share = n_found / (row["n"] - row["n_missing"])
        assert json.loads(done.stdout)[name] * share == pytest.approx(row["judge"], abs=1e-9)
        assert (row["metric"], row["calibrated"]) == ("context_precision@5", None)
        assert (row["n_missing"] > 0) is (judge == "strict")
    assert "--retriever: unknown 'bm52'" in export(judged, "floor", "--retriever", "bm52")[1]
