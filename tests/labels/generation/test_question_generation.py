"""Generated questions: what is kept, the sheet, and the dataset folder."""

from __future__ import annotations

import json
from pathlib import Path

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
from tests.labels.health.tables import chunks, documents
from tests.llm import server as replies
from tests.llm.requests import model
from tests.llm.server import Server
from tests.made_tables import sheet_rows, write_sheet

TEXT = "Ann Lee built the mill at Brook in 1812. =SUM is a function. The end, the end."
MILL, SUM, END = "d#0-40", "d#41-60", "d#61-79"


FACTS = documents({"d": TEXT}, title="Facts")
SPANS = [(0, 40), (41, 60), (61, 79), (40, 41)]
"""Three sentences, and what is blank."""
CHUNKS = chunks({"d": TEXT}, {"d": SPANS}, title="Facts")


def asked(*pairs: tuple[str, str]) -> replies.Reply:
    return replies.says(json.dumps([{"question": q, "answer": a} for q, a in pairs]))


def generated(server: Server, folder: Path, n: int = 3) -> GeneratedQuestions:
    asking = Completions(model(server, retries=0), ReplyStore(folder))
    options = QuestionOptions(n=n, language="English")
    return generate_questions(options.chosen_chunks(CHUNKS), options, asking)


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
    place = {"chunk_id": MILL, "document_id": "d", "start": 0, "end": 40}
    asked = {"text": "Who built the mill in Brook?", "answer": "Ann Lee"}
    assert who == {"query_id": who["query_id"], **asked, **place, "source": "tiny questions/1"}
    assert (what["text"], what["answer"]) == ("@SUM or =SUM: what is a function?", None)
    assert who["query_id"] != what["query_id"]
    assert found.counts == {"too_short": 2, "near_duplicate": 1}
    assert found.failures == {END: "the model refused: No."}
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
    sheet = review_sheet(found.questions, FACTS)
    assert "'@SUM or =SUM" in sheet  # no formula
    file = tmp_path / "review.csv"
    assert read_review(fill(sheet, ["Yes", "x"], {}, file), FACTS).questions.equals(found.questions)
    better = read_review(fill(sheet, ["n", "y "], {1: "What is  @SUM?"}, file), FACTS)
    assert better.questions.column("text").to_pylist() == ["What is @SUM?"]
    assert better.questions.column("query_id")[0] == found.questions.column("query_id")[1]
    assert (better.n_refused, better.n_open) == (1, 0)
    unread = read_review(fill(sheet, ["", ""], {}, file), FACTS)
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
    file = fill(review_sheet(found.questions, FACTS), ["yes", "yes"], {}, tmp_path / "a.csv")
    rows = sheet_rows(file)
    rows[1] |= change
    write_sheet(file, rows)
    with pytest.raises(DataError, match=problem):
        read_review(file, FACTS)


def test_a_quote_may_have_other_line_ends_and_be_cut_as_cells_are(tmp_path: Path) -> None:
    text, file = "word\n" * 10_000, tmp_path / "a.csv"
    place = {"chunk_id": "d", "document_id": "d", "start": 0, "end": len(text)}
    asked = {"query_id": "q", "text": "Which word is it?", "answer": None, "source": "m"}
    questions, corpus = QUESTIONS.from_rows([{**place, **asked}]), documents({"d": text})
    (row,) = sheet_rows(review_sheet(questions, corpus))
    quote = row["quote"].replace("\n", "\r\n")[:32_767]
    write_sheet(file, [{**row, "keep": "yes", "quote": quote}])
    assert read_review(file, corpus).questions.equals(questions)


def test_chosen_chunks() -> None:
    def ids(**options: int) -> tuple[str, ...]:
        chosen = QuestionOptions.model_validate(options).chosen_chunks(CHUNKS)
        return tuple(chosen.column("chunk_id").to_pylist())

    assert ids() == (MILL, SUM, END)
    drawn = {ids(chunks=2, seed=seed) for seed in range(20)}
    assert drawn == {(MILL, SUM), (MILL, END), (SUM, END)}
    requests = question_requests(CHUNKS, QuestionOptions())
    assert [request.template for request in requests] == ["questions/1"] * 4


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ('[{"question": "Who?", "answer": "a"}]', [("Who?", "a")]),
        ('```json\n{"question": "Who?"}\n{"question": " "}\n```', [("Who?", None)]),
        ('[{"question": "Who?", "answer": 3}, {"question": "W', [("Who?", None)]),
        ('{"questions": [{"query": "Who\\n is?"}]}', [("Who is?", None)]),
        ("1. Who?\n2. Why?\n3. When?", [("Who?", None), ("Why?", None)]),
        ('["Who?"]', [("Who?", None)]),
        *((text, []) for text in ('[{"answer": "a"}]', "{]", '[{"question": 3}]', '{"question"')),
    ],
)
def test_parsed_questions(text: str, questions: list[tuple[str, str | None]]) -> None:
    none = Unusable("the answer holds no question")
    expected = [Question(*pair) for pair in questions] or none
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
        ("Ποιος έχτισε τον μύλο GPT-4;»", None, None),
        ("Ann Lee έχτισε τον μύλο.", None, filters.NOT_A_QUESTION),
        ("The mill was built in 1812;", None, filters.NOT_A_QUESTION),
        ("Ինչո՞ւ է ջրաղացը կառուցվել\u0589", None, None),
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
