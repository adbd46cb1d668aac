"""``rag-assets init`` and ``ask``: what a user has before there are queries and labels."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest

import rag_assets
from rag_assets.analysis.question_hits import Excerpt, excerpt, marks
from rag_assets.engine.measurements import MEASUREMENTS, Measurements, seconds_per_text
from rag_assets.experiment import ExperimentConfig, load_experiment
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.plan import REUSE, plan
from rag_assets.pipeline.selection import Selection
from rag_assets.sources.writers import WRITERS
from tests.beir_folder import FILES, write_beir
from tests.cli.conftest import Invoke
from tests.sources.test_samples import MUSIQUE
from tests.tiny_experiment import DOCUMENTS


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


LABEL_FILES = ("answer_labels", "passage_labels", "judgments_log")
"""They lie beside a YAML file, so without one there is no place for them."""

COMPLETED = ("name", "dataset", "chunking", "retrievers", "top_k", "metrics", "primary", "baseline")
"""Keys of the file that the default leaves out: what they become is compared."""


def assert_means_the_default(data: Path, file: Path) -> None:
    """The experiment of the file is that of the bare data, but for where it is written."""
    moved = file.with_name("moved.away")
    with_file = load_experiment(file)
    shutil.move(file, moved)
    without = load_experiment(data)
    shutil.move(moved, file)
    for key in ExperimentConfig.model_fields.keys() - set(COMPLETED):
        assert getattr(with_file.config, key) == getattr(without.config, key), key
    for field in dataclasses.fields(without):
        if field.name not in {"config", "source", "has_file", "name", "dataset", *LABEL_FILES}:
            # Retrievers compare by their options, also those that the file leaves to the default.
            assert getattr(with_file, field.name) == getattr(without, field.name), field.name
    assert with_file.dataset.format == without.dataset.format
    assert with_file.dataset.document_files() == without.dataset.document_files()


@pytest.mark.parametrize("form", sorted(WRITERS))
def test_every_format_gets_a_file_that_means_the_default(
    form: str, invoke: Invoke, tmp_path: Path
) -> None:
    source = write_beir(tmp_path / "source", {})
    data = tmp_path / "data"
    assert invoke("convert", source, "--to", form, "--out", data).exit_code == 0
    if form == "llamaindex":
        (data,) = data.glob("*.json")
    result = invoke("init", data)
    assert result.exit_code == 0, result.output
    file = (data if data.is_dir() else data.parent) / "experiment.yaml"
    assert f"next: rag-assets evaluate {file}" in result.stderr
    assert "4 documents" in result.stdout
    assert_means_the_default(data, file)


def test_samples_of_another_tool_alone(tmp_path: Path, invoke: Invoke) -> None:
    root = write(tmp_path / "data", {"musique.json": json.dumps(MUSIQUE)})
    started = invoke("init", root / "musique.json")
    assert started.exit_code == 0, started.output
    assert " documents, 2 queries, 2 judgments" in started.stdout
    assert "not read as such" not in started.stderr
    assert "path: musique.json" in (root / "experiment.yaml").read_text(encoding="utf-8")


def test_pages_and_nothing_else(invoke: Invoke, tmp_path: Path) -> None:
    """Examples are written, told apart from questions, and each command says what is next."""
    data = write(tmp_path / "ferry", {**DOCUMENTS, "copy.md": DOCUMENTS["crew.md"]})
    store = ("--store", tmp_path / "store")
    next_step = f"there are no questions yet; `rag-assets init {data}` writes examples to replace"
    for words in (["evaluate"], ["plan"], ["pool"]):
        result = invoke(*words, data, *store)
        assert result.exit_code == 1
        assert result.stderr.splitlines()[-1].startswith(
            f"error: {data}/queries.jsonl: {next_step}"
        )
    result = invoke("init", data, *store)
    assert result.exit_code == 0, result.output
    assert "9 documents, 0 queries, 0 judgments\n" in result.stdout
    assert "queries.jsonl: 3 example questions to replace\n" in result.stdout
    assert "near-duplicates  1: copy.md and crew.md (1.00)\n" in result.stdout
    assert (
        f'next: rag-assets ask {" ".join(map(str, store))} {data} "your question"\n'
        in result.stderr
    )
    assert f"then: replace the examples in {data}/queries.jsonl, and" in result.stderr
    assert "# There are no questions yet." in (data / "experiment.yaml").read_text()
    lines = (data / "queries.jsonl").read_text().splitlines()
    assert len(lines) == 3
    refused = invoke("evaluate", data, *store)
    assert refused.exit_code == 1
    assert "queries.jsonl:1: `text`: is still an example" in refused.stderr
    assert invoke("validate", data, *store).stdout.count("is still an example") == 3
    planned = invoke("plan", data, *store)
    assert planned.exit_code == 0
    assert "queries.jsonl still has 3 example questions from `init`" in planned.stderr
    (data / "queries.jsonl").write_text(lines[0].replace("EXAMPLE: replace", "do not replace"))
    assert invoke("evaluate", data, *store, "--retriever", "bm25").exit_code == 0


def test_the_time_of_many_chunks_is_measured(invoke: Invoke, tmp_path: Path) -> None:
    words = ("ferry", "harbour", "crew", "engine", "fare")
    texts = {
        f"{n}.md": f"The {words[n % 5]} of {n} is {words[n % 3]} number {n}.\n" for n in range(240)
    }
    data = write(tmp_path / "ferry", texts)
    store = tmp_path / "store"
    by_sample = invoke("init", data, "--store", store)
    assert re.search(
        r"evaluate takes   a.*, nearly all to embed the chunks \(\S+/s, measured on 30 of them\); "
        "--retriever bm25 takes seconds",
        by_sample.stdout,
    )
    assert seconds_per_text(store / MEASUREMENTS, DEFAULT_MODEL) is not None
    shutil.rmtree(store / MEASUREMENTS)
    measured = Measurements(store / MEASUREMENTS, "other")
    measured.add("embed", "f" * 64, 480.0, 240, model=DEFAULT_MODEL)
    (data / "experiment.yaml").unlink()
    known = invoke("init", data, "--store", store, "--out", tmp_path / "x.yaml")
    assert known.exit_code == 1  # the examples are still there
    (data / "queries.jsonl").unlink()
    known = invoke("init", data, "--store", store)
    # 240 chunks and the 60 that are reranked for three questions, two seconds each.
    assert "about 10 minutes, nearly all to embed the chunks (0.5/s, measured bef" in known.stdout


def test_a_language_that_the_default_model_cannot_read(invoke: Invoke, tmp_path: Path) -> None:
    changes = {
        "corpus.jsonl": "".join(
            f'{{"_id": "d{n}", "title": "", "text": "渡轮票价四十克朗儿童免费乘坐"}}\n'
            for n in (1, 2, 3, 4)
        )
    }
    data = write_beir(tmp_path / "chinese", changes)
    assert invoke("init", data).exit_code == 0
    text = (data / "experiment.yaml").read_text(encoding="utf-8")
    assert list(load_experiment(data).retrievers) == ["bm25"]
    assert "  # minilm: {type: embedding" in text


def test_a_file_that_is_there_is_left_alone(invoke: Invoke, tmp_path: Path) -> None:
    data = write_beir(tmp_path / "data", {"experiment.yaml": "top_k: [1]\n"})
    result = invoke("init", data)
    assert result.exit_code == 2
    assert result.output == (
        f"error: {data / 'experiment.yaml'}: already exists; name another with --out\n"
    )
    assert (data / "experiment.yaml").read_text() == "top_k: [1]\n"
    other = tmp_path / "other"
    refused = invoke("init", data, "--out", other)
    assert (refused.exit_code, other.exists()) == (2, False)
    problem = f"must end in .yaml, such as {other / 'experiment.yaml'}"
    assert refused.output == f"error: --out {other}: {problem}\n"
    assert invoke("init", data, "--out", tmp_path / "other.yaml").exit_code == 0
    assert load_experiment(tmp_path / "other.yaml").dataset.root == data


@pytest.mark.parametrize(
    ("changes", "code"), [({"corpus.jsonl": None}, 1), ({"queries.jsonl": "{"}, 1)]
)
def test_data_that_cannot_be_read_leaves_no_file(
    changes: dict[str, str | None], code: int, invoke: Invoke, tmp_path: Path
) -> None:
    data = write_beir(tmp_path / "data", changes)
    result = invoke("init", data)
    assert result.exit_code == code
    assert result.output.startswith("error: ")
    assert result.output.count("\n") == 1
    assert sorted(p.name for p in data.iterdir()) == sorted(
        {name.split("/")[0] for name in FILES} - {n for n, t in changes.items() if t is None}
    )


YAML = """
retrievers:
  again: {type: rrf, inputs: [bm25, shallow]}
  bm25: {type: bm25, analyzer: english}
  shallow: {type: bm25, analyzer: english, b: 0.0}
