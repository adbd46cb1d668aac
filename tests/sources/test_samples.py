"""Files of samples as other tools write them, alone and beside the documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rag_assets.errors import DataError
from rag_assets.schemas import column_values
from rag_assets.sources import open_dataset
from rag_assets.sources.dataset import FIRST
from rag_assets.sources.formats import with_columns
from rag_assets.sources.sample_layouts import LAYOUTS
from rag_assets.sources.samples import read_samples
from tests.sources.files import ReadAll, Write, csv_text, json_lines, parquet

SharedData = Callable[[str], Path]

DOG, STORM = "A dog needs a ticket of 10 crowns.", "In a storm the southern harbour closes."
OPEN = "The northern harbour opens at six."
ASKED = ("what does a dog pay", "which harbour closes")
ANSWERS = ("10 crowns", "the southern one")
DOCUMENTS = {
    "fares.md": f"# Fares\n\nNo fare today.\n{DOG}\n",
    "harbours.md": f"# Harbours\n\n{OPEN}\n{STORM}\n",
}


def samples(**keys: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(keys, values, strict=True)) for values in zip(*keys.values(), strict=True)]


KIND = "single_hop_specific_query_synthesizer"
RAGAS = samples(
    user_input=[*ASKED],
    reference_contexts=[[DOG], [f"<1-hop>\n\n{STORM}"]],
    reference=[*ANSWERS],
    synthesizer_name=[KIND, "multi_hop_query_synthesizer"],
)
DEEPEVAL = samples(
    input=[*ASKED],
    actual_output=[None, None],
    expected_output=[*ANSWERS],
    context=[[DOG], [STORM]],
    source_file=["fares.md", "harbours.md"],
)
ANSWERED = samples(question=[*ASKED], answer=[*ANSWERS])
MUSIQUE = [
    {
        **ANSWERED[number],
        "id": f"2hop__{number}",
        "paragraphs": [
            {"idx": 0, "title": "Fares", "paragraph_text": DOG, "is_supporting": number == 0},
            {"idx": 1, "title": "Harbours", "paragraph_text": STORM, "is_supporting": number == 1},
            {"idx": 2, "title": "Harbours", "paragraph_text": OPEN, "is_supporting": False},
        ],
        "question_decomposition": [],
        "answerable": True,
    }
    for number in range(2)
]
HOTPOTQA = [
    {
        **ANSWERED[number],
        "_id": f"5a{number}",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [[("Fares", "Storms")[number], 0]],
        "context": [["Fares", [DOG[:14], DOG[14:]]], ["Storms", [STORM]], ["Hours", [OPEN]]],
    }
    for number in range(2)
]
HOTPOTQA_COLUMNS = [
    {
        **ANSWERED[number],
        "id": f"5a{number}",
        "supporting_facts": {"title": [("Fares", "Storms")[number]], "sent_id": [0]},
        "context": {"title": ["Fares", "Storms"], "sentences": [[DOG], [STORM]]},
    }
    for number in range(2)
]
FINANCEBENCH = [
    {
        **ANSWERED[number],
        "financebench_id": f"financebench_id_0{number}",
        "company": "Ferry Ltd",
        "doc_name": "FERRY_2023_10K",
        "question_type": "metrics-generated",
        "evidence": [
            {
                "evidence_text": text[:10],
                "doc_name": "FERRY_2023_10K",
                "evidence_page_num": 7 + number,
                "evidence_text_full_page": text,
            }
        ],
    }
    for number, text in enumerate((DOG, STORM))
]
MIRACL = [
    {
        "query_id": str(number),
        "query": ASKED[number],
        "positive_passages": [{"docid": f"12#{number}", "title": "Ferry", "text": text}],
        "negative_passages": [{"docid": "99#0", "title": "Hours", "text": OPEN}],
    }
    for number, text in enumerate((DOG, STORM))
]

OF_MUSIQUE = (["2hop__0", "2hop__1"], ["Fares", "Harbours"])
OF_HOTPOTQA = (["5a0", "5a1"], ["Fares", "Storms"])
UNNAMED = (["q1", "q2"], [DOG, STORM])
WITH_PASSAGES: dict[str, tuple[str, str | bytes, list[str], list[str]]] = {
    "MuSiQue": ("musique_dev.json", json.dumps(MUSIQUE), *OF_MUSIQUE),
    "MuSiQue of the paper": ("musique.jsonl", json_lines(MUSIQUE), *OF_MUSIQUE),
    "HotpotQA": ("hotpot.json", json.dumps(HOTPOTQA), *OF_HOTPOTQA),
    "HotpotQA of Hugging Face": (
        *("hotpot.parquet", parquet(pa.Table.from_pylist(HOTPOTQA_COLUMNS))),
        *OF_HOTPOTQA,
    ),
    "FinanceBench": (
        *("financebench_open_source.jsonl", json_lines(FINANCEBENCH)),
        ["financebench_id_00", "financebench_id_01"],
        ["FERRY_2023_10K/7", "FERRY_2023_10K/8"],
    ),
    "MIRACL": ("dev.jsonl", json_lines(MIRACL), ["0", "1"], ["12#0", "12#1"]),
    "Ragas": ("testset.csv", csv_text(RAGAS), *UNNAMED),
    "Ragas, JSON lines": ("testset.jsonl", json_lines(RAGAS), *UNNAMED),
    "DeepEval": ("goldens.json", json.dumps(DEEPEVAL), *UNNAMED),
    "DeepEval, CSV": (
        "goldens.csv",
        csv_text([{"": 0, **row, "context": "|".join(row["context"])} for row in DEEPEVAL]),
        *UNNAMED,
    ),
}


@pytest.mark.parametrize("name", WITH_PASSAGES)
def test_passages_are_the_documents_of_a_file_alone(
    write: Write, read_all: ReadAll, name: str
) -> None:
    file, content, ids, relevant = WITH_PASSAGES[name]
    dataset = open_dataset(write({file: content}) / file)
    assert (dataset.format, dataset.has_qrels) == ("samples", True)
    documents, queries, qrels = read_all(dataset)
    texts = dict(column_values(documents.table, "document_id", "text"))
    assert {DOG, STORM} <= {*texts.values()} <= {DOG, STORM, OPEN}
    assert queries.table["query_id"].to_pylist() == ids
    assert queries.table["text"].to_pylist() == [*ASKED]
    judged = [*column_values(qrels.table, "query_id", "document_id", "grade")]
    passages = [(query, texts[document], grade) for query, document, grade in judged]
    assert passages == [(ids[0], DOG, 1), (ids[1], STORM, 1)]
    if relevant[0] == DOG:
        assert all(len(name) == 12 for name in texts)  # digests
    else:
        assert [document for _, document, _ in judged] == relevant
    if name != "MIRACL":  # the only one without answers
        assert json.loads(queries.table["metadata"][0].as_py())["answers"] == ["10 crowns"]
    assert documents.notes == queries.notes == qrels.notes == []


PROMPTFOO = [
    {"vars": {"query": text}, "assert": [{"type": "equals", "value": answer}]}
    for text, answer in zip(ASKED, ANSWERS, strict=True)
]
QUESTIONS: dict[str, tuple[str, str]] = {
    "Ragas": ("testset.csv", csv_text(RAGAS)),
    "DeepEval": ("goldens.json", json.dumps(DEEPEVAL)),
    "promptfoo, CSV": (
        "tests.csv",
        csv_text(
            samples(
                question=[*ASKED],
                language=["en", "en"],
                __expected=[ANSWERS[0], f"contains: {ANSWERS[1]}"],
            )
        ),
    ),
    "promptfoo, JSON": ("tests.json", json.dumps(PROMPTFOO)),
    "promptfoo, YAML": (
        "tests.yaml",
        "".join(
            f"- vars:\n    question: {text}\n  assert:\n    - {{type: equals, value: {answer}}}\n"
            "    - type: llm-rubric\n      value: is polite\n"
            for text, answer in zip(ASKED, ANSWERS, strict=True)
        ),
    ),
    "promptfoo, its configuration": (
        "tests.yml",
        json.dumps({"prompts": ["{{question}}"], "tests": PROMPTFOO}),
    ),
    "LangSmith, JSON lines": (
        "dataset.jsonl",
        json_lines(
            samples(
                inputs=[{"question": text} for text in ASKED],
                outputs=[{"answer": text} for text in ANSWERS],
            )
        ),
    ),
    "LangSmith, CSV": (
        "dataset.csv",
        csv_text(samples(id=["q1", "q2"], inputs_question=[*ASKED], outputs_answer=[*ANSWERS])),
    ),
    "Phoenix, CSV": (
        "dataset.csv",
        csv_text(
            samples(
                **{"id": ["q1", "q2"], "node_id": ["x", "y"], "splits": ["[]", "[]"]},
                **{"input.question": [*ASKED], "output.answer": [*ANSWERS]},
            )
        ),
    ),
    "Phoenix, JSON lines for OpenAI": (
        "examples.jsonl",
        json_lines(
            samples(
                messages=[
                    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": q}]
                    for q in ASKED
                ],
                ideal=[*ANSWERS],
            )
        ),
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("place", ["markdown", "queries"])
def test_questions_beside_their_documents(
    write: Write, read_all: ReadAll, name: str, place: str
) -> None:
    """Under the tool's name or that of ours; passages are looked up in the documents."""
    file, content = QUESTIONS[name]
    has_labels = name in WITH_PASSAGES
    if place == "queries":
        if file.endswith(".json"):
            return  # queries are .csv or .jsonl
        file = f"queries.{file.rpartition('.')[2]}"
    dataset = open_dataset(write({**DOCUMENTS, file: content}))
    assert (dataset.format, dataset.has_qrels) == ("markdown", has_labels)
    documents, queries = dataset.read_documents(), dataset.read_queries()
    assert queries.table["query_id"].to_pylist() == ["q1", "q2"]
    assert queries.table["text"].to_pylist() == [*ASKED]
    metadata = [json.loads(text) for text in queries.table["metadata"].to_pylist()]
    assert [row["answers"] for row in metadata] == [[answer] for answer in ANSWERS]
    if not has_labels:
        return
    assert dataset.default_judge == "evidence"
    texts = dict(column_values(documents.table, "document_id", "text"))
    qrels = dataset.read_qrels(documents.table, queries.table).table
    spans = column_values(qrels, "document_id", "start", "end")
    quotes = [(name, texts[name][start:end]) for name, start, end in spans]
    assert quotes == [("fares.md", DOG), ("harbours.md", STORM)]


