"""The walks of CONTRIBUTING.md, followed to the letter."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY
from tests.installed import install, python
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny

PAGE = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")

RUN = """
import json, sys
from pathlib import Path
from rag_assets.chunking.stage import chunks_key, texts_to_index
from rag_assets.evaluation.relevant_units_stage import relevant_units_key
from rag_assets.evaluation.metrics_stage import LEADERBOARD_KEY, metrics_key
from rag_assets.retrieval.runs_stage import run_key
from tests.tiny_experiment import Tiny

tiny = Tiny(Path(sys.argv[1]))
tiny.run()
pipeline = tiny.pipeline()
experiment = pipeline.experiment
tables = {
    "board": LEADERBOARD_KEY,
    "chunks": chunks_key("pairs"),
    "metrics": metrics_key("bm25", 5),
    "relevant_units": relevant_units_key("bm25"),
    **{name: run_key(experiment, name, 5) for name in experiment.retrievers},
}
rows = {name: pipeline.artifact(key).table().to_pylist() for name, key in tables.items()}
whole = pipeline.artifact(chunks_key("whole")).table()
texts = texts_to_index(experiment, "whole", whole)
indexed = dict(zip(whole["document_id"].to_pylist(), texts.to_pylist()))
print(json.dumps([rows, indexed, sorted(tiny.run())]))
"""
TOLD = """
from rag_assets.experiment.config import ExperimentConfig
from tests.reference_pages import experiment_page, metrics_page
print(metrics_page(), experiment_page(), ExperimentConfig.model_json_schema())
"""


def blocks() -> dict[str, str]:
    """Path -> the code below it."""
    named = re.findall(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return dict(named)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {name: text for name, text in blocks().items() if name.endswith(".py")}
    return install(tmp_path_factory.mktemp("site"), files, blocks()["pyproject.toml"])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("walks"))
    tiny.config.update(yaml.safe_load(blocks()["experiment.yaml"]))
    del tiny.config["baseline"]
    return tiny.write()


def test_the_walks_add_four_members(site: Path, tiny: Tiny) -> None:
    done = python(site, "-c", RUN, str(tiny.root))
    assert done.returncode == 0, done.stderr
    rows, indexed, computed_again = json.loads(done.stdout)
    assert computed_again == []
    assert {row["retriever"] for row in rows["board"]} == {"trigrams", "bm25", "by_words"}
    assert all(0 < row["search_length"] <= 1 for row in rows["board"])
    check_trigrams(rows["trigrams"], indexed)
    check_lines(rows["chunks"])
    check_search_length(rows)
    check_words(rows)


def check_trigrams(rows: list[dict[str, object]], indexed: dict[str, str]) -> None:
    assert set(indexed) == set(DOCUMENTS)
    for query in QUERIES:
        own = [row for row in rows if row["query_id"] == query["query_id"]]
        found = [(row["document_id"], row["score"]) for row in own]
        assert found == by_triples(query["text"], indexed)[:5]


def by_triples(query: str, indexed: dict[str, str]) -> list[tuple[str, float]]:
    """(document, score) by the definition, in the order of every ranking."""

    def triples(text: str) -> set[str]:
        return {a + b + c for a, b, c in zip(text, text[1:], text[2:], strict=False)}

    asked = triples(query.lower())
    scores = {name: float(len(asked & triples(t.lower()))) for name, t in indexed.items()}
    found = [(name, score) for name, score in scores.items() if score > 0]
    return sorted(found, key=lambda pair: (pair[1], pair[0]), reverse=True)


def check_lines(chunks: list[dict[str, str]]) -> None:
    """Two lines a chunk, of every document below its heading."""
    for name, document in DOCUMENTS.items():
        words = "".join(row["text"] for row in chunks if row["document_id"] == name).split()
        assert document.split()[-len(words) :] == words
        assert len(document.split()) - len(words) <= len(document.splitlines()[0].split())
    assert all(len(row["text"].splitlines()) <= 2 for row in chunks)
    assert len(chunks) > len(DOCUMENTS)


def check_search_length(rows: dict[str, list[dict[str, object]]]) -> None:
    """Of the run and the relevant units, counted once more."""
    relevant = {
        (row["query_id"], row["unit_id"])
        for row in rows["relevant_units"]
        if int(str(row["grade"])) > 0
    }
    for row in rows["metrics"]:
        units = [one["unit_id"] for one in rows["bm25"] if one["query_id"] == row["query_id"]]
        places = [n for n, unit in enumerate(units) if (row["query_id"], unit) in relevant]
        assert row["search_length"] == pytest.approx(1 - (places[0] if places else 5) / 5)


def check_words(rows: dict[str, list[dict[str, object]]]) -> None:
    """The score is a share of the words of the query."""
    lengths = {str(query["query_id"]): len(set(query["text"].split())) for query in QUERIES}
    for row in rows["by_words"]:
        n_words = float(str(row["score"])) * lengths[str(row["query_id"])]
        assert n_words == pytest.approx(round(n_words))


@pytest.mark.slow
def test_the_contracts_of_the_walks_hold(site: Path) -> None:
    done = python(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(site / "test_acme.py"))
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_what_is_added_is_told(site: Path, tiny: Tiny) -> None:
    told = python(site, "-c", TOLD)
    assert told.returncode == 0, told.stderr
    assert "| `search_length` | 1 - n / k, n = units above the first relevant one" in told.stdout
    assert "### lines\n\nSo many `lines` a chunk; a blank chunk is left out." in told.stdout
    assert "'lines'" in told.stdout
    assert "'word_share'" in told.stdout
    file = tiny.folder.parent / "first.yaml"
    done = python(site, "-m", "rag_assets.cli", "init", str(tiny.folder), "--out", str(file))
    assert done.returncode == 0, done.stderr
    text = file.read_text(encoding="utf-8")
    assert all(name in text for name in ("lines", "shared_ngrams", "word_share", "search_length"))


@pytest.mark.slow
def test_a_leaderboard_column_is_two_edits(tmp_path: Path) -> None:
    shutil.copytree(
        REPOSITORY / "rag_assets",
        tmp_path / "rag_assets",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (diff,) = re.findall(r"^```diff\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    files = re.findall(r"^--- a/(.*?)\n.*?^@@\n(.*?)(?=^--- a/|\Z)", diff, re.DOTALL | re.MULTILINE)
    assert len(files) == 2
    for name, lines in files:
        kept = "".join(f"{line[1:]}\n" for line in lines.splitlines() if line[0] == " ")
        new = "".join(f"{line[1:]}\n" for line in lines.splitlines())
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.count(kept) == 1, name
        (tmp_path / name).write_text(text.replace(kept, new), encoding="utf-8")
    tiny = Tiny(tmp_path / "tiny")
    tiny.write()
    store = ("--store", str(tiny.root / "store"))
    done = python(tmp_path, "-m", "rag_assets.cli", "evaluate", str(tiny.folder), *store)
    assert done.returncode == 0, done.stderr
    command = ("leaderboard", str(tiny.folder), *store, "--format", "json")
    shown = python(tmp_path, "-m", "rag_assets.cli", *command)
    assert shown.returncode == 0, shown.stderr
    rows = json.loads(shown.stdout)
    assert all(0 <= row["n_single"] <= len(QUERIES) for row in rows)
    page = tmp_path / "page.html"
    report = ("report", str(tiny.folder), *store, "--out", str(page))
    assert python(tmp_path, "-m", "rag_assets.cli", *report).returncode == 0
    assert "single" in page.read_text(encoding="utf-8")


def test_documents_import_public_names_only() -> None:
    public = {"rag_assets", "rag_assets.definitions", "rag_assets.extend", "rag_assets.testing"}
    pages = [
        REPOSITORY / "README.md",
        REPOSITORY / "CONTRIBUTING.md",
        *(REPOSITORY / "docs").rglob("*.md"),
    ]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
        lines = [line.strip() for block in blocks for line in block.splitlines()]
        imports = [re.match(r"(?:from|import) (rag_assets[\w.]*)", line) for line in lines]
        assert {found[1] for found in imports if found} <= public, page.name
