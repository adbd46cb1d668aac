"""``rag-assets validate`` on a complete experiment."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from rag_assets.checks.validation import Validation
from rag_assets.pipeline.plan import COMPUTE
from tests.answers.answering import with_answers
from tests.labels.health.tables import kinds
from tests.tiny_experiment import JUDGMENTS, QUERIES, Tiny, by_action, planned


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path).write()


def test_a_sound_experiment_and_a_split_that_cannot_be_made(tiny: Tiny) -> None:
    result = tiny.command("validate", ".")
    assert result.exit_code == 0, result.output
    assert result.stdout == "0 errors, 0 warnings in 8 documents, 6 queries, 7 judgments\n"
    unchecked = "drift: there is no evaluation yet"
    assert result.stderr == f"not checked: {unchecked}\n"
    tiny.config["split"] = {"field": "fold"}
    tiny.write_config()
    result = tiny.command("validate", ".", "--format", "csv")
    (found,) = csv.DictReader(io.StringIO(result.stdout))
    assert (found["severity"], found["check"]) == ("error", "query_facts")
    problem = "query 'q1' has no field 'fold'; must be dev or test"
    assert found["message"].endswith(f"`split.field`: {problem}")


def test_the_table_names_the_place_and_shortens_long_lists(tiny: Tiny) -> None:
    bad = [{"query_id": "q1", "doc_id": "fares.md#0-5"}] * 14
    tiny.write_rows("judgments.jsonl", [*JUDGMENTS, *bad])
    result = tiny.command("validate", ".")
    assert result.exit_code == 1
    assert "judgments.jsonl:8: doc_id" in result.stdout
    assert "... and 4 more; --format csv lists all" in " ".join(result.stdout.split())
    assert result.stdout.splitlines()[-1].startswith("14 errors, 0 warnings")


@pytest.mark.parametrize("block", ["online", "query_sets", "retrievers", "answer_labels"])
def test_a_file_beside_the_data_is_read(tiny: Tiny, block: str) -> None:
    tiny.write_rows("beside.jsonl", [{"wrong": 1}])
    (tiny.folder / "beside.csv").write_text("wrong\n1\n", encoding="utf-8")
    of_block: dict[str, Any] = {
        "online": {"clicks": "beside.jsonl"},
        "query_sets": {"others": {"strategy": "file", "path": "beside.jsonl"}},
        "retrievers": {"run": {"type": "run_file", "path": "beside.jsonl", "chunking": "own"}},
        "answer_labels": "beside.csv",
    }
    if block == "answer_labels":
        with_answers(tiny)
        tiny.config["judges"] = {"words": {"type": "words", "judges": ["correctness"]}}
    given = of_block[block]
    others = tiny.config.get(block, {})
    tiny.config[block] = {**others, **given} if isinstance(given, dict) else given
    tiny.write_config()
    result = tiny.command("validate", ".", "--format", "json")
    assert result.exit_code == 1, result.output
    (finding,) = [row for row in json.loads(result.stdout) if row["severity"] == "error"]
    assert "beside." in f"{finding['file']} {finding['message']}"


def test_documents_and_queries_are_all_read_to_the_end(tiny: Tiny) -> None:
    tiny.write_document("bad.md", "---\ntitle: [1]\n---\ntext\n")
    tiny.write_rows("queries.jsonl", [*QUERIES, {"query_id": "q1", "text": "again"}, {"text": "t"}])
    result = tiny.command("validate", ".", "--format", "json")
    assert result.exit_code == 1
    errors = [(r["check"], r["file"], r["line"]) for r in json.loads(result.stdout)]
    assert errors == [
        ("format", "bad.md", None),
        ("duplicate_id", "queries.jsonl", 7),
        ("format", "queries.jsonl", 8),
    ]
    assert "not checked: labels: the documents or the queries have errors" in result.stderr


BEIR = {
    "corpus.jsonl": '{"_id": "d1", "text": "ferry"}\n{"_id": "d2", "text": "storm"}\n',
    "queries.jsonl": '{"_id": "q1", "text": "ferry"}\n{"_id": "q2", "text": "storm"}\n',
    "qrels/test.tsv": "q1\td1\t1\nq2\td2\t1\nq1\td2\t1\n",
}
PARAGRAPH = {"context": "One two one.", "qas": []}
ASKED = {"question": "?", "answers": [{"text": "two", "answer_start": 4}]}
SQUAD = [{"id": "a", **ASKED}, {"id": "b", **ASKED, "is_impossible": True}]


def squad(*paragraphs: dict[str, object]) -> str:
    return json.dumps({"data": [{"title": "T", "paragraphs": paragraphs}]})


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"corpus.jsonl": '{"_id": "d1", "text": 5}\n{"_id": "d2", "text": "x"}\n'}, "corpus:1"),
        ({"queries.jsonl": '{"_id": "q1"}\n{"_id": "q2", "text": "x"}\n'}, "queries:1"),
        ({"corpus.jsonl": '{"_id": "d1", "text": 5}\n{"_id": "d2"}\n'}, "corpus:1 corpus:2"),
        ({"corpus.jsonl": b'{"_id": "d1", "text": "\xff"}\n'}, "corpus:1"),
        ({"corpus.jsonl": b'{"_id": "d2", "text": 5}\n\xff\n'}, "corpus:1 corpus:2"),
        ({"a.json": squad({**PARAGRAPH, "qas": SQUAD})}, "a:None"),
        ({"a.json": squad({**PARAGRAPH, "qas": SQUAD}, {"context": 1})}, "a:None a:None"),
        (
            {
                "a.json": '{"queries": {"q": "x"}, "corpus": {"d": 5, "e": ""}, '
                '"relevant_docs": {"q": ["d"]}}'
            },
            "a:None",
        ),
        (
            {
                "documents.csv": "document_id,text\nd1\n",
                "queries.jsonl": '{"query_id": "q", "text": "x"}\n',
                "judgments.jsonl": '{"query_id": "q", "doc_id": "d1"}\n',
            },
            "documents:2",
        ),
    ],
)
def test_what_follows_from_an_error_is_not_told(
    tmp_path: Path, files: dict[str, str | bytes], expected: str
) -> None:
    """A judgment of a row that was refused, or that nobody could read, is no further error."""
    beir = any(name in BEIR for name in files) and "judgments.jsonl" not in files
    tiny = Tiny(tmp_path)
    for name, content in {**(BEIR if beir else {}), **files}.items():
        file = tiny.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    source = str(tiny.folder / "a.json") if "a.json" in files else "."
    result = tiny.command("validate", source, "--format", "json")
    assert result.exit_code == 1, result.output
    rows = json.loads(result.stdout)
    places = [f"{Path(str(row['file'])).stem}:{row['line']}" for row in rows]
    assert " ".join(places) == expected, rows
    assert {row["severity"] for row in rows} == {"error"}


def test_a_query_whose_judgment_is_broken_is_not_called_unanswerable(tiny: Tiny) -> None:
    rows = [{**row, "doc_id": "none.md"} if row["query_id"] == "q5" else row for row in JUDGMENTS]
    tiny.write_rows("judgments.jsonl", [row for row in rows if row["query_id"] != "q4"])
    found = Validation(tiny.pipeline())
    assert kinds(found.findings) == [
        ("unknown_id", "q5", "none.md"),
        ("no_relevant_document", "q4", None),
    ]


def test_warnings_do_not_fail(tiny: Tiny) -> None:
    tiny.write_document("copy.md", (tiny.folder / "fares.md").read_text(encoding="utf-8"))
    result = tiny.command("validate", ".", "--format", "json")
    assert result.exit_code == 0, result.output
    found = {(r["check"], r["query_id"]) for r in json.loads(result.stdout)}
    assert found == {("duplicate_document", None), ("unjudged_twin", "q1")}
    (tiny.folder / "judgments.jsonl").unlink()
    tiny.write_document("copy.md", (tiny.folder / "fares.md").read_text(encoding="utf-8"))
    checked = Validation(tiny.pipeline())
    assert kinds(checked.findings) == [("duplicate_document", None, "fares.md")]
    assert checked.skipped[0] == "labels: there are none yet"


def test_what_validate_has_read_an_evaluation_need_not_read_again(tiny: Tiny) -> None:
    Validation(tiny.pipeline())
    computed = {one.split("/")[0] for one in by_action(planned(tiny))[COMPUTE]}
    assert not computed & {"documents", "queries", "qrels", "chunks"}


def test_a_document_that_was_edited_after_the_evaluation(tiny: Tiny, computed: Tiny) -> None:
    tiny.start_from(computed).snapshot()
    tiny.replace("timetable.md", "nine in the evening", "ten in the evening")
    found = Validation(tiny.pipeline())
    assert kinds(found.findings) == [("quote_vanished", "q5", "timetable.md")]
    assert tuple(found.skipped) == (
        "drift: there is no anchor; `rag-assets anchor PATH` pins an evaluation",
    )


def test_a_missing_model_does_not_hide_the_findings(tiny: Tiny) -> None:
    tiny.config["chunking"]["parts"]["tokenizer"] = "no-such/model"
    tiny.write_config()
    tiny.write_rows("judgments.jsonl", [*JUDGMENTS, {"query_id": "q1", "doc_id": "fares"}])
    result = tiny.command("validate", ".", "--format", "csv")
    assert result.exit_code == 1
    assert "unknown_id" in result.stdout
    assert "not checked: evidence that no chunk covers:" in result.stderr
