"""What Dagster shows besides assets: a job, its schedule, and the sensor on the sources."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner
from dagster._cli import cli
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.instance.ref import InstanceRef
from dagster._core.loader import LoadingContextForTest

from rag_assets.assets.execution import SENSOR_VARIABLE
from rag_assets.assets.experiment_definitions import definitions_of, source_digest, sources_sensor
from rag_assets.assets.instance import open_instance
from rag_assets.assets.job import evaluation_job
from rag_assets.errors import ConfigError, UsageError
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.experiment import Experiment
from rag_assets.labels.logs import QuestionMark, append_lines, design_file, marks_file
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.evaluations import read_current
from tests.dagster_state import QUIET, counts, evaluate_now, n_runs, not_fresh
from tests.tiny_experiment import Tiny, matching

SCHEDULE = {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}


def run_job(tiny: Tiny, **tags: str) -> dg.ExecuteInProcessResult:
    """Run the job as a code location does that was loaded some time ago."""
    with open_instance(tiny.settings) as instance:
        return evaluation_job(loaded(tiny), tiny.settings).execute_in_process(
            instance=instance, tags=tags, run_config=QUIET, raise_on_error=False
        )


def loaded(tiny: Tiny) -> Experiment:
    return tiny.pipeline().experiment


def shown(result: dg.ExecuteInProcessResult) -> dict[str, object]:
    (event,) = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    return {name: value.value for name, value in event.step_output_data.metadata.items()}


LOCATION = """
import dagster as dg
import rag_assets

@dg.asset
def raw_docs(): pass

