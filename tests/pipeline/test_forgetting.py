"""After `clean --document` no byte of the store holds the text; what is no text stays."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from rag_assets.cli import main
from rag_assets.llm.client import ChatRequest, Completion, Message
from rag_assets.llm.replies import ReplyStore
from rag_assets.pipeline.cleaning import to_forget
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.pipeline.history import History
from rag_assets.report.evaluation_pairs import comparability
from rag_assets.report.result import EvaluationResult
from tests.answers.answering import with_answers
from tests.cached_vectors import VectorCache
from tests.llm.requests import store_replies
from tests.tiny_experiment import DOCUMENTS, JUDGMENTS, QUERIES, Tiny

SECRET = [
    "A single ticket costs 40 crowns on every route.",
    "Children under six travel free of charge.",
    "A dog needs a ticket of 10 crowns.",
]
MODEL = {"model": "m", "server": "s"}


def command(tiny: Tiny, *words: str) -> Result:
    runner = CliRunner(env={"COLUMNS": "80", "DAGSTER_HOME": None})
    return runner.invoke(main, [*words, "--store", str(tiny.settings.store)])


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file as it is, and every Parquet file as its values in plain text."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield path, path.read_bytes()
        if path.suffix == ".parquet":
            table = pq.read_table(path, partitioning=None)
            yield path, repr([table.schema.metadata, table.to_pydict()]).encode()


def holding(folder: Path, texts: list[str]) -> set[Path]:
    return {path for path, content in contents(folder) for t in texts if t.encode() in content}


def asked(text: str) -> ChatRequest:
    return ChatRequest((Message("user", f'Which is best?\n\n"{text}"'),), template="p/1")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Evaluated through Dagster, with entries in the caches."""
    tiny = Tiny(tmp_path_factory.mktemp("forgetting") / "master")
    kept = ("bm25", "bm25-whole")
    tiny.config["retrievers"] = {name: tiny.config["retrievers"][name] for name in kept}
    tiny.config["top_k"] = [5]
    tiny.write()
    assert command(tiny, "evaluate", str(tiny.folder)).exit_code == 0
    store = tiny.settings.store
    vectors = np.eye(2, dtype=np.float32)
    whole = f"Fares\n{DOCUMENTS['fares.md']}"
    VectorCache(store / "cache" / "embeddings", "a" * 64).put([whole, "another text"], vectors)
    answers = [
        (asked(text), Completion(text, 1, 1, "stop")) for text in (SECRET[1], "Another passage.")
    ]
    store_replies(store / "cache" / "completions", MODEL, answers)
    (tiny.artifacts / "report.html").write_text(f"<p>{SECRET[2]}</p>")
    (tiny.objects("chunks") / "0.parquet.tmp-0123").write_bytes(SECRET[0].encode())
    return tiny


@pytest.fixture
def cleaned(master: Tiny, tmp_path: Path) -> Tiny:
    return master.copy_to(tmp_path / "cleaned")


def test_no_byte_of_the_text_is_left(cleaned: Tiny) -> None:
    store = cleaned.settings.store
    before = holding(store, SECRET)
    assert any("documents" in path.parts for path in before)
    assert any("dagster" in path.parts for path in before)
    dry = command(cleaned, "clean", "--document", "fares.md")
    assert dry.exit_code == 0
    assert "would be removed" in dry.stdout
    assert holding(store, SECRET) == before
    done = command(cleaned, "clean", "--document", "fares.md", "--yes")
    assert done.exit_code == 0, done.output
    assert "Dagster instance" in done.stdout
    assert "the dataset itself" in done.stderr
    assert holding(store, SECRET) == set()
    again = command(cleaned, "clean", "--document", "fares.md", "--yes")
    assert again.exit_code == 2
    assert "holds a document 'fares.md'" in again.stderr


def test_no_byte_of_a_text_in_a_file_is_left(cleaned: Tiny, tmp_path: Path) -> None:
    store = cleaned.settings.store
    file = tmp_path / "passage.txt"
    file.write_text(f"{SECRET[1]}\n")
    assert holding(store, SECRET[1:2])
    done = command(cleaned, "clean", "--text", str(file), "--yes")
    assert done.exit_code == 0, done.output
    assert holding(store, SECRET[1:2]) == set()
    assert command(cleaned, "clean", "--text", str(file), "--yes").stdout == "nothing to remove\n"
    _, cached = VectorCache(store / "cache" / "embeddings", "a" * 64).get(["another text"])
    assert cached.all()
    file.write_text(" ")
    assert "holds no text" in command(cleaned, "clean", "--text", str(file)).stderr
    mixed = command(cleaned, "clean", "--document", "a", "--caches", "1")
    assert "--document and --text exclude" in mixed.stderr


