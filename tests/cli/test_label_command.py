"""``rag-assets label`` and ``pool``, and marks that people give questions."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rag_assets.experiment import load_experiment
from rag_assets.labels.experiment_pool import labelling_pipeline, sampled_pool
from rag_assets.labels.logs import (
    MarkName,
    QuestionMark,
    append_lines,
    design_file,
    marks_file,
    read_judgments,
)
from rag_assets.labels.sampling.design import read_design
from rag_assets.labels.sampling.estimates import Estimator
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.progress import no_progress
from rag_assets.sources.formats import LABELLING_LOG, unread_files
from tests.cli.conftest import Invoke
from tests.cli.test_sampled import METRIC, evaluated, judge
from tests.forked import Forks, Place
from tests.labels.page.served import Client, moment
from tests.tiny_experiment import Tiny


@pytest.fixture
def tiny(unlabelled: Tiny, tmp_path: Path) -> Tiny:
    return unlabelled.copy_to(tmp_path / "tiny")


@contextmanager
def labelling(tiny: Tiny, forks: Forks) -> Iterator[Client]:
    log, errors = tiny.root / "label.txt", tiny.root / "label-errors.txt"
    log.unlink(missing_ok=True)
    place = Place(str(log), errors=str(errors), environment={"COLUMNS": "80"})
    words = ("label", str(tiny.folder), "--no-browser", "--store", str(tiny.settings.store))
    process = forks.start(place, *words)
    address = address_in(log)
    try:
        yield Client(address)
    finally:
        os.kill(process, signal.SIGINT)  # nobody has waited for it, so the id is still its own
        code = forks.wait(process)
    said = errors.read_text(encoding="utf-8")
    assert code == 0, said
    assert "Traceback" not in said
    assert address not in said
    assert "judgments go to " in said


def address_in(log: Path) -> str:
    for _ in range(600):
        printed = log.read_text(encoding="utf-8") if log.exists() else ""
        if printed.endswith("\n"):
            assert printed.startswith("http://127.0.0.1:")
            return printed.strip()
        time.sleep(0.1)
    raise TimeoutError(f"no address was printed: {printed}")


def test_judgments_stay_when_a_retriever_joins(tiny: Tiny, forks: Forks) -> None:
    with labelling(tiny, forks) as client:
        first = client.ask("next")
        task = first["task"]
        for number in range(5):
            _, reply = client.answer("ada", moment(number), task)
            task = reply["task"]
    log = tiny.folder / LABELLING_LOG
    lines = read_judgments(log)
    assert len(lines) == 5
    assert unread_files(pipeline_of(tiny).experiment.dataset, []) == []
    old = read_design(design_file(log))
    assert len(old.items) == first["progress"]["left"]
    tiny.config["retrievers"]["whole"] = {"type": "tfidf", "chunking": "whole"}
    tiny.write_config()
    evaluated(tiny)
    with labelling(tiny, forks) as client:
        now = client.ask("next")["progress"]
    new = read_design(design_file(log))
    assert new.items[: len(old.items)] == old.items
    assert (len(new.durations), now["answered"]) == (1, 5)
    assert (new.rates[0, : len(old.items)] == old.rates[0]).all()
    assert (new.rates[1, : len(old.items)] >= old.rates[0]).all()
    assert sampled_pool(pipeline_of(tiny), 5).design.durations == new.durations
    assert read_judgments(log) == lines


def test_how_labels_stand_is_told_without_a_change(tiny: Tiny, invoke: Invoke) -> None:
    """Complete labels stay complete, also where a retriever that joined finds more."""
    judge(tiny, invoke, 1000)
    design = design_file(tiny.folder / LABELLING_LOG)
    before = design.read_bytes()
    tiny.config["retrievers"]["whole"] = {"type": "tfidf", "chunking": "whole"}
    tiny.write_config()
    evaluated(tiny)
    status = invoke("label", tiny.folder, "--status", "--store", tiny.settings.store)
    assert status.exit_code == 0, status.output
    assert design.read_bytes() == before
    assert load_experiment(tiny.folder).has_graded_pool
    sampled = sampled_pool(pipeline_of(tiny), 5)  # who asks for more takes it on
    assert len(sampled.pool.items) == len(read_design(design).items)
    assert design.read_bytes() != before


def test_a_document_that_changes_after_its_passages_were_graded(tiny: Tiny, invoke: Invoke) -> None:
    """Also where the new text has the same length; a sheet asks for the grade again."""
    judge(tiny, invoke, 1000)
    tiny.replace("fares.md", "10 crowns", "12 crowns")
    evaluated(tiny)
    store = ("--store", tiny.settings.store)
    told = "not used, because the text changed"
    assert told in invoke("evaluate", tiny.folder, *store).output
    shown = invoke("validate", tiny.folder, "--format", "json", *store)
    assert [row["check"] for row in json.loads(shown.stdout) if told in row["message"]] == [
        "text_changed"
    ]
    judge(tiny, invoke, 1000)
    evaluated(tiny)
    assert told not in invoke("evaluate", tiny.folder, *store).output
    assert "text_changed" not in invoke("validate", tiny.folder, *store).output
    assert "mean over 6 queries" in invoke("leaderboard", tiny.folder, *store).stdout


def test_two_experiments_of_a_folder_have_a_log_each(tiny: Tiny) -> None:
    other = tiny.folder / "other.yaml"
    other.write_text((tiny.folder / "experiment.yaml").read_text(), encoding="utf-8")
    named = tiny.folder / "named.yaml"
    named.write_text(other.read_text() + "judgments_log: by_hand.jsonl\n", encoding="utf-8")
    paths = [load_experiment(one).judgments_log for one in (tiny.folder, other, named)]
    assert [path.name for path in paths] == [
        LABELLING_LOG,
        f"other.{LABELLING_LOG}",
        "by_hand.jsonl",
    ]
    assert {path.parent for path in paths} == {tiny.folder}
    assert design_file(paths[1]).name == "other.labelling.design.jsonl"


def pipeline_of(tiny: Tiny) -> Pipeline:
    return Pipeline(open_experiment(tiny.folder, tiny.settings), tiny.settings)


def mark(tiny: Tiny, query_id: str, name: MarkName | None) -> None:
    file = marks_file(tiny.folder / LABELLING_LOG)
    append_lines(file, [QuestionMark(query_id, name, None, "ada", "2026-03-01T09:00:00Z")])


def test_a_question_that_is_left_out_leaves_the_estimates(tiny: Tiny, invoke: Invoke) -> None:
    """With everything judged, the estimate is the mean of the others, before and after."""
    judge(tiny, invoke, 1000)

    def estimates() -> dict[str, float]:
        sampled = sampled_pool(labelling_pipeline(tiny.folder, tiny.settings, no_progress), 5)
        values = Estimator(sampled.sample(sampled.lines()), METRIC).values()
        return dict(zip(sampled.pool.systems, values.tolist(), strict=True))

    before = estimates()
    sampled = sampled_pool(pipeline_of(tiny), 5)
    pool = sampled.pool
    gains = {line.item: float(line.grade or 0) for line in sampled.lines()}
    weights = pool.weights(METRIC)
    earned = [gains[item] * (item.query_id != "q1") for item in pool.items]
    n_questions = len(pool.question_ids)
    expected = dict(zip(pool.systems, (weights @ earned / (n_questions - 1)).tolist(), strict=True))
    assert expected != pytest.approx(before)
    mark(tiny, "q1", "unclear")
    assert estimates() == pytest.approx(expected)  # at once
    evaluated(tiny)
    assert estimates() == pytest.approx(expected)
    status = invoke(
        "label", tiny.folder, "--status", "--format", "json", "--store", tiny.settings.store
    )
    told = json.loads(status.stdout)
    assert told["n_questions"] == n_questions - 1
    assert told["n_items"] == sum(item.query_id != "q1" for item in pool.items)
    assert told["question_marks"] == {"unclear": 1}
    text = invoke("label", tiny.folder, "--status", "--store", tiny.settings.store).stdout
    assert "questions: 1 unclear; 1 left out of evaluations" in text.splitlines()
    board = invoke("leaderboard", tiny.folder, "--store", tiny.settings.store)
    assert f"mean over {n_questions - 1} queries" in board.stdout