defs = dg.Definitions.merge(
    rag_assets.build_defs({folder!r}, deps=["raw_docs"]), dg.Definitions(assets=[raw_docs])
)
"""


def test_what_the_job_tells_names_assets_of_the_project_above_it(
    small: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_ASSETS_STORE", str(small.settings.store))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    file = tmp_path / "location.py"
    file.write_text(LOCATION.format(folder=str(small.folder)), encoding="utf-8")
    names = runpy.run_path(str(file))

    def stale(instance: dg.DagsterInstance) -> StaleStatus:
        graph = names["defs"].resolve_asset_graph()
        resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
        return resolver.get_status(dg.AssetKey(["tiny", "documents"]))

    def run() -> None:
        command = ["job", "execute", "-f", str(file), "-j", "tiny_evaluate"]
        assert CliRunner().invoke(cli, command).exit_code == 0

    with dg.DagsterInstance.get() as instance:
        run()
        assert stale(instance) is StaleStatus.FRESH
        assert dg.materialize([names["raw_docs"]], instance=instance).success
        assert stale(instance) is StaleStatus.STALE
        run()
        assert stale(instance) is StaleStatus.FRESH
        small.write_document("new.md", "# New\n\nA new ferry.\n")
        evaluate_now(small)  # knows of the assets above by what the job told
        assert stale(instance) is StaleStatus.FRESH


@pytest.mark.parametrize(
    ("cron", "days"),
    [("0 3 * * *", 2), ("*/5 9-17 * * 1-5", 4), ("0 0 * * 0", 8), ("0 6 1 * *", 32)],
)
def test_a_leaderboard_is_late_a_day_after_it_was_due(fresh: Tiny, cron: str, days: int) -> None:
    fresh.config["schedule"] = {"cron": cron}
    fresh.write_config()
    defs = definitions_of(loaded(fresh), fresh.settings)
    policies = {spec.key.path[-1]: spec.freshness_policy for spec in defs.resolve_all_asset_specs()}
    expected = dg.FreshnessPolicy.time_window(fail_window=timedelta(days=days))
    assert {name: policy for name, policy in policies.items() if policy} == {
        "leaderboard": expected
    }


def test_a_leaderboard_is_told_at_each_run_so_that_it_is_not_late(tiny: Tiny) -> None:
    tiny.config["schedule"] = SCHEDULE
    tiny.write_config()
    before = counts(tiny)
    assert shown(run_job(tiny, **{"dagster/schedule_name": "tiny_schedule"}))["computed"] == 0
    assert counts(tiny) - before == {"leaderboard": 1}  # though nothing has changed
    assert read_current(tiny.artifacts).trigger == "schedule"
    assert not_fresh(tiny) == {}


def test_the_job_does_what_evaluate_does_in_the_instance_it_runs_in(tiny: Tiny) -> None:
    runs = n_runs(tiny)
    tiny.replace("queries.jsonl", '"wind"', '"storm"')
    result = run_job(tiny, **{"dagster/sensor_name": "tiny_sources"})
    assert result.success
    evaluation = read_current(tiny.artifacts)
    assert evaluation.trigger == "sensor"
    values = shown(result)
    assert values["evaluation"] == evaluation.evaluation_id
    assert (values["computed"], values["reused"], values["complete"]) == (2, 66, True)
    assert Path(str(values["report"])).is_file()
    assert n_runs(tiny) == runs + 1
    assert evaluation.dagster_runs == (result.run_id,)
    assert not_fresh(tiny) == {}


def test_the_job_writes_to_the_storage_of_dagster_itself(tiny: Tiny) -> None:
    """As a code location has it: plain SQLite, and compute logs that are captured."""
    before = counts(tiny)
    tiny.replace("queries.jsonl", '"wind"', '"storm"')
    job = evaluation_job(loaded(tiny), tiny.settings)
    ref = InstanceRef.from_dir(str(tiny.settings.dagster_home))
    with dg.DagsterInstance.from_ref(ref) as instance:
        assert job.execute_in_process(instance=instance, run_config=QUIET).success
    assert read_current(tiny.artifacts).trigger == "ui"
    told = {name for name, n in counts(tiny).items() if n > before[name]}
    queries = ("queries", "qrels", "query_facts", "query_sets/*", "metrics/*")
    assert told == matching(tiny.pipeline(), *queries)
    assert not_fresh(tiny) == {}


def test_a_changed_yaml_counts_without_loading_again(tiny: Tiny) -> None:
    with open_instance(tiny.settings) as instance:
        job = evaluation_job(loaded(tiny), tiny.settings)
        tiny.configure("hybrid", k=5)
        result = job.execute_in_process(instance=instance, run_config=QUIET)
    assert int(str(shown(result)["computed"])) > 0
    assert not_fresh(tiny) == {}


def test_a_users_error_in_the_job_is_one_line(tiny: Tiny) -> None:
    before = read_current(tiny.artifacts)
    tiny.replace("judgments.jsonl", "A dog needs", "A cat needs")
    (failure,) = run_job(tiny).get_step_failure_events()
    told = failure.step_failure_data.user_failure_data
    assert told is not None
    assert told.description is not None
    assert re.match(r"[^\n]*judgments\.jsonl:1: `quote`[^\n]*$", told.description)
    assert read_current(tiny.artifacts) == before


def test_the_schedule_is_that_of_the_yaml_and_understood(fresh: Tiny) -> None:
    assert list(definitions_of(loaded(fresh), fresh.settings).schedules or []) == []
    fresh.config |= {"schedule": SCHEDULE, "name": "my.first-try"}
    fresh.write_config()
    (schedule,) = definitions_of(loaded(fresh), fresh.settings).schedules or []
    assert isinstance(schedule, dg.ScheduleDefinition)
    assert schedule.name == "my_first_try_schedule"
    assert schedule.job_name == "my_first_try_evaluate"
    assert schedule.cron_schedule == SCHEDULE["cron"]
    assert schedule.execution_timezone == SCHEDULE["timezone"]
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    fresh.config["schedule"] = {"cron": "0 25 * * *"}
    fresh.write_config()
    with pytest.raises(ConfigError, match=r"yaml:\d+: `schedule.cron`: .* '0 25 \* \* \*'"):
        definitions_of(loaded(fresh), fresh.settings)


def test_the_schedule_of_the_sample_waits_to_be_started(fresh: Tiny) -> None:
    handbook = open_experiment(Path(__file__).parents[2] / "data" / "handbook", fresh.settings)
    found = definitions_of(handbook, fresh.settings)
    (schedule,) = found.schedules or []
    assert isinstance(schedule, dg.ScheduleDefinition)
    assert schedule.name == "handbook_schedule"
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    sources = [one for one in found.sensors or [] if one.name == "handbook_sources"]
    assert [one.default_status for one in sources] == [dg.DefaultSensorStatus.STOPPED]


class Sensor:
    """The sensor on the sources, evaluated tick by tick."""

    def __init__(self, tiny: Tiny, instance: dg.DagsterInstance) -> None:
        experiment = loaded(tiny)
        job = evaluation_job(experiment, tiny.settings)
        self.definition = sources_sensor(experiment, tiny.settings, job)
        self.instance = instance
        self.cursor: str | None = None

    def tick(self) -> list[str] | str:
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursor)
        data = self.definition.evaluate_tick(context)
        self.cursor = data.cursor if data.run_requests else self.cursor
        return [str(r.run_key) for r in data.run_requests or []] or str(data.skip_message)


@pytest.fixture
def sensor(fresh: Tiny) -> Iterator[Sensor]:
    with open_instance(fresh.settings) as instance:
        yield Sensor(fresh, instance)


def test_the_first_look_starts_the_job_the_next_says_what_it_saw(sensor: Sensor) -> None:
    assert len(sensor.tick()) == 1
    assert re.fullmatch(
        r"nothing changed since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", str(sensor.tick())
    )


def test_labels_of_people_count(sensor: Sensor, fresh: Tiny) -> None:
    """The log and its design, which make estimates, and what is said of questions."""
    sensor.tick()
    log = fresh.folder / "labelling.jsonl"
    item = {"query_id": "q1", "document_id": "fares.md", "start": 0, "end": 40}
    judged = {**item, "status": "judged", "grade": 1, "probability": 0.5}
    design_file(log).write_text(
        '{"seed":0,"durations":[]}\n' + json.dumps({**item, "rates": [1.0]}) + "\n"
    )
    assert isinstance(sensor.tick(), str)  # a design alone estimates nothing
    log.write_text(json.dumps(judged) + "\n")
    assert isinstance(sensor.tick(), list)
    with log.open("a") as stream:
        stream.write(json.dumps({**judged, "grade": 0}) + "\n")
    assert isinstance(sensor.tick(), list)
    with design_file(log).open("a") as stream:
        stream.write(json.dumps({**item, "start": 5, "rates": [1.0]}) + "\n")
    assert isinstance(sensor.tick(), list)
    append_lines(marks_file(log), [QuestionMark("q2", "refused")])
    assert isinstance(sensor.tick(), list)
    assert "nothing changed" in str(sensor.tick())


def test_a_change_that_is_taken_back_is_another_run(sensor: Sensor, fresh: Tiny) -> None:
    """Dagster starts no second run with a key that it has seen."""
    keys = [*sensor.tick()]
    fresh.replace("fares.md", "40 crowns", "45 crowns")
    keys += sensor.tick()
    fresh.replace("fares.md", "45 crowns", "40 crowns")
    keys += sensor.tick()
    assert len(set(keys)) == len(keys) == 3


def test_a_broken_yaml_is_a_reason(sensor: Sensor, fresh: Tiny) -> None:
    sensor.tick()
    (fresh.folder / "experiment.yaml").write_text("top_k: [0]\n")
    assert re.search(r"experiment\.yaml:1: `top_k", str(sensor.tick()))
    fresh.write_config()
    assert "nothing changed" in str(sensor.tick())


def test_the_same_state_is_the_same_run_whatever_the_cursor_was(sensor: Sensor) -> None:
    """A tick is repeated, or another program wrote the cursor."""
    first = sensor.tick()
    sensor.cursor = None
    assert sensor.tick() == first
    for cursor in ("x", "[1]", "{}", "null", json.dumps(["a", "b", "c"])):
        sensor.cursor = cursor
        assert isinstance(sensor.tick(), list)


def test_how_often_a_sensor_looks_is_a_number_of_seconds_in_the_environment(
    fresh: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SENSOR_VARIABLE, "600")
    sensors = definitions_of(loaded(fresh), fresh.settings).sensors or []
    assert [(s.name, s.minimum_interval_seconds) for s in sensors] == [("tiny_sources", 600)]
    assert {s.default_status for s in sensors} == {dg.DefaultSensorStatus.STOPPED}
    for text in ("0", "-1", "1.5", "soon", "٣"):
        monkeypatch.setenv(SENSOR_VARIABLE, text)
        with pytest.raises(UsageError, match=f"{SENSOR_VARIABLE} must be .* found '{text}'"):
            definitions_of(loaded(fresh), fresh.settings)


def test_a_run_configuration_names_some_cells_only(tiny: Tiny) -> None:
    tiny.configure("bm25", k1=0.4)
    job = evaluation_job(loaded(tiny), tiny.settings)
    wish = {"retrievers": ["bm25"], "top_k": [3]}
    config = {**QUIET, "ops": {"evaluate_tiny": {"config": wish}}}
    with open_instance(tiny.settings) as instance:
        assert job.execute_in_process(instance=instance, run_config=config).success
    pipeline = tiny.pipeline()
    current = {k: pipeline.current(metrics_key("bm25", k)) is not None for k in (1, 3, 5)}
    assert current == {1: False, 3: True, 5: False}
    assert not read_current(tiny.artifacts).complete


@pytest.fixture
def rich(tmp_path: Path) -> Tiny:
    """Documents, queries, qrels; files of query variants and of answers, and a model of its own."""
    tiny = Tiny(tmp_path / "tiny").write()
    tiny.config["query_sets"] = {"asked": {"strategy": "file", "path": "variants.jsonl"}}
    tiny.write_rows("variants.jsonl", [{"query_id": "q1", "text": "price of a dog's ticket"}])
    tiny.config["generators"] = {"given": {"type": "file", "path": "answers.jsonl"}}
    tiny.config["answers"] = {"elsewhere": {"generator": "given"}}
    tiny.write_rows("answers.jsonl", [{"query_id": "q1", "answer": "40 crowns"}])
    model = tmp_path / "model"
    shutil.copytree(resolve_model(DEFAULT_MODEL).path, model, copy_function=os.symlink)
    tiny.configure("minilm", type="embedding", chunking="parts", model=str(model))
    return tiny


def state(tiny: Tiny) -> str:
    return source_digest(tiny.pipeline())


def other_tokenizer(tiny: Tiny) -> None:
    file = Path(tiny.config["retrievers"]["minilm"]["model"]) / "tokenizer.json"
    text = file.read_text()
    file.unlink()
    file.write_text(json.dumps({**json.loads(text), "remark": 1}))


CHANGES: dict[str, Callable[[Tiny], object]] = {
    "document": lambda tiny: tiny.replace("fares.md", "40 crowns", "45 crowns"),
    "query": lambda tiny: tiny.replace("queries.jsonl", "a dog", "a cat"),
    "label": lambda tiny: tiny.replace("judgments.jsonl", '"relevance": 1', '"relevance": 2'),
    "new document": lambda tiny: tiny.write_document("new.md", "# New\n\nA line.\n"),
    "variant": lambda tiny: tiny.replace("variants.jsonl", "price", "cost"),
    "answer": lambda tiny: tiny.replace("answers.jsonl", "40 crowns", "45 crowns"),
    "configuration": lambda tiny: tiny.configure("bm25", k1=0.4),
    "model": other_tokenizer,
}


def test_any_other_content_is_another_state_and_a_touched_file_is_not(rich: Tiny) -> None:
    before = state(rich)
    for name, change in CHANGES.items():
        change(rich)
        after = state(rich)
        assert after != before, name
        before = after
    for file in rich.folder.rglob("*.*"):
        file.touch()
    assert state(rich) == before
