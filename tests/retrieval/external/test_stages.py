"""From what a search returned to units that can be judged."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from rag_assets.analysis.diff import changes_between
from rag_assets.analysis.history import MetricHistory
from rag_assets.analysis.leaderboard import summary_sheet
from rag_assets.analysis.plan import plan_rows
from rag_assets.analysis.result import EvaluationResult
from rag_assets.answers.contexts_stage import answer_contexts_key
from rag_assets.called.hits import Hit, Rejected, hits_of
from rag_assets.errors import ConfigError, UsageError
from rag_assets.evaluation.attributions_stage import attributions_key
from rag_assets.evaluation.metrics_stage import metrics_key, summary_key
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.failed_queries import ask_revisions, try_again, unanswered, unfinished
from rag_assets.pipeline.forgetting import to_forget
from rag_assets.retrieval.external import locate as locating
from rag_assets.retrieval.external.locate import (
    AMBIGUOUS,
    EXACT,
    MISSING,
    NORMALISED,
    Place,
    locate,
    normalised,
    offsets_of,
)
from rag_assets.retrieval.external.stage import rankings_key
from rag_assets.retrieval.external.units import chunks_of
from rag_assets.retrieval.runs_stage import hits_key
from rag_assets.store.artifacts import ArtifactKey
from tests.answers.answering import with_answers
from tests.retrieval.external.conftest import SEARCH, Searched, times_of
from tests.tiny_experiment import JUDGMENTS, QUERIES, planned


def means(searched: Searched, retriever: str, top_k: int = 5) -> dict[str, Any]:
    (row,) = [row for row in searched.rows(summary_key(retriever)) if row["top_k"] == top_k]
    return dict(row)


def test_two_lines_of_yaml_evaluate_a_search_on_the_evidence(asked: Searched) -> None:
    own = means(asked, "mine")
    assert own["n_failed"] == own["n_empty"] == 0
    # Each evidence is a paragraph, so each of them is a unit that the search can return.
    assert asked.facts(hits_key("mine"))["located"] == {"exact": 30}
    assert own["hit_rate"] > 0.8
    texts = chunks_of(asked.pipeline().artifact(hits_key("mine")))
    assert "A dog needs a ticket of 10 crowns." in texts["text"].to_pylist()
    # "what does a ticket for a dog cost": the words a, dog, ticket.
    assert asked.ranked("mine", 5)["q1"][0][0] == "fares.md#92-126"
    metrics = {row["query_id"]: row for row in asked.rows(metrics_key("mine", 5))}
    assert metrics["q1"]["unit_tokens"][0] == 9


def test_a_fusion_and_a_reranker_read_it(asked: Searched) -> None:
    asked.configure("fused", type="rrf", inputs=["mine", "bm25"], candidates=5)
    asked.configure("maxsim", type="maxsim", input="mine", candidates=5)
    asked.run()
    assert means(asked, "fused")["n_failed"] == 0
    units = set(chunks_of(asked.pipeline().artifact(hits_key("mine")))["chunk_id"].to_pylist())
    assert set([unit for unit, _ in asked.ranked("maxsim", 5)["q1"]]) <= units
    # Of what only the search can return nobody knows that no chunk holds it.
    experiment = asked.pipeline().experiment
    for name in ("mine", "fused", "maxsim"):
        key = attributions_key(experiment, name)
        assert "no_chunk" not in asked.pipeline().artifact(key).table()["lost_at"].to_pylist()


def test_what_no_chunk_holds_is_said_by_whose_chunks(searched: Searched) -> None:
    searched.write_search(SEARCH.replace("    scored = [", "    return []\n    scored = ["))
    searched.configure("maxsim", type="maxsim", input="mine", candidates=5)
    searched.run()
    result = EvaluationResult(searched.artifacts, searched.snapshot())
    notes = summary_sheet(result, result.at_cutoff).notes
    lines, said = {line.partition(": 7")[0] for line in notes}, "evidences in no chunk that"
    assert {f"maxsim: {said} mine returned", f"mine: {said} it returned"} <= lines


def test_looking_runs_nothing(searched: Searched) -> None:
    searched.snapshot()
    steps = planned(searched)
    lines = {name: list(found) for name, found in steps.searches.items()}
    file = searched.folder / "my_search.py"
    assert lines == {"mine": [f"runs {file}:retrieve in this process"]}
    (row,) = [row for row in plan_rows(steps) if row["asset"] == "external_rankings"]
    assert row["search"] == lines["mine"]
    assert searched.log == []


def test_an_answerer_reads_chunks_of_its_own(searched: Searched) -> None:
    with_answers(searched, answers={"read": {"generator": "predicted", "retriever": "mine"}})
    searched.config["answers"]["read"]["budget"] = 60
    searched.write_config()
    lost = '{"text": "A text of no document."}'
    searched.write_search(SEARCH.replace("return [{", f"return [{lost}] + [{{"))
    searched.run()
    pipeline = searched.pipeline()
    rows = pipeline.artifact(answer_contexts_key("read@3")).table().to_pylist()
    own = chunks_of(pipeline.artifact(hits_key("mine")))["chunk_id"].to_pylist()
    assert {row["unit_id"] for row in rows} <= set(own)
    assert {row["position"] for row in rows if row["document_id"].startswith("not-located#")} == {1}


def test_each_query_is_asked_once_and_a_sample_is_timed(asked: Searched) -> None:
    assert asked.log == ["loaded", *(query["text"] for query in QUERIES)]
    assert len(times_of(asked, "mine")) == asked.config["measurements"]["latency_sample"]
    asked.forget_log()
    assert asked.run() == set()
    assert asked.log == []


def test_forgetting_finds_what_a_search_returned_of_a_document(asked: Searched) -> None:
    asked.snapshot()
    found = to_forget(asked.settings, "fares.md")
    assert found is not None
    assert {"external_rankings", "external_hits"} <= {item.kind for item in found.items}


def test_an_edit_asks_again_only_where_it_can_matter(asked: Searched) -> None:
    asked.write_search(f"# a comment\n{SEARCH}")
    assert not asked.run()
    asked.snapshot()
    asked.write_search(SEARCH.replace("[a-z]+", "[a-z]{2,}").replace("[:k]", "[:1]"))
    (step,) = [s for s in planned(asked).steps if s.key == rankings_key("mine")]
    assert [reason.text for reason in step.reasons] == ["the code that `call` names changed"]
    assert "external_rankings/mine" in asked.run()
    (_, note) = asked.facts(rankings_key("mine"))["notes"]
    assert note.startswith("each query has 1 of the ")
    asked.write_document("new.md", "# New\n\nA dog is a dog.\n")
    assert "external_rankings/mine" in asked.run()


def test_a_revision_stands_for_the_code_and_the_documents(searched: Searched) -> None:
    searched.configure("mine", revision="v1")
    searched.run()
    searched.forget_log()
    searched.write_search(SEARCH.replace("[a-z]+", "[a-z]{2,}"))
    searched.write_document("new.md", "# New\n\nA dog is a dog.\n")
    assert "external_rankings/mine" not in searched.run()
    assert searched.log == []
    searched.configure("mine", revision="v2")
    assert "external_rankings/mine" in searched.run()
    (line, *_) = searched.facts(rankings_key("mine"))["notes"]
    assert line.startswith("asked on ")
    assert line.endswith(" UTC at revision v2; reused until that or the queries change")


def test_always_asks_once_in_each_evaluation_and_looking_asks_nobody(searched: Searched) -> None:
    searched.configure("mine", revision="always")
    empty = "if (HERE.parent / 'up').exists():\n        return []\n    "
    searched.write_search(SEARCH.replace("    scored = [", f"    {empty}scored = ["))
    port = {"url": "http://127.0.0.1:9/?q={query}", "method": "GET", "hits": "hits", "id": "id"}
    searched.configure("far", type="http", revision="always", retries=0, **port)

    def evaluate() -> set[str]:
        ask_revisions(searched.pipeline(), ["mine"])
        return searched.run()

    evaluate()
    searched.forget_log()
    assert not searched.run()
    steps = {str(step.key): step for step in planned(searched).steps}
    step = steps["external_rankings[retriever=mine]"]
    assert step.action == "compute"
    assert step.reasons[0].text == "requested in each evaluation (revision: always)"
    assert steps["external_hits[retriever=mine]"].action == "check"
    sent = [(line.client, line.requests) for step in steps.values() for line in step.outgoing]
    assert sent == [("retrievers.far", len(QUERIES))]
    assert searched.log == []
    searched.snapshot()
    assert evaluate() == {"external_rankings/mine"}  # what it returned is as it was
    assert searched.log[0] == "loaded"
    searched.snapshot()
    assert told_changes(searched) == ([], [])
    (searched.root / "up").touch()  # of this nothing knows but the search
    evaluate()
    searched.snapshot()
    assert told_changes(searched) == (["answers of mine changed"],) * 2


def told_changes(searched: Searched) -> tuple[list[str], list[str]]:
    """Return what changed since the evaluation before, as `diff` and `history` say it."""
    ids = searched.names().history().ids()[-2:]
    a, b = (EvaluationResult(searched.artifacts, searched.names().find(name)) for name in ids)
    row = MetricHistory.of(searched.names().history()).rows[-1]
    return [one.text for one in changes_between(a, b)], [one["what"] for one in row["changes"]]


@pytest.mark.parametrize(
    ("failure", "asset"), [("raise OSError('down')", rankings_key), ("return ['nope']", hits_key)]
)
def test_failures_are_no_zeros_and_are_asked_for_again(
    searched: Searched, failure: str, asset: Callable[[str], ArtifactKey]
) -> None:
    is_down = 'if "dog" in query and not (HERE.parent / "up").exists():'
    flaky = f"{is_down}\n        {failure}\n    "
    searched.write_search(SEARCH.replace("    scored = [", f"    {flaky}scored = ["))
    searched.run()
    own = means(searched, "mine")
    assert (own["n_failed"], own["n_queries"]) == (1, 5)
    rows = searched.rows(metrics_key("mine", 5))
    assert {row["query_id"]: row["ndcg"] for row in rows if row["failed"]} == {"q1": None}
    assert unfinished(searched.pipeline(), ["mine"]) == {"mine": {"q1"}}
    assert unanswered(searched.pipeline()) == {asset("mine"): 1}
    searched.snapshot()
    (searched.root / "up").touch()
    assert not searched.run()
    assert try_again(searched.pipeline()) == 1
    searched.forget_log()
    searched.run()
    assert searched.log == ["loaded", QUERIES[0]["text"]]
    assert means(searched, "mine")["n_failed"] == 0
    searched.snapshot()
    assert told_changes(searched) == (["answers of mine changed"],) * 2
    past = MetricHistory.of(searched.names().history(), None, ["mine"]).rows
    assert [row.get("failed") for row in past] == ["mine failed on 1 of 6 queries", None]
    for form in ("table", "json"):
        ids = (row["evaluation_id"] for row in past)
        told = " ".join(searched.command("diff", ".", *ids, "--format", form).output.split())
        assert "mine failed on 1 of 6 queries in the older evaluation, which count in no" in told


def test_texts_that_are_from_nowhere_are_counted_and_judged_by_document(searched: Searched) -> None:
    searched.config["metrics"] = ["hit_rate", "answer_hit"]
    searched.config["primary"] = "hit_rate@5"
    searched.write_config()
    answers = [{**query, "answers": ["ten crowns"]} for query in QUERIES]
    searched.write_rows("queries.jsonl", answers)
    whole: dict[str, Any] = {"query_id": "q1", "doc_id": "fares.md"}
    searched.write_rows("judgments.jsonl", [whole, *JUDGMENTS[1:]])
    searched.write_search(
        "def retrieve(query, k):\n"
        "    return [{'text': 'A dog costs ten crowns.', 'source': 'fares.md'},\n"
        "            {'text': 'A dog costs ten crowns.'}]\n"
    )
    searched.run()
    assert searched.facts(hits_key("mine"))["located"] == {"missing": 12}
    rows = searched.rows(metrics_key("mine", 5))
    hit = {row["query_id"]: row["hit_rate"] for row in rows}
    assert hit == {"q1": 1.0, "q2": 0.0, "q3": 0.0, "q4": 0.0, "q5": 0.0, "q6": 0.0}
    assert {row["answer_hit"] for row in rows} == {1.0}
    assert {row["tokens"] for row in rows} == {12}


def test_a_run_file_has_texts_and_spans(searched: Searched) -> None:
    lines: list[dict[str, Any]] = [
        {"query_id": "q1", "hits": [{"text": "A dog needs a ticket of 10 crowns."}]},
        {"query_id": "q2", "hits": [["harbours.md", 51, 122], "crew.md"]},
        {
            "query_id": "q3",
            "retrieved_contexts": ["Jackets for children are stored\nbeside the bridge."],
        },
        {"query_id": "q4", "error": "down"},
        {"query_id": "other", "hits": []},
    ]
    searched.write_rows("../run.jsonl", lines)
    searched.config["retrievers"] = {
        "theirs": {"type": "run_file", "path": "../run.jsonl", "chunking": "own"}
    }
    searched.config["baseline"] = "theirs"
    searched.write_config()
    searched.run()
    rows = searched.rows(metrics_key("theirs", 5))
    hit = {row["query_id"]: row["hit_rate"] for row in rows}
    assert hit == {"q1": 1.0, "q2": 1.0, "q3": 1.0, "q4": None, "q5": 0.0, "q6": 0.0}
    assert searched.facts(rankings_key("theirs"))["notes"] == [
        "queries of the experiment without rows in the file: 2"
    ]
    assert unfinished(searched.pipeline(), ["theirs"]) == {}
    assert unanswered(searched.pipeline()) == {}


def test_what_an_experiment_cannot_ask_for_is_said(searched: Searched) -> None:
    searched.configure("mine", expand={"type": "window"})
    with pytest.raises(ConfigError, match="neighbours are known only for chunkings of this"):
        searched.pipeline()
    del searched.config["retrievers"]["mine"]["expand"]
    searched.config["chunking"]["own"] = {"strategy": "none"}
    searched.write_config()
    with pytest.raises(ConfigError, match="is reserved for the chunks of an external search"):
        searched.pipeline()
    del searched.config["chunking"]["own"]
    searched.configure("mine", call="nowhere.py:retrieve")
    with pytest.raises(ConfigError, match="nowhere"):
        load_experiment(searched.folder)


def test_code_of_a_fork_is_run_only_when_it_is_allowed(
    searched: Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = searched.root / "event.json"
    head = {"repo": {"full_name": "stranger/app"}}
    event.write_text(json.dumps({"pull_request": {"head": head}}))
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    monkeypatch.setenv("GITHUB_REPOSITORY", "mine/app")
    with pytest.raises(UsageError, match="a pull request from stranger/app; read the code"):
        searched.run()
    assert searched.log == []
    monkeypatch.setenv("RAG_ASSETS_ALLOW_CODE", "1")
    searched.run()
    assert searched.log
    monkeypatch.delenv("RAG_ASSETS_ALLOW_CODE")
    monkeypatch.setenv("GITHUB_REPOSITORY", "stranger/app")  # its own branch
    searched.forget_log()
    searched.configure("mine", revision="2")
    searched.run()
    assert searched.log
    monkeypatch.setenv("GITHUB_REPOSITORY", "mine/app")
    # What one evaluation was allowed, the next one is not.
    for options, is_run in ((["--allow-code"], True), ([], False)):
        searched.forget_log()
        searched.configure("mine", revision=f"of {options}")
        done = searched.command("evaluate", ".", *options)
        assert (done.exit_code == 0, bool(searched.log)) == (is_run, is_run), done.output


DOCUMENTS = {
    "guides/fares.md": "A dog needs a ticket.\n\nA cat needs none. A dog  is quiet.",
    "guides/harbours.md": "The harbour opens at six. A cat needs none.",
    "caf\u00e9.md": "Cafe\u0301 cr\u00e8me costs \ufb01ve crowns.\u00a0It is hot, hot, hot.",
}

HOT, CAT = DOCUMENTS["caf\u00e9.md"].rindex("hot"), "A cat needs none."


def place(text: str, **details: object) -> Place:
    (found,) = locate([Hit(text=text, **details)], DOCUMENTS)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    ("text", "details", "expected"),
    [
        ("needs a ticket", {}, Place(EXACT, "guides/fares.md", 6, 20)),
        # A line feed where the document has two, and one blank where it has two.
        ("ticket.\nA cat", {}, Place(NORMALISED, "guides/fares.md", 14, 28)),
        (" A dog is quiet. ", {}, Place(NORMALISED, "guides/fares.md", 41, 57)),
        # Composed where the document is decomposed, and a ligature taken apart; a hard blank.
        ("Caf\u00e9 cr\u00e8me costs five", {}, Place(NORMALISED, "caf\u00e9.md", 0, 21)),
        ("crowns. It", {}, Place(NORMALISED, "caf\u00e9.md", 22, 32)),
        (CAT, {}, Place(AMBIGUOUS)),
        (CAT, {"source": "harbours.md"}, Place(EXACT, "guides/harbours.md", 26, 43)),
        (CAT, {"source": "/srv/x/guides/fares.md"}, Place(EXACT, "guides/fares.md", 23, 40)),
        (CAT, {"source": "file:///srv/guides/fares"}, Place(EXACT, "guides/fares.md", 23, 40)),
        (CAT, {"document_id": "guides/fares.md"}, Place(EXACT, "guides/fares.md", 23, 40)),
        ("hot", {}, Place(AMBIGUOUS, "caf\u00e9.md")),
        ("hot", {"start": HOT}, Place(EXACT, "caf\u00e9.md", HOT, HOT + 3)),
        # A start that is of another text than ours says nothing.
        ("hot", {"start": 3}, Place(AMBIGUOUS, "caf\u00e9.md")),
        ("no such words", {}, Place(MISSING)),
        ("no such words", {"source": "fares.md"}, Place(MISSING, "guides/fares.md")),
        # It stands elsewhere, but the hit says where it is from.
        ("The harbour opens", {"source": "fares.md"}, Place(MISSING, "guides/fares.md")),
        ("The harbour opens", {"source": "x/fares.md"}, Place(EXACT, "guides/harbours.md", 0, 17)),
        ("", {}, Place(MISSING)),
        (" \n", {"source": "fares.md"}, Place(MISSING, "guides/fares.md")),
    ],
)
def test_a_text_is_located(text: str, details: dict[str, object], expected: Place) -> None:
    assert place(text, **details) == expected


def test_a_file_has_its_title_before_the_text() -> None:
    documents = {"a.md": "It sails.\n", "b.md": "It sails not.\n"}
    titles = {"a.md": "The ferry", "b.md": "The boat"}

    def found(text: str) -> Place:
        return locate([Hit(text=text)], documents, titles)[0]

    assert found("# The ferry\n\nIt sails.") == Place(NORMALISED, "a.md", 0, 9)
    front_matter = "---\nauthor: x\n---\n# The boat\n\nIt sails not."
    assert found(front_matter) == Place(NORMALISED, "b.md", 0, 13)
    assert found("# The ferry\n") == Place(MISSING)


ALPHABET = st.text("ab \n\u00e9e\u0301\ufb01f\u00a0", max_size=60)


@settings(deadline=None, max_examples=150)
@given(st.lists(ALPHABET, min_size=1, max_size=5), st.data())
def test_it_finds_what_a_plain_search_finds(texts: list[str], data: st.DataObject) -> None:
    """The hashes of all texts at once against str.find, document by document."""
    documents = {f"d{number}": text for number, text in enumerate(texts)}
    whole = data.draw(st.sampled_from(texts))
    start = data.draw(st.integers(0, len(whole)))
    text = whole[start : data.draw(st.integers(start, len(whole)))]
    expected = [
        (name, at, at + len(text))
        for name, document in documents.items()
        for at in range(len(document))
        if text and document.startswith(text, at)
    ]
    (found,) = locate([Hit(text=text)], documents)
    if not text.strip():
        assert found == Place(MISSING)
    elif len(expected) == 1:
        assert found == Place(EXACT, *expected[0])
    else:
        assert found.how == AMBIGUOUS


@settings(deadline=None)
@given(st.text(max_size=80))
def test_offsets_are_of_the_characters_that_a_normalised_one_was_made_of(text: str) -> None:
    alike, offsets = normalised(text), offsets_of(text)
    assert len(alike) == len(offsets)
    assert [one for one, _ in offsets] == sorted(one for one, _ in offsets)
    for made, (start, end) in zip(alike, offsets, strict=True):
        own = text[start:end]
        is_blank = made == " " and own.isspace()
        assert is_blank or made in unicodedata.normalize("NFKC", own)


def test_documents_are_searched_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locating, "BLOCK_CHARACTERS", 5)
    documents = {f"d{n}": f"number {n} is here" for n in range(20)}
    hits = [Hit(text=f"{n} is here") for n in range(10, 20)]
    assert locate(hits, documents) == [Place(EXACT, f"d{n}", 7, 17) for n in range(10, 20)]


@dataclass
class LangChainDocument:
    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class HaystackDocument:
    content: str | None
    meta: dict[str, Any] = field(default_factory=dict)
    score: float | None = None


@dataclass
class LlamaNode:
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    ref_doc_id: str | None = None
    start_char_idx: int | None = None

    def get_content(self) -> str:
        return f"metadata: {self.metadata}\n{self.text}"


@dataclass
class NodeWithScore:
    node: LlamaNode
    score: float | None


class PydanticDocument(BaseModel):
    """One that can be iterated, as every model of pydantic."""

    id: str = "a"


class OnlyContent:
    """A node of another class, whose text is behind a method."""

    def get_content(self) -> str:
        return "t"


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        ("a.md", Hit("a.md")),
        (("a.md", 2), Hit("a.md", score=2.0)),
        (["a.md", np.float32(0.5)], Hit("a.md", score=0.5)),
        (("a.md", None), Hit("a.md")),
        (("a.md", 3, 9), Hit(document_id="a.md", start=3, end=9)),
        ({"text": "t", "source": "a", "score": 1}, Hit(text="t", source="a", score=1.0)),
        ({"doc_id": "a", "start": 0, "end": 2}, Hit(document_id="a", start=0, end=2)),
        ({"text": "t", "doc_id": "a", "start": 4}, Hit(text="t", document_id="a", start=4)),
        (Hit(text="t"), Hit(text="t")),
        (LangChainDocument("t"), Hit(text="t")),
        (
            LangChainDocument("t", {"source": "/x/a.md", "start_index": 7}),
            Hit(text="t", source="/x/a.md", start=7),
        ),
        ((LangChainDocument("t"), 0.3), Hit(text="t", score=0.3)),
        (
            HaystackDocument("t", {"file_path": "a.md", "split_idx_start": 2}, 1.5),
            Hit(text="t", source="a.md", start=2, score=1.5),
        ),
        (
            NodeWithScore(LlamaNode("t", {"file_name": "a.md"}, "uuid", 5), 0.9),
            Hit(text="t", source="a.md", start=5, score=0.9),
        ),
        (NodeWithScore(LlamaNode("t", {}, "a.md"), None), Hit(text="t", source="a.md")),
        (OnlyContent(), Hit(text="t")),
        # A whole number is an id, also one of numpy.
        ([np.int64(7), 1], Hit("7", score=1.0)),
        ({"id": 5}, Hit("5")),
    ],
)
def test_a_hit_has_many_forms(one: object, expected: Hit) -> None:
    assert hits_of([one], 5) == [expected]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "returned nothing, not a list of hits"),
        ("a.md", 'returned "a.md", not a list of hits'),
        ({"a.md": 0.5}, "returned an object with the keys a.md, not a list of hits"),
        (17, "returned 17, not a list of hits"),
        ([1.5], "hit 1 is 1.5; a hit is an id, (id, score)"),
        ([("a", "b")], 'hit 1: `score` is "b"; it must be a finite number'),
        ([{"id": "a", "score": float("nan")}], "hit 1: `score` is NaN; it must be a finite number"),
        ([{"key": "a"}], "hit 1 has the key 'key'; allowed: id, text, document_id, start, end"),
        (["b", {"id": ["a"]}], "hit 2: `id` is a list of 1; it must be a text or a whole number"),
        ([{"document_id": "a"}], "hit 1: has only document_id; a hit is one of three"),
        ([{"id": "a", "text": "t"}], "hit 1: has only id, text; a hit is one of three"),
        ([("a", -1, 4)], "hit 1: `start` is -1; it must be a whole number from 0, below 2**31"),
        ([("a", 0, 2**31)], "hit 1: `end` is 2147483648; it must be a whole number from 0"),
        ([HaystackDocument(None)], "hit 1 is HaystackDocument "),
        (PydanticDocument(), "not a list of hits"),
    ],
)
def test_what_is_no_list_of_hits_is_said(answer: object, problem: str) -> None:
    with pytest.raises(Rejected) as raised:
        hits_of(answer, 5)
    assert problem in str(raised.value)
    assert len(str(raised.value)) < 400
