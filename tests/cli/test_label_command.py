"""``rag-assets label``: what it serves, and what becomes of it when the experiment changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rag_assets.experiment import load_experiment
from rag_assets.labels.experiment_pool import sampled_pool
from rag_assets.labels.sampling.design import read_design
from rag_assets.labels.sampling.judgment_log import design_file, read_judgments
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.registry import open_experiment
from rag_assets.sources.formats import LABELLING_LOG as LOG
from rag_assets.sources.formats import unread_labels
from tests.labels.page.served import Client, moment
from tests.tiny_experiment import Tiny


@pytest.fixture
def tiny(tmp_path: Path, computed: Tiny) -> Tiny:
    tiny = Tiny(tmp_path / "tiny").start_from(computed)
    names = ("bm25", "okapi")
    tiny.config["retrievers"] = {name: tiny.config["retrievers"][name] for name in names}
    tiny.config |= {"metrics": ["dcg"], "primary": "dcg@5"}
    tiny.write()
    (tiny.folder / "judgments.jsonl").unlink()
    tiny.run()
    return tiny


@contextmanager
def labelling(tiny: Tiny) -> Iterator[Client]:
    """Run the command until Ctrl-C."""
    command = [sys.executable, "-m", "rag_assets.cli", "label", str(tiny.folder), "--no-browser"]
    with subprocess.Popen(
        [*command, "--store", str(tiny.settings.store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), process.stderr.read()
        try:
            yield Client(address)
        finally:
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
    assert process.returncode == 0
    assert "Traceback" not in said
    assert address not in said
    assert "judgments go to " in said


def sampled(tiny: Tiny) -> Pipeline:
    return Pipeline(open_experiment(tiny.folder, tiny.settings), tiny.settings)


def test_judgments_stay_when_a_retriever_joins(tiny: Tiny) -> None:
    with labelling(tiny) as client:
        first = client.ask("next", by="ada")
        task = first["task"]
        for number in range(5):
            _, reply = client.answer("ada", moment(number), task)
            task = reply["task"]
        hits = client.ask("search", query_id="q1", text="oil engines")
        assert hits[0]["document_id"] == "engines.md"
        assert ["engine", True] in hits[1]["text"]["parts"]
    log = tiny.folder / LOG
    lines = read_judgments(log)
    assert len(lines) == 5
    assert unread_labels(sampled(tiny).experiment.dataset) is None
    old = read_design(design_file(log))
    assert len(old.items) == first["progress"]["left"]

    tiny.config["retrievers"]["whole"] = {"type": "tfidf", "chunking": "whole"}
    tiny.write_config()
    tiny.run()
    with labelling(tiny) as client:
        now = client.ask("next", by="ada")["progress"]
    new = read_design(design_file(log))
    assert new.items[: len(old.items)] == old.items
    assert (len(new.durations), now["answered"]) == (1, 5)
    assert (new.rates[0, : len(old.items)] == old.rates[0]).all()
    assert (new.rates[1, : len(old.items)] >= old.rates[0]).all()
    again = sampled_pool(sampled(tiny), 5)
    assert again.design.durations == new.durations
    assert read_judgments(log) == lines


def test_labels_of_the_dataset_are_known_before(tiny: Tiny) -> None:
    tiny.write_rows(
        "judgments.jsonl",
        [{"query_id": "q1", "doc_id": "fares.md", "quote": "A dog needs a ticket of 10 crowns."}],
    )
    tiny.run()
    known = sampled_pool(sampled(tiny), 5).earlier
    assert {(one.unit.query_id, one.unit.document_id, one.grade) for one in known} == {
        ("q1", "fares.md", 1)
    }


def test_two_experiments_of_a_folder_have_a_log_each(tiny: Tiny) -> None:
    other = tiny.folder / "other.yaml"
    other.write_text((tiny.folder / "experiment.yaml").read_text(), encoding="utf-8")
    named = tiny.folder / "named.yaml"
    named.write_text(other.read_text() + "judgments_log: by_hand.jsonl\n", encoding="utf-8")
    paths = [load_experiment(one).judgments_log for one in (tiny.folder, other, named)]
    assert [path.name for path in paths] == [LOG, f"other.{LOG}", "by_hand.jsonl"]
    assert {path.parent for path in paths} == {tiny.folder}
    assert design_file(paths[1]).name == "other.labelling.design.jsonl"
