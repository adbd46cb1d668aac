"""``questions`` in an experiment: an asset between chunks and queries, asked for once a chunk."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.analysis.label_health import labels
from rag_assets.analysis.result import EvaluationResult
from rag_assets.checks.asset_checks import results_of
from rag_assets.checks.validation import Validation
from rag_assets.chunking.stage import chunks_key
from rag_assets.code_versions.versions import CodeVersions
from rag_assets.engine.recipe import UNANSWERED
from rag_assets.errors import ConfigError, DataError
from rag_assets.experiment import load_experiment
from rag_assets.experiment.hosts import question_circles
from rag_assets.labels.questions import QuestionOptions
from rag_assets.pipeline.failed_queries import try_again, unanswered
from rag_assets.pipeline.forgetting import REPLIES, to_forget
from rag_assets.pipeline.stages import STAGES
from rag_assets.schemas import CHUNKS
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY, QUERIES_KEY, QUESTIONS_KEY
from tests.llm import server as replies
from tests.llm.server import Server
from tests.shown_board import shown
from tests.tiny_experiment import DOCUMENTS, Tiny, is_done, planned

CHUNKS_KEY = chunks_key("parts")


def text_of(prompt: str) -> str:
    return prompt.partition("Text:\n")[2]


def reply(prompt: str) -> str:
    """A question with the last words of the text, and a number that no other text has."""
    text = text_of(prompt)
    number = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
    words = " ".join(re.findall(r"\w+", text)[-3:])
    return json.dumps([{"question": f"In case {number}, what of {words}?", "answer": "this"}])


def asking(root: Path, server: Server, **options: Any) -> Tiny:
    tiny = Tiny(root)
    llm = {"model": "m", "base_url": server.base_url, "api_key_env": None, "retries": 0}
    tiny.config |= {"llm": llm, "questions": {"chunking": "parts", "n": 1, **options}}
    tiny.config["top_k"] = [1, 5]
    bm25 = {"type": "bm25", "analyzer": "english"}
    names = {"bm25": "parts", "bm25-whole": "whole"}
    tiny.config["retrievers"] = {name: {**bm25, "chunking": c} for name, c in names.items()}
    for name, text in DOCUMENTS.items():
        tiny.write_document(name, text)
    tiny.write_config()
    return tiny


@pytest.fixture
def tiny(tmp_path: Path, server: Server) -> Tiny:
    return asking(tmp_path / "tiny", server)


def generate(tiny: Tiny) -> None:
    """Compute the questions, and nothing that is made of them."""
    pipeline = tiny.pipeline()
    for key in (DOCUMENTS_KEY, CHUNKS_KEY, QUESTIONS_KEY):
        pipeline.materialize(key.asset, [key])


def test_a_question_has_its_chunk_and_the_span_as_its_label(tiny: Tiny, server: Server) -> None:
    tiny.run()
    chunks = {row["chunk_id"]: row for row in tiny.rows(CHUNKS_KEY)}
    questions = tiny.rows(QUESTIONS_KEY)
    assert [row["chunk_id"] for row in questions] == list(chunks)
    assert {row["source"] for row in questions} == {"m questions/1"}
    queries = {row["query_id"]: row for row in tiny.rows(QUERIES_KEY)}
    qrels = {row["query_id"]: row for row in tiny.rows(QRELS_KEY)}
    assert len(questions) == len(queries) == len(qrels) == len(chunks)
    for row in questions:
        chunk, name = chunks[row["chunk_id"]], row["query_id"]
        query, label = queries[name], qrels[name]
        place = [chunk[name] for name in ("document_id", "start", "end")]
        assert [row[name] for name in ("document_id", "start", "end")] == place
        assert [label[name] for name in ("document_id", "start", "end", "grade")] == [*place, 1]
        assert (query["text"], query["tags"]) == (row["text"], ["generated"])
        assert json.loads(query["metadata"]) == {
            "answers": ["this"],
            "source": "m questions/1",
            "source_document": row["document_id"],
            "source_chunk": row["chunk_id"],
        }
    # The labels score a chunking that nobody asked about.
    experiment = tiny.pipeline().experiment
    assert experiment.judge == "evidence"
    assert experiment.statistics.cluster == "query.source_document"
    tiny.snapshot()
    result = EvaluationResult.current(tiny.artifacts)
    means = {row["retriever"]: row for row in result.leaderboard.to_pylist() if row["top_k"] == 5}
    assert min(row["hit_rate"] for row in means.values()) > 0.5
    n = len(questions)
    told = f"{n} of {n} questions and their labels were written by a model, not by people: m ({n})"
    assert told in " ".join(" ".join(shown(result)).split())
    assert any(note.startswith(told) for note in labels(result)["notes"])
    found = to_forget(tiny.settings, "crew.md")
    assert found is not None
    kinds = Counter(item.kind for item in found.items)
    assert [kinds[one] for one in ("generated_questions", "queries", "query_sets")] == [1, 1, 1]
    assert kinds[REPLIES] == 1
    assert sum(rows.sum() for rows in found.replies.values()) == 2


def test_requests_are_planned_and_paid_once(tiny: Tiny, server: Server) -> None:
    first = planned(tiny)
    assert not server.received
    assert is_done(first, tiny.run())
    n = len(tiny.rows(CHUNKS_KEY))
    assert first.work("llm_calls") == len(server.received) == n > 8
    assert planned(tiny).work("llm_calls") is None
    assert tiny.run() == set()
    tiny.replace("crew.md", "A crew of five", "A crew of six")
    again = planned(tiny)
    assert is_done(again, tiny.run())
    new = [text_of(one.text) for one in server.received[n:]]
    assert again.work("llm_calls") == len(new) == 1
    assert "crew of six" in new[0]
    (tiny.root / "own.txt").write_text("version: 7\n[user]\nAsk about it.\nText:\n{text}")
    tiny.config["questions"]["template"] = "../own.txt"
    tiny.write_config()
    assert planned(tiny).work("llm_calls") == n
    generate(tiny)
    assert len(server.received) == 2 * n + 1
    assert {row["source"] for row in tiny.rows(QUESTIONS_KEY)} == {"m own/7"}


def test_a_changed_document_costs_its_own_chunks_when_chunks_are_drawn(
    tmp_path: Path, server: Server
) -> None:
    tiny = asking(tmp_path / "tiny", server, chunks=10, spread="document")
    generate(tiny)
    before = {row["chunk_id"] for row in tiny.rows(QUESTIONS_KEY)}
    assert len(before) == 10
    assert {one.partition("#")[0] for one in before} == set(DOCUMENTS)
    tiny.write_document("fares.md", f"# Fares\n\nAll of them.\n\n{DOCUMENTS['fares.md'][9:]}")
    generate(tiny)
    after = {row["chunk_id"] for row in tiny.rows(QUESTIONS_KEY)}
    assert {one.partition("#")[0] for one in before ^ after} == {"fares.md"}
    new = [text_of(one.text).strip() for one in server.received[10:]]
    text = (tiny.folder / "fares.md").read_text()
    assert new
    assert all(one in text for one in new)


def table(places: list[tuple[int, int]]) -> pa.Table:
    rows: list[dict[str, object]] = [
        {
            "chunk_id": f"{document}#{number}",
            "document_id": str(document),
            "start": number,
            "end": number + 1,
            "title": "",
            "text": "x",
            "heading_path": str(heading),
        }
        for number, (document, heading) in enumerate(places)
    ]
    return CHUNKS.from_rows(rows)


def drawn(chunks: pa.Table, limit: int, seed: int, spread: Any = None) -> list[str]:
    options = QuestionOptions(chunks=limit, seed=seed, spread=spread)
    ids: list[str] = options.chosen_chunks(chunks)["chunk_id"].to_pylist()
    return ids


PLACES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=40)


@given(PLACES, st.integers(1, 40), st.integers(0, 9), st.sampled_from(["document", "heading"]))
def test_coverage(places: list[tuple[int, int]], limit: int, seed: int, spread: Any) -> None:
    """Groups are filled evenly, a larger draw holds the smaller one, others do not matter."""
    chunks = table(places)
    found = drawn(chunks, limit, seed, spread)
    assert len(found) == min(limit, len(places))
    assert set(found) <= set(drawn(chunks, limit + 1, seed, spread))
    group = {
        f"{place[0]}#{number}": place if spread == "heading" else place[:1]
        for number, place in enumerate(places)
    }
    sizes, taken = Counter(group.values()), Counter(group[one] for one in found)
    most = max(taken.values())
    assert all(taken[name] >= min(sizes[name], most - 1) for name in sizes)
    # Which chunks of a group are drawn is said by their hashes alone: the lowest ones.
    for name in sizes:
        hashes = {
            one: hashlib.sha256(f"{seed}\0{one}".encode()).hexdigest()
            for one in group
            if group[one] == name
        }
        lowest = sorted(hashes, key=lambda one: hashes[one])[: taken[name]]
        assert set(lowest) == {one for one in found if group[one] == name}


def test_chunks_by_length(tmp_path: Path, server: Server) -> None:
    tiny = asking(tmp_path / "tiny", server, min_characters=30, max_characters=60)
    first = planned(tiny).work("llm_calls")
    generate(tiny)
    chunks = tiny.rows(CHUNKS_KEY)
    expected = [row["chunk_id"] for row in chunks if 30 <= len(row["text"].strip()) <= 60]
    assert [row["chunk_id"] for row in tiny.rows(QUESTIONS_KEY)] == expected
    assert first == len(server.received) == len(expected) > 1
    tiny.config["questions"] |= {"min_characters": 1000, "max_characters": 1001}
    tiny.write_config()
    with pytest.raises(DataError, match="no question is left of 0 chunks: none was chosen"):
        generate(tiny)


def test_bad_answers_cost_their_chunk_alone(tiny: Tiny, server: Server) -> None:
    server.on("single ticket", replies.says("no list, no question"))
    server.on("diesel", replies.says(""))
    server.on("crew of five", replies.refuses("No."))
    server.on("life jacket for every", replies.says('[{"question": "Why?"}]'))
    server.on("car deck", replies.error(500), replies.says(reply("Text:\nfoam on the car deck")))
    generate(tiny)
    artifact = tiny.pipeline().artifact(QUESTIONS_KEY)
    assert artifact.manifest.facts["n_chunks"] == len(tiny.rows(CHUNKS_KEY))
    notes = tiny.facts(QUESTIONS_KEY)["notes"]
    assert notes[:2] == ["1 dropped: not_a_question", "1 dropped: too_short"]
    assert any("the model refused: No." in note for note in notes)
    assert len(artifact.manifest.failures) == 3
    asked = {row["chunk_id"] for row in tiny.rows(QUESTIONS_KEY)}
    assert len([row["text"] for row in tiny.rows(CHUNKS_KEY) if row["chunk_id"] not in asked]) == 5
    # What the server did not answer is asked for again on demand, and nothing else.
    assert artifact.manifest.facts[UNANSWERED] == 1
    pipeline, n = tiny.pipeline(), len(server.received)
    assert unanswered(pipeline) == {QUESTIONS_KEY: 1}
    assert try_again(pipeline) == 1
    generate(tiny)
    assert len(server.received) == n + 1
    assert len(tiny.rows(QUESTIONS_KEY)) == len(asked) + 1
    assert UNANSWERED not in tiny.pipeline().artifact(QUESTIONS_KEY).manifest.facts


def test_who_uses_the_model_that_wrote_the_questions_is_named(tiny: Tiny, server: Server) -> None:
    tiny.config["llms"] = {
        "same": {"model": "org/m", "base_url": server.base_url, "api_key_env": None},
        "other": {"model": "n", "base_url": server.base_url, "api_key_env": None},
    }
    tiny.config["query_sets"] = {
        "guess": {"strategy": "hyde", "llm": "same"},
        "clear": {"strategy": "rewrite", "llm": "other"},
    }
    tiny.configure("bm25", query_set="guess")
    tiny.configure("bm25-whole", query_set="clear")
    experiment = load_experiment(tiny.folder)
    end = "so retrievers that use it may look better than they are"
    circle = f"m writes the questions, and (as org/m) writes the queries of guess: {end}"
    # A chunk that is found by questions of the model that asks is found by its own question.
    found_by = f"m writes the questions, and writes the questions by which parts is found: {end}"
    assert question_circles(experiment) == [circle]
    generate(tiny)
    pipeline, stage = tiny.pipeline(), STAGES[QUESTIONS_KEY.asset]
    found = results_of(pipeline, stage, pipeline.materialize(stage.name, [QUESTIONS_KEY]))
    failed = {one.check.name: list(one.outcome.problems) for one in found if not one.passed}
    assert failed == {"questions_are_independent": [circle]}
    done = tiny.command("plan", ".")
    assert done.exit_code == 0
    assert f"warning: {circle}" in " ".join(done.stderr.split())
    tiny.config["chunking"]["parts"]["index_texts"] = ["text", "questions"]
    tiny.write_config()
    assert question_circles(load_experiment(tiny.folder)) == [circle, found_by]


def test_chunks_leave_for_hosts_that_are_named(tiny: Tiny) -> None:
    llm = {"model": "m", "base_url": "https://llm.example/v1", "max_calls": 99}
    tiny.config["llm"] = {**llm, "prompt_price": 1, "completion_price": 2, "max_cost": 5}
    tiny.write_config()
    pipeline = tiny.pipeline()
    for key in (DOCUMENTS_KEY, CHUNKS_KEY):
        pipeline.materialize(key.asset, [key])
    (line,) = STAGES[QUESTIONS_KEY.asset].expected_work(pipeline, QUESTIONS_KEY).requests
    n = len(tiny.rows(CHUNKS_KEY))
    assert (line.client, line.host, line.questions) == ("llm", "llm.example", 0)
    assert (line.requests, line.passages, line.max_calls, line.max_cost) == (n, n, 99, 5)
    assert line.tokens is not None
    assert line.cost == pytest.approx((line.tokens + n * 512) / 1e6)  # answers cost twice


@pytest.mark.parametrize(
    ("options", "key", "problem"),
    [
        ({"chunking": None}, "questions", "needs `chunking`, one of whole, parts"),
        ({"chunking": "part"}, "questions.chunking", "unknown chunking 'part' (did you mean"),
        ({"llm": "x"}, "questions.llm", "unknown model 'x'"),
        ({"chunk": 3}, "questions.chunk", "unknown key 'chunk' (did you mean"),
        ({"chunks": 0}, "questions.chunks", "greater than or equal to 1"),
        ({"spread": "heading"}, "questions", "give their number"),
        (
            {"min_characters": 9, "max_characters": 8},
            "questions",
            "max_characters 8 must be at least min_characters, 9",
        ),
        ({"template": "bare.txt"}, "questions.template", "{text}"),
        (
            {"template": "text.txt", "language": "German"},
            "questions.language",
            "the prompt does not use it; write {language} in text.txt",
        ),
    ],
)
def test_errors_name_file_line_and_key(
    tiny: Tiny, options: dict[str, Any], key: str, problem: str
) -> None:
    (tiny.folder / "bare.txt").write_text("version: 1\n[user]\nAsk.")
    (tiny.folder / "text.txt").write_text("version: 1\n[user]\n{text}")
    tiny.config["questions"] = {"chunking": "parts", **options}
    tiny.write_config()
    with pytest.raises(ConfigError) as raised:
        load_experiment(tiny.folder)
    assert problem in str(raised.value)
    assert re.search(rf"experiment\.yaml:\d+: `{re.escape(key)}`: ", str(raised.value))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"llm": None}, "`questions`: needs a language model; add the key `llm`"),
        (
            {
                "dataset": {"format": "markdown", "judge": "chunk"},
                "chunking": {"parts": {"strategy": "none"}},
                "retrievers": {"bm25": {"type": "bm25"}},
            },
            "`dataset.judge`: chunk: the labels of generated",
        ),
    ],
)
def test_without_a_model_or_evidence(tiny: Tiny, changes: dict[str, Any], problem: str) -> None:
    changed = {**tiny.config, **changes}
    tiny.config = {name: value for name, value in changed.items() if value is not None}
    tiny.write_config()
    with pytest.raises(ConfigError, match=problem):
        load_experiment(tiny.folder)


def test_validate_asks_nothing(tiny: Tiny, server: Server) -> None:
    before = Validation(tiny.pipeline())
    assert not server.received
    assert before.rows == {"documents": len(DOCUMENTS), "queries": 0, "qrels": 0}
    assert "labels: the questions are not generated yet" in before.skipped
    assert before.n_errors == 0
    generate(tiny)
    n = len(tiny.rows(QUESTIONS_KEY))
    rows = {"documents": len(DOCUMENTS), "queries": n, "qrels": n}
    assert Validation(tiny.pipeline()).rows == rows
    assert len(server.received) == n


def test_no_code_of_generation_stands_behind_labels_of_people(tmp_path: Path) -> None:
    pipeline = Tiny(tmp_path).write().pipeline()
    experiment = pipeline.experiment
    for stage in pipeline.stages():
        for code in {tuple(stage.code(experiment, key)) for key in stage.keys(experiment)}:
            reached = CodeVersions().closure(code).definitions
            assert not {one for one in reached if "labels.question" in one.module}, stage.name