@pytest.mark.parametrize(
    ("name", "tags", "others"),
    [
        ("Ragas", [KIND], {"synthesizer_name": KIND}),
        ("DeepEval, CSV", [], {"source_file": "fares.md"}),
    ],
)
def test_tags_are_the_kinds_of_questions_and_the_index_of_pandas_is_no_field(
    write: Write, name: str, tags: list[str], others: dict[str, str]
) -> None:
    file, content, *_ = WITH_PASSAGES[name]
    queries = open_dataset(write({file: content}) / file).read_queries().table
    assert queries["tags"][0].as_py() == tags
    assert json.loads(queries["metadata"][0].as_py()) == {"answers": ["10 crowns"], **others}


def test_a_passage_with_other_white_space_is_found_and_one_from_nowhere_left_out(
    write: Write,
) -> None:
    rows = samples(
        user_input=[*ASKED],
        reference_contexts=[["No fare today. A dog  needs\n\na ticket", "from nowhere"], [STORM]],
        reference=[*ANSWERS],
    )
    dataset = open_dataset(
        write({**DOCUMENTS, "harbours.txt": f"{STORM} Always.", "testset.jsonl": json_lines(rows)})
    )
    documents = dataset.read_documents().table
    read = dataset.read_qrels(documents, dataset.read_queries().table)
    assert read.notes == ["1 passage is in no document, left out: q1 'from nowhere'"]
    rows = read.table.to_pylist()
    texts = {row["document_id"]: row["text"] for row in documents.to_pylist()}
    found = texts["fares.md"][rows[0]["start"] : rows[0]["end"]]
    assert found == "No fare today.\nA dog needs a ticket"
    # In two documents: alternatives of one evidence.
    others = [(row["document_id"], row["evidence_id"]) for row in rows[1:]]
    assert others == [("harbours.md", "1"), ("harbours.txt", "1")]


