"""Generated questions: what is kept, the sheet, and the dataset folder."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError
from rag_assets.labels import questions_stage as filters
from rag_assets.labels.questions import QUESTIONS, QuestionOptions, read_review, review_sheet
from rag_assets.labels.questions_stage import (
    GeneratedQuestions,
    Question,
    contains_words,
    copied_share,
    fault,
    generate_questions,
    near_earlier,
    parsed_questions,
    question_requests,
    question_words,
)
from rag_assets.llm.client import Completion
from rag_assets.llm.completions import Completions
from rag_assets.llm.replies import ReplyStore
from rag_assets.query_sets.model_output import Unusable
from rag_assets.schemas import CHUNKS, DOCUMENTS
from tests.llm import server as replies
from tests.llm.requests import model
from tests.llm.server import Server
from tests.made_tables import sheet_rows, write_sheet

TEXT = "Ann Lee built the mill at Brook in 1812. =SUM is a function. The end, the end."
SPANS = {"mill": (0, 40), "sum": (41, 60), "end": (61, 79)}


def documents() -> pa.Table:
    return DOCUMENTS.from_rows(
        [{"document_id": "d", "title": "Facts", "text": TEXT, "metadata": "{}"}]
    )


def chunks() -> pa.Table:
    rows: list[dict[str, object]] = [
        {
            "chunk_id": name,
            "document_id": "d",
            "start": start,
            "end": end,
            "title": "Facts",
            "text": TEXT[start:end],
            "heading_path": "",
        }
        for name, (start, end) in SPANS.items()
    ]
    blank = {"chunk_id": "blank", "start": 40, "end": 41, "text": " "}
    return CHUNKS.from_rows([*rows, {**rows[0], **blank}])


def asked(*pairs: tuple[str, str]) -> replies.Reply:
    return replies.says(json.dumps([{"question": q, "answer": a} for q, a in pairs]))


def generated(server: Server, folder: Path, n: int = 3) -> GeneratedQuestions:
    asking = Completions(model(server, retries=0), ReplyStore(folder))
    options = QuestionOptions(n=n, language="English")
    return generate_questions(options.chosen_chunks(chunks()), options, asking)


@pytest.fixture
def found(server: Server, tmp_path: Path) -> GeneratedQuestions:
    mill = [("Who built the mill in Brook?", "Ann Lee"), ("Who built it?", "Ann"), ("Which?", "x")]
    server.on("Ann Lee", asked(*mill))
    sums = [("@SUM or =SUM: what is a function?", ""), ("Who built the mill in Brook ?", "A. Lee")]
    server.on("=SUM", asked(*sums))
    server.on("the end", replies.refuses("No."))
    return generated(server, tmp_path / "cache")


def test_questions_have_the_span_of_their_chunk(found: GeneratedQuestions, server: Server) -> None:
    who, what = found.questions.to_pylist()
    assert {**who, "query_id": ""} == {
        "query_id": "",
        "text": "Who built the mill in Brook?",
        "answer": "Ann Lee",
        "chunk_id": "mill",
        "document_id": "d",
        "start": 0,
        "end": 40,
        "source": "tiny questions/1",
    }
    assert (what["text"], what["answer"]) == ("@SUM or =SUM: what is a function?", None)
    assert who["query_id"] != what["query_id"]
    assert found.counts == {"too_short": 2, "near_duplicate": 1}
    assert found.failures == {"end": "the model refused: No."}
    prompt = server.received[0].text
    assert "Write 3 different questions" in prompt
    assert "Write in English." in prompt
    assert "Title: Facts" in prompt


def fill(sheet: str, verdicts: list[str], wording: dict[int, str], file: Path) -> Path:
    rows = sheet_rows(sheet)
    for number, (row, verdict) in enumerate(zip(rows, verdicts, strict=True)):
        row |= {"keep": verdict, "question": wording.get(number, row["question"])}
    write_sheet(file, rows)
    return file


def test_review(found: GeneratedQuestions, tmp_path: Path) -> None:
    sheet = review_sheet(found.questions, documents())
    assert "'@SUM or =SUM" in sheet  # no formula
    file = tmp_path / "review.csv"
    everything = read_review(fill(sheet, ["Yes", "x"], {}, file), documents())
    assert everything.questions.equals(found.questions)
    better = read_review(fill(sheet, ["n", "y "], {1: "What is  @SUM?"}, file), documents())
    assert better.questions.column("text").to_pylist() == ["What is @SUM?"]
    assert better.questions.column("query_id")[0] == found.questions.column("query_id")[1]
    assert (better.n_refused, better.n_open) == (1, 0)
    unread = read_review(fill(sheet, ["", ""], {}, file), documents())
    assert (unread.questions.num_rows, unread.n_refused, unread.n_open) == (0, 0, 2)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"keep": "maybe"}, ":3: `keep`: is 'maybe'; allowed: yes, y"),
        ({"question": " "}, ":3: `question`: is blank"),
        ({"document_id": "e"}, ":3: `document_id`: 'e' is not one of the documents"),
        ({"start": "1e3"}, ":3: `start`: is '1e3'; must be an integer from 0 on"),
        ({"end": "42"}, ":3: `quote`: is not the text of 'd' from 41 to 42"),
        ({"quote": "SUM"}, ":3: `quote`: is not the text of 'd' from 41 to 60"),
        ({"query_id": ""}, ":3: `query_id`: is ''; must be an id"),
    ],
)
def test_broken_rows(
    found: GeneratedQuestions, tmp_path: Path, change: dict[str, str], problem: str
) -> None:
    file = fill(review_sheet(found.questions, documents()), ["yes", "yes"], {}, tmp_path / "a.csv")
    rows = sheet_rows(file)
    rows[1] |= change
    write_sheet(file, rows)
    with pytest.raises(DataError, match=problem):
        read_review(file, documents())


def test_broken_sheets(found: GeneratedQuestions, tmp_path: Path) -> None:
    file = tmp_path / "review.csv"
    file.write_text("query_id,question\na,b\n")
    with pytest.raises(DataError, match=r":1: lacks the columns keep, answer, quote"):
        read_review(file, documents())
    rows = sheet_rows(review_sheet(found.questions, documents()))
    write_sheet(file, [rows[0] | {"keep": "yes"}, rows[1], rows[0] | {"keep": "no"}])
    with pytest.raises(DataError, match=r":4: `keep`: contradicts line 2"):
        read_review(file, documents())


def test_a_quote_may_have_other_line_ends_and_be_cut(tmp_path: Path) -> None:
    text = "word\n" * 10_000
    one = DOCUMENTS.from_rows([{"document_id": "d", "title": "", "text": text, "metadata": "{}"}])
    row = {"query_id": "q", "text": "Which word is it?", "answer": None, "chunk_id": "d"}
    span = {"document_id": "d", "start": 0, "end": len(text), "source": "m"}
    questions = QUESTIONS.from_rows([{**row, **span}])
    rows = sheet_rows(review_sheet(questions, one))
    assert len(rows[0]["quote"]) <= 32_767  # what a cell takes
    rows[0] |= {"keep": "yes", "quote": rows[0]["quote"].replace("\n", "\r\n")[:32_767]}
    write_sheet(tmp_path / "a.csv", rows)
    assert read_review(tmp_path / "a.csv", one).questions.equals(questions)
    rows[0]["quote"] = rows[0]["quote"][:31_000]
    write_sheet(tmp_path / "a.csv", rows)
    with pytest.raises(DataError, match="`quote`"):
        read_review(tmp_path / "a.csv", one)


def test_chosen_chunks() -> None:
    def ids(**options: int) -> tuple[str, ...]:
        chosen = QuestionOptions.model_validate(options).chosen_chunks(chunks())
        return tuple(chosen.column("chunk_id").to_pylist())

    assert ids() == ("mill", "sum", "end")
    drawn = {ids(chunks=2, seed=seed) for seed in range(20)}
    assert drawn == {("mill", "sum"), ("mill", "end"), ("sum", "end")}
    requests = question_requests(chunks(), QuestionOptions())
    assert [request.template for request in requests] == ["questions/1"] * 4


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        (
            '[{"question": "Who?", "answer": "a"}, {"question": "Why?"}]',
            [("Who?", "a"), ("Why?", None)],
        ),
        ('```json\n{"question": "Who?"}\n{"question": " "}\n```', [("Who?", None)]),
        ('[{"question": "Who?", "answer": 3}, {"question": "W', [("Who?", None)]),
        ('{"questions": [{"query": "Who\\n is?"}]}', [("Who is?", None)]),
        ("1. Who?\n2. Why?\n3. When?", [("Who?", None), ("Why?", None)]),
        ('["Who?"]', [("Who?", None)]),
    ],
)
def test_parsed_questions(text: str, questions: list[tuple[str, str | None]]) -> None:
    expected = [Question(*pair) for pair in questions]
    assert parsed_questions(Completion(text, 1, 1, "stop"), 2) == expected


@pytest.mark.parametrize("text", ['[{"answer": "a"}]', "{]", '[{"question": 3}]', '{"question"'])
def test_no_questions(text: str) -> None:
    expected = Unusable("the answer holds no question")
    assert parsed_questions(Completion(text, 1, 1, "stop"), 2) == expected


CHUNK = question_words(
    "The mill at Brook was built in 1812 by Ann Lee. Paris is the capital of France."
)


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        ("Who built the mill at Brook?", "Ann Lee", None),
        ("What is the capital of France?", "Paris", None),
        ('Who built "the mill of Brook?"', None, None),
        ("Why mills?", None, filters.TOO_SHORT),
        ("", None, filters.TOO_SHORT),
        ("Tell me who built the mill", None, filters.NOT_A_QUESTION),
        ("Paris is the capital of France?", None, filters.COPIED),
        ("The mill at Brook was built in 1812 by Ann Lee, right?", None, filters.COPIED),
        ("What did Ann Lee build in Brook?", "ann LEE", filters.ANSWER_INSIDE),
        ("Is there no mill in Paris?", "No", None),
        ("What does the text say about mills?", None, filters.ABOUT_THE_PASSAGE),
        ("According to the passage, who built the mill?", None, filters.ABOUT_THE_PASSAGE),
        ("Who built the mill mentioned in the document?", None, filters.ABOUT_THE_PASSAGE),
        ("What is the main topic of this article?", None, filters.ABOUT_THE_PASSAGE),
        ("What is the main idea of the excerpt?", None, filters.ABOUT_THE_PASSAGE),
        ("What can be said based on the information provided?", None, filters.ABOUT_THE_PASSAGE),
        ("How is the document management system started?", None, None),
        ("Which text editor did Ann Lee use?", None, None),
        ("Who is the author of Middlemarch?", None, None),
        ("磨坊是谁建造的\uff1f", "安", None),
        ("文中提到的磨坊是谁建造的\uff1f", None, filters.ABOUT_THE_PASSAGE),
        ("磨坊\uff1f", None, filters.TOO_SHORT),
    ],
)
def test_faults(question: str, answer: str | None, reason: str | None) -> None:
    assert fault(question, answer, CHUNK, QuestionOptions()) == reason


def test_bounds_and_runs_of_words() -> None:
    assert fault("Why mills?", None, CHUNK, QuestionOptions(min_words=2)) is None
    copied = "Paris is the capital of France?"
    assert fault(copied, None, CHUNK, QuestionOptions(max_copied=1.0)) is None
    asked = "What is the capital of France?"
    assert fault(asked, None, CHUNK, QuestionOptions(max_copied=0.5)) == filters.COPIED
    text = ["a", "b", "c", "d", "e"]
    assert copied_share(["b", "c", "d", "x"], text, 3) == 0.5
    assert copied_share(["b", "c"], text, 3) == 0.0
    assert contains_words(text, ["d", "e"])
    assert not contains_words(text, ["d", "c"])
    assert not contains_words(text, [])


WORDS = st.frozensets(st.sampled_from("abcdefgh"), max_size=7)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=9), st.sampled_from([0.3, 0.5, 2 / 3, 0.7, 0.8, 1.0]))
def test_the_earliest_that_is_alike_is_named(asked: list[frozenset[str]], threshold: float) -> None:
    expected: dict[int, int] = {}
    for number, words in enumerate(asked):
        for earlier in (n for n in range(number) if n not in expected):
            shared = len(words & asked[earlier])
            union = len(words | asked[earlier])
            if words and shared >= threshold * union:
                expected[number] = earlier
                break
    assert near_earlier(asked, threshold) == expected
