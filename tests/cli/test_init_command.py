"""`rag-assets init`: a file that means what no file means, for every format."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from rag_assets.engine.durations import Durations
from rag_assets.engine.measurements import MEASUREMENTS, Measurements
from rag_assets.experiment import ExperimentConfig, load_experiment
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.sources.writers import WRITERS
from tests.beir_folder import FILES, write_beir
from tests.tiny_experiment import DOCUMENTS

Invoke = Callable[..., Result]

MARKDOWN = {
    "fares.md": "# Fares\n\nA single ticket costs 40 crowns.\n",
    "queries.jsonl": '{"query_id": "q1", "text": "what does a ticket cost"}\n',
    "judgments.jsonl": '{"query_id": "q1", "doc_id": "fares.md", "quote": "costs 40 crowns"}\n',
}


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


def test_markdown_is_cut_and_says_so(invoke: Invoke, tmp_path: Path) -> None:
    data = write(tmp_path / "ferry", MARKDOWN)
    result = invoke("init", data)
    assert result.stdout == (
        f"{data / 'experiment.yaml'}: 1 documents, 1 queries, 1 judgments\n"
        "characters       33; a document has 33 to 33, median 33\n"
        "language         standard (BM25 splits text into words by it)\n"
        "near-duplicates  none\n"
        "chunks           1 (sections_200)\n"
        "evaluate takes   less than a minute\n"
    )
    text = (data / "experiment.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["dataset"] == {"path": ".", "format": "markdown"}
    assert "sections_200: {strategy: recursive, max_tokens: 200, overlap: 30}" in text
    assert_means_the_default(data, data / "experiment.yaml")


def test_without_labels_no_metric_is_written(invoke: Invoke, tmp_path: Path) -> None:
    data = write(tmp_path / "ferry", {n: t for n, t in MARKDOWN.items() if "judg" not in n})
    assert invoke("init", data).exit_code == 0
    text = (data / "experiment.yaml").read_text(encoding="utf-8")
    assert "metrics" not in yaml.safe_load(text)
    assert "rag-assets pool" in text


def test_pages_and_nothing_else(invoke: Invoke, tmp_path: Path) -> None:
    """Examples are written, told apart from questions, and each command says what is next."""
    texts = {**DOCUMENTS, "copy.md": DOCUMENTS["crew.md"]}
    data = write(tmp_path / "ferry", texts)
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
    assert f'next: rag-assets ask {data} "your question"\n' in result.stderr
    assert f"then: replace the examples in {data}/queries.jsonl, and" in result.stderr
    assert "# There are no questions yet." in (data / "experiment.yaml").read_text()
    lines = (data / "queries.jsonl").read_text().splitlines()
    assert len(lines) == 3
    refused = invoke("evaluate", data, *store)
    assert refused.exit_code == 1
    assert "queries.jsonl:1: `text`: is still the example" in refused.stderr
    checked = invoke("validate", data, *store)
    assert checked.stdout.count("is still the example") == 3
    planned = invoke("plan", data, *store)
    assert planned.exit_code == 0
    assert "queries.jsonl still has 3 example questions of `init`" in planned.stderr
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
    # A plan goes by it.
    assert Durations(store / MEASUREMENTS, "any").text(None, DEFAULT_MODEL) is not None
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