def test_the_text_goes_from_all_experiments_and_they_are_named(
    cleaned: Tiny, tmp_path: Path
) -> None:
    other = Tiny(tmp_path / "other")
    whole = other.config["retrievers"]["bm25-whole"]
    other.config |= {"name": "other", "retrievers": {"bm25-whole": whole}, "top_k": [5]}
    other.config["baseline"] = "bm25-whole"
    other.config["chunking"]["whole"] = {"strategy": "recursive", "max_tokens": 8, "overlap": 0}
    other.write()
    (other.folder / "fares.md").rename(other.folder / "prices.md")
    other.write_rows("judgments.jsonl", [{**JUDGMENTS[0], "doc_id": "prices.md"}, *JUDGMENTS[1:]])
    done = command(cleaned, "evaluate", str(other.folder))
    assert done.exit_code == 0, done.output
    store = cleaned.settings.store
    done = command(cleaned, "clean", "--document", "fares.md", "--experiment", "tiny", "--yes")
    assert done.exit_code == 0, done.output
    assert holding(store, SECRET) == set()
    assert "note: tiny has to be evaluated again: rag-assets evaluate" in done.stderr
    assert "labelling.jsonl with its .design and .questions files" in done.stderr
    assert "answer_labels.jsonl" in done.stderr
    assert f"note: other has to be evaluated again: rag-assets evaluate {other.folder}" in (
        done.stderr
    )


def test_what_is_no_text_of_it_stays(cleaned: Tiny) -> None:
    store = cleaned.settings.store
    latest = EvaluationNames(cleaned.settings, cleaned.artifacts.name).pin("latest")
    board = list(cleaned.objects("leaderboard").iterdir())
    assert command(cleaned, "clean", "--document", "fares.md", "--yes").exit_code == 0
    assert all(path.exists() for path in board)
    assert History(cleaned.artifacts, cleaned.settings.locks).ids() == [latest.evaluation_id]
    assert command(cleaned, "leaderboard", str(cleaned.folder)).exit_code == 0
    _, known = VectorCache(store / "cache" / "embeddings", "a" * 64).get(["another text"])
    assert known.all()
    answers = ReplyStore(store / "cache" / "completions").get(
        MODEL, [asked(SECRET[1]), asked("Another passage.")]
    )
    assert [answer is not None for answer in answers] == [False, True]


def test_what_was_stored_without_an_evaluation_is_found(cleaned: Tiny) -> None:
    shutil.rmtree(cleaned.artifacts / "evaluations")
    (cleaned.artifacts / "current").unlink()
    assert command(cleaned, "clean", "--document", "fares.md", "--yes").exit_code == 0
    assert holding(cleaned.settings.store, SECRET) == set()


def test_an_evaluation_goes_on_without_the_document(cleaned: Tiny) -> None:
    names = EvaluationNames(cleaned.settings, cleaned.artifacts.name)
    names.pin("latest")
    (cleaned.folder / "fares.md").unlink()
    cleaned.write_rows("queries.jsonl", QUERIES[1:])
    cleaned.write_rows("judgments.jsonl", JUDGMENTS[1:])
    assert command(cleaned, "clean", "--document", "fares.md", "--yes").exit_code == 0
    cleaned.run()
    cleaned.snapshot()
    assert holding(cleaned.settings.store, SECRET) == set()
    old = EvaluationResult(cleaned.artifacts, names.find("anchor"))
    found = comparability(old, EvaluationResult.current(cleaned.artifacts))
    assert [reason.text for reason in found.reasons] == ["1 labelled query removed"]
    assert len(found.shared) == 5
    assert command(cleaned, "diff", str(cleaned.folder), "anchor", "latest").exit_code == 1


def test_an_experiment_without_the_document_is_not_touched(tiny: Tiny) -> None:
    result = command(tiny, "clean", "--document", "nobody.md", "--yes")
    assert result.exit_code == 2
    assert "no artifact of any experiment" in result.stderr


def test_answers_that_were_written_from_it_go_too(fresh: Tiny) -> None:
    with_answers(fresh, split={"dev": 0.5, "seed": 0})
    fresh.config["generators"] = {"spans": {"type": "extractive"}}
    short = {"generator": "spans", "retriever": "bm25", "top_k": [3]}
    fresh.config["answers"] = {"copy": short, "none": {"generator": "spans", "context": "none"}}
    fresh.config["judges"] = {"floor": {"type": "words"}}
    fresh.write_config()
    fresh.run()
    fresh.snapshot()
    shown = {*fresh.stored("answers", "copy@3"), *fresh.stored("answer_verdicts")}
    blind = fresh.stored("answers", "none@-")
    assert len(shown) == 2
    forgotten = to_forget(fresh.settings, "fares.md")
    assert forgotten is not None
    gone = {item.path for item in forgotten.files}
    assert shown <= gone
    assert gone.isdisjoint(blind)
    assert gone.isdisjoint(fresh.stored("answer_metrics") + fresh.stored("relevance_verdicts"))
