"""After `clean --document` no byte of the store holds the text; what is no text stays."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.analysis.comparability import comparability
from rag_assets.analysis.result import EvaluationResult
from rag_assets.llm.client import ChatRequest, Completion, Message
from rag_assets.llm.replies import ReplyStore
from rag_assets.pipeline import forgetting
from rag_assets.pipeline.cleaning import items
from rag_assets.pipeline.forgetting import LAST, MAX_FRAGMENTS, fragments_of, holds_any, to_forget
from rag_assets.pipeline.history import History
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
    assert tiny.command("evaluate", str(tiny.folder)).exit_code == 0
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
    (store / "warehouse.duckdb.tmp-0123").write_bytes(SECRET[0].encode())
    return tiny


@pytest.fixture
def cleaned(master: Tiny, tmp_path: Path) -> Tiny:
    return master.copy_to(tmp_path / "cleaned")


def test_no_byte_of_the_text_is_left(cleaned: Tiny) -> None:
    store = cleaned.settings.store
    before = holding(store, SECRET)
    assert any("documents" in path.parts for path in before)
    assert any("dagster" in path.parts for path in before)
    dry = cleaned.command("clean", "--document", "fares.md")
    assert dry.exit_code == 0
    assert "would be removed" in dry.stdout
    assert holding(store, SECRET) == before
    done = cleaned.command("clean", "--document", "fares.md", "--yes")
    assert done.exit_code == 0, done.output
    assert "Dagster instance" in done.stdout
    assert "the dataset, and files made from it outside the store, are not touched" in done.stderr
    assert holding(store, SECRET) == set()
    again = cleaned.command("clean", "--document", "fares.md", "--yes")
    assert again.exit_code == 2
    assert "no artifact of any experiment" in again.stderr


def test_no_byte_of_a_text_in_a_file_is_left(cleaned: Tiny, tmp_path: Path) -> None:
    store = cleaned.settings.store
    file = tmp_path / "passage.txt"
    file.write_text(f"{SECRET[1]}\n")
    assert holding(store, SECRET[1:2])
    done = cleaned.command("clean", "--text", str(file), "--yes")
    assert done.exit_code == 0, done.output
    assert holding(store, SECRET[1:2]) == set()
    assert cleaned.command("clean", "--text", str(file), "--yes").stdout == "nothing to remove\n"
    file.write_text(" ")
    assert "holds no text" in cleaned.command("clean", "--text", str(file)).stderr
    mixed = cleaned.command("clean", "--document", "a", "--caches", "1")
    assert "--document and --text cannot be combined with the other options" in mixed.stderr


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
    done = cleaned.command("evaluate", str(other.folder))
    assert done.exit_code == 0, done.output
    store = cleaned.settings.store
    done = cleaned.command("clean", "--document", "fares.md", "--experiment", "tiny", "--yes")
    assert done.exit_code == 0, done.output
    assert holding(store, SECRET) == set()
    assert "note: tiny has to be evaluated again: rag-assets evaluate" in done.stderr
    assert "labelling.jsonl with its .design and .questions files" in done.stderr
    assert "answer_labels.jsonl" in done.stderr
    again = f"rag-assets evaluate --store {store} {other.folder}"
    assert f"note: other has to be evaluated again: {again}" in done.stderr


def test_what_is_no_text_of_it_stays_and_an_evaluation_goes_on(cleaned: Tiny) -> None:
    store, names = cleaned.settings.store, cleaned.names()
    pinned = names.pin("latest")
    board = list(cleaned.objects("leaderboard").iterdir())
    (cleaned.folder / "fares.md").unlink()
    cleaned.write_rows("queries.jsonl", QUERIES[1:])
    cleaned.write_rows("judgments.jsonl", JUDGMENTS[1:])
    assert cleaned.command("clean", "--document", "fares.md", "--yes").exit_code == 0
    assert all(path.exists() for path in board)
    assert History(cleaned.artifacts, cleaned.settings.locks).ids() == [pinned.evaluation_id]
    assert cleaned.command("leaderboard", ".").exit_code == 0
    _, cached = VectorCache(store / "cache" / "embeddings", "a" * 64).get(["another text"])
    assert not cached.any(), "their keys are hashes, so all go"
    answers = ReplyStore(store / "cache" / "completions").get(
        MODEL, [asked(SECRET[1]), asked("Another passage.")]
    )
    assert [answer is not None for answer in answers] == [False, True]
    cleaned.run()
    cleaned.snapshot()
    assert holding(store, SECRET) == set()
    old = EvaluationResult(cleaned.artifacts, names.find("anchor"))
    found = comparability(old, EvaluationResult.current(cleaned.artifacts))
    assert [reason.text for reason in found.reasons] == ["1 labelled query removed"]
    assert len(found.shared) == 5
    assert cleaned.command("diff", ".", "anchor", "latest").exit_code == 1


def test_an_evaluation_whose_questions_are_gone_is_not_advised_to_be_made_again(
    cleaned: Tiny,
) -> None:
    """The artifact comes back where the current evaluation names it, and never else."""
    copied = [{**QUERIES[1], "text": f"{DOCUMENTS['fares.md']} Why?"}, *QUERIES[2:]]
    cleaned.write_rows("queries.jsonl", copied)
    cleaned.write_rows("judgments.jsonl", JUDGMENTS[1:])
    assert cleaned.command("evaluate", ".").exit_code == 0
    assert cleaned.command("anchor", ".").exit_code == 0
    (cleaned.folder / "fares.md").unlink()
    cleaned.write_rows("queries.jsonl", QUERIES[2:])
    cleaned.write_rows("judgments.jsonl", JUDGMENTS[2:])
    assert cleaned.command("clean", "--document", "fares.md", "--yes").exit_code == 0
    for now, remedy in (
        (False, "to compute it again: rag-assets evaluate "),
        (True, "compare with a newer evaluation, or pin one: `rag-assets anchor "),
    ):
        if now:
            assert cleaned.command("evaluate", ".").exit_code == 0
        for words in (("diff", ".", "anchor", "latest"), ("gate", ".", "--against", "anchor")):
            refused = cleaned.command(*words)
            assert (refused.exit_code, remedy in refused.stderr) == (3, True), refused.output
    assert cleaned.command("anchor", ".").exit_code == 0
    assert cleaned.command("gate", ".", "--against", "anchor").exit_code == 0


def test_what_has_no_evaluation_or_cannot_be_read_goes_too(cleaned: Tiny) -> None:
    shutil.rmtree(cleaned.artifacts / "evaluations")
    (cleaned.artifacts / "current").unlink()
    (damaged,) = (cleaned.settings.store / "cache" / "completions").rglob("*.parquet")
    damaged.write_bytes(b"PAR1" + SECRET[1].encode())
    dry = cleaned.command("clean", "--document", "fares.md", columns=200)
    assert "cannot be read, may hold the text" in dry.stdout
    assert cleaned.command("clean", "--document", "fares.md", "--yes").exit_code == 0
    assert not damaged.exists()
    assert holding(cleaned.settings.store, SECRET) == set()


def test_chunks_go_before_documents_however_a_store_is_listed(
    master: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = sorted(items(master.settings), key=lambda item: item.path)
    for order in (listed, listed[::-1]):
        monkeypatch.setattr(forgetting, "items", lambda _settings, order=order: order)
        forgotten = to_forget(master.settings, "fares.md")
        assert forgotten is not None
        kinds = [item.kind for item in forgotten.items]
        first = kinds.index("chunks")
        assert set(kinds[:first]).isdisjoint(LAST)
        assert list(dict.fromkeys(kinds[first:])) == list(LAST)


def test_answers_that_were_written_from_it_go_too(fresh: Tiny) -> None:
    fresh.config |= {"top_k": [3], "metrics": ["mrr"], "primary": "mrr@3"}
    fresh.config["retrievers"] = {"bm25": {"type": "bm25", "chunking": "parts"}}
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
    gone = {item.path for item in forgotten.items}
    assert shown <= gone
    assert gone.isdisjoint(blind)
    assert gone.isdisjoint(fresh.stored("answer_metrics") + fresh.stored("relevance_verdicts"))


SAID = 'The mate says "ahoy, all of you there" and leaves the northern harbour at six.'


@pytest.mark.parametrize("encode", [str, json.dumps, lambda text: json.dumps(json.dumps(text))])
@pytest.mark.parametrize("text", [SAID, "Trajekt z přístavu v šest ráno: čtyřicet korun."])
def test_a_text_in_bytes(tmp_path: Path, encode: type[str], text: str) -> None:
    file = tmp_path / "kept.json"
    file.write_text(encode(f"before {text} after"), encoding="utf-8")
    assert holds_any(file, fragments_of([text]))
    assert not holds_any(
        file, fragments_of(["The second mate says nothing at all in the evening."])
    )
    assert not holds_any(file, fragments_of([]))


COLUMNS = {
    "text": pa.array([None, SAID]),
    "list": pa.array([[], ["before", SAID]]),
    "struct": pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": SAID}]),
    "large": pa.array([SAID, ""], pa.large_string()),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_a_text_in_a_column(tmp_path: Path, column: str) -> None:
    file = tmp_path / "kept.parquet"
    pq.write_table(pa.table({"n": [1, 2], column: COLUMNS[column]}), file)
    assert holds_any(file, fragments_of([SAID]))
    assert holds_any(file, fragments_of([f"unknown words before it, many of them; {SAID}"]))
    assert not holds_any(
        file, fragments_of(["The second mate says nothing at all in the evening."])
    )


def test_a_text_in_the_metadata_and_in_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    table = pa.table({"n": [1]}).replace_schema_metadata({"facts": json.dumps([SAID])})
    pq.write_table(table, tmp_path / "kept.parquet")
    assert holds_any(tmp_path / "kept.parquet", fragments_of([SAID]))
    (tmp_path / "torn.parquet").write_text(SAID, encoding="utf-8")
    assert holds_any(tmp_path / "torn.parquet", fragments_of([SAID]))


def test_which_fragments_are_looked_for() -> None:
    assert fragments_of(["a" * 100]) == ("a" * 60,)
    lines = [f"line {number:02} of a text that is long enough" for number in range(30)]
    chosen = fragments_of(["\n".join(lines)])
    assert len(chosen) == MAX_FRAGMENTS
    assert chosen[0] == lines[0]
    assert chosen[-1] == lines[-1]


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("three four<five six seven", ("five six seven", "three four")),
        ("one<three four", ("three four",)),  # of eight characters or more, where there are
        ("one<two!<ab", ("one", "two!")),  # then of more than two
        ("ab", ()),
    ],
)
def test_fragments_of_short_texts(text: str, fragments: tuple[str, ...]) -> None:
    assert fragments_of([text]) == fragments