def test_judgments_of_people_go_first(write: Write, read_all: ReadAll) -> None:
    judgments = '{"query_id": "q1", "doc_id": "harbours.md"}\n'
    files = {**DOCUMENTS, "testset.csv": csv_text(RAGAS), "judgments.jsonl": judgments}
    dataset = open_dataset(write(files))
    assert read_all(dataset)[2].table["document_id"].to_pylist() == ["harbours.md"]
    assert dataset.default_judge == "document"


REFUSED: dict[str, tuple[str, str, str]] = {
    "other columns": (
        "mine.csv",
        "prompt,gold_passage\nwhat,that\n",
        ": a file of no known format; rows with 'prompt', 'gold_passage'; nearest: Ragas, where "
        "there is no reference, user_input; `dataset: {format: samples, columns: {query: prompt, "
        "text: gold_passage}}` reads such rows",
    ),
    "one key short": (
        "mine.json",
        json.dumps([{key: value for key, value in MUSIQUE[0].items() if key != "answer"}]),
        ": a file of no known format; rows with 'question', 'id', 'paragraphs', "
        "'question_decomposition', 'answerable'; nearest: MuSiQue, where there is no answer; "
        "`dataset: {format: samples, columns: {query: question, text: TEXT}}` reads such rows",
    ),
    "no documents": (
        "tests.csv",
        "question,__expected\nwhat,that\n",
        ": a file of no known format; questions of promptfoo without passages; put the file beside "
        "its documents",
    ),
}
TEXT_OF_7 = {"title": "T", "paragraph_text": 7, "is_supporting": True}
BAD_ROWS: dict[str, tuple[list[Any], str]] = {
    "no object": ([*MUSIQUE, 3], ": `[2]`: is 3; must be an object"),
    "a paragraph that is none": (
        [{**MUSIQUE[0], "paragraphs": ["x"]}],
        ": `[0].paragraphs[0]`: is 'x'; must be an object",
    ),
    "a text that is none": (
        [{**MUSIQUE[0], "paragraphs": [TEXT_OF_7]}],
        ": `[0].paragraphs[0].paragraph_text`: is 7; must be a string",
    ),
    "facts that are none": (
        [{**HOTPOTQA[0], "supporting_facts": 5}],
        ": `[0]`: is no row of HotpotQA ('int' object is not iterable)",
    ),
    "a question that is none": (
        [{**MUSIQUE[0], "question": {"a": "x", "b": "y"}}],
        ": `[0].question`: is an object; must be a text, or an object with one text or one of "
        "question, query, input, user_input, prompt, text",
    ),
    "an id twice": (
        [MUSIQUE[0], MUSIQUE[0]],
        ": `[1].id`: query id '2hop__0' occurs twice, first at `[0].id`",
    ),
}
REFUSED |= {
    name: ("a.json", json.dumps(rows), message) for name, (rows, message) in BAD_ROWS.items()
}