top_k: [1, 3]
"""


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    return write(tmp_path / "ferry", {**DOCUMENTS, "experiment.yaml": YAML})


def test_pages_without_queries_are_asked(invoke: Invoke, pages: Path, tmp_path: Path) -> None:
    question = "do dogs need tickets"
    result = invoke("ask", pages, question, "--store", tmp_path / "store", "--top-k", 2)
    assert result.exit_code == 0, result.output
    blocks = result.stdout.split("\n\n")
    # The cheap ones are first, whatever the order in the file.
    assert [block.split(",")[0] for block in blocks[:3]] == ["bm25", "shallow", "again"]
    assert "1 [1] fares.md 0-" in blocks[0]
    assert "A \u00bbdog\u00ab \u00bbneeds\u00ab a \u00bbticket\u00ab of 10 crowns." in blocks[0]
    assert "crowns" not in blocks[2]  # a text is shown once
    assert blocks[3].splitlines()[0].split() == ["passage", "bm25", "shallow", "again"]
    assert blocks[3].splitlines()[1].split()[-3:] == ["1", "1", "1"]
    assert not list((tmp_path / "store").glob("objects/*_runs/*"))
    assert not list((tmp_path / "store").glob("objects/queries/*"))


def test_the_hits_are_those_of_an_evaluation(tmp_path: Path) -> None:
    """What is asked is ranked as a query of the same text is."""
    folder = write_beir(tmp_path / "tiny", {"experiment.yaml": YAML})
    store = tmp_path / "store"
    hits = rag_assets.ask(folder, "lorries on the upper deck", top_k=3, store=store)
    evaluated = rag_assets.evaluate(folder, store)
    for found in hits.found:
        key = evaluated.run_keys(found.retriever)[3]
        rows = [row for row in evaluated.table(key).to_pylist() if row["query_id"] == "q3"]
        expected = [(row["rank"], row["score"], row["document_id"]) for row in rows]
        assert [(hit.rank, hit.score, hit.document_id) for hit in found.hits] == expected
    # The indexes that it left are those that an evaluation wants.
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "harbour"}\n')
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    other = tmp_path / "other"
    rag_assets.ask(folder, "harbour", store=other)
    pipeline = Pipeline.open(folder, other)
    steps = plan(pipeline, Selection.of(pipeline.experiment)).steps
    actions = {step.key.asset: step.action for step in steps}
    assert (actions["lexical_index"], actions["chunks"]) == (REUSE, REUSE)


def test_a_retriever_without_an_answer_stops_no_other(
    invoke: Invoke, pages: Path, tmp_path: Path
) -> None:
    (pages / "old.trec").write_text("q1 Q0 fares.md 1 1.0 t\n")
    yaml = "retrievers: {bm25: {type: bm25}, old: {type: run_file, path: old.trec}}\n"
    (pages / "experiment.yaml").write_text(yaml)
    options = ("--store", tmp_path / "store")
    result = invoke("ask", pages, "dog", *options)
    assert result.exit_code == 0
    assert "no answer: its rankings come from a file" in result.stdout
    assert "fares.md" in result.stdout
    result = invoke("ask", pages, "dog", *options, "--retriever", "bm25", "--format", "json")
    (row,) = json.loads(result.stdout)
    assert (row["retriever"], row["passage"], row["rank"]) == ("bm25", 1, 1)
    # The heading is the title, and no part of the text.
    text = DOCUMENTS["fares.md"].removeprefix("# Fares\n\n")
    assert row["text"] == text[row["start"] : row["end"]]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((" ",), "error: the question is blank; write one\n"),
        (("dog", "--retriever", "bm52"), "unknown retriever 'bm52'"),
    ],
)
def test_what_cannot_be_asked(
    words: tuple[str, ...], problem: str, invoke: Invoke, pages: Path, tmp_path: Path
) -> None:
    result = invoke("ask", pages, *words, "--store", tmp_path / "store")
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


def test_marked_words_and_excerpts() -> None:
    text = "You do what you can to return a part."
    found = [text[a:b] for a, b in marks(text, "What do I do to return a part?", "standard")]
    assert found == ["return", "part"]
    assert marks("What is that", "what is that", "standard")  # nothing else is asked
    text = "The dog and its DOGS, hot-dog; dogma."
    found = [text[a:b] for a, b in marks(text, "the dogs", "english")]
    assert found == ["dog", "DOGS", "dog"]
    text = f"dog {'x ' * 300}a dog barks at a dog {'y ' * 300}"
    shown = excerpt(text, marks(text, "dog barks", "standard"), 100)
    assert [shown.text[a:b] for a, b in shown.marks] == ["dog", "barks", "dog"]
    assert "a dog barks at a dog" in shown.text
    assert shown.text.startswith("... ")
    assert shown.text.endswith(" ...")
    assert excerpt("short", [], 100) == Excerpt("short", [])