@pytest.mark.parametrize(("file", "content", "message"), REFUSED.values(), ids=REFUSED)
def test_what_fits_nothing_is_refused_with_the_columns_that_read_it_or_its_row(
    write: Write, read_all: ReadAll, file: str, content: str, message: str
) -> None:
    path = write({file: content}) / file
    with pytest.raises(DataError) as caught:
        read_all(open_dataset(path))
    assert str(caught.value) == f"{path}{message}"


def test_the_columns_that_were_told_read_it(write: Write, read_all: ReadAll) -> None:
    path = write({"mine.csv": f"no,prompt,gold_passage\n7,{ASKED[0]},{DOG}\n"}) / "mine.csv"
    columns: dict[str, str] = {"query_id": "no", "query": "prompt", "text": "gold_passage"}
    documents, queries, qrels = read_all(with_columns(open_dataset(path, "samples"), columns))
    assert documents.table["text"].to_pylist() == [DOG]
    asked = (queries.table["query_id"].to_pylist(), queries.table["text"].to_pylist())
    assert asked == (["7"], [ASKED[0]])
    assert qrels.table.num_rows == 1
    with pytest.raises(DataError, match="`other`: is null; must be a text, or an object"):
        read_all(with_columns(open_dataset(path, "samples"), {"query": "other"}))


@pytest.mark.parametrize("cell", ["[" * 5000, "['a'", "{'a': b}", "{'a': __import__('os')}"])
def test_a_cell_of_csv_that_is_no_list_is_a_text(
    write: Write, read_all: ReadAll, cell: str
) -> None:
    """Nothing is executed."""
    rows = samples(user_input=["a"], reference=["b"], reference_contexts=[cell])
    dataset = open_dataset(write({"a.csv": csv_text(rows)}) / "a.csv", "samples")
    assert read_all(dataset)[0].table["text"].to_pylist() == [cell]


@pytest.mark.parametrize("cell", ["[1]", "[None]", "[['x']]", "{}"])
def test_a_list_that_is_not_of_texts_is_refused(write: Write, read_all: ReadAll, cell: str) -> None:
    rows = samples(user_input=["a"], reference=["b"], reference_contexts=[cell])
    with pytest.raises(DataError, match=r"a\.csv:2: is no row of Ragas"):
        read_all(open_dataset(write({"a.csv": csv_text(rows)}) / "a.csv", "samples"))


def test_musique_as_it_is_downloaded(shared_data: SharedData, read_all: ReadAll) -> None:
    """100 questions of 2 to 4 hops: 68 x 2 + 27 x 3 + 5 x 4 passages are needed."""
    documents, queries, qrels = read_all(open_dataset(shared_data("multihop") / "musique.json"))
    assert documents.table.num_rows == 1890
    assert (queries.table.num_rows, qrels.table.num_rows) == (100, 68 * 2 + 27 * 3 + 5 * 4)
    assert json.loads(queries.table["metadata"][0].as_py())["answers"] == ["G. Stanley Hall"]


@pytest.mark.parametrize("text", ["- vars: &a {q: x}\n- vars: *a\n", "- vars: [\n", "[" * 1_000])
def test_yaml_that_is_not_read(write: Write, text: str) -> None:
    path = write({"tests.yaml": text}) / "tests.yaml"
    with pytest.raises(DataError, match="cannot be read as YAML; it must be well-formed"):
        list(read_samples(path, FIRST, LAYOUTS[0]))
