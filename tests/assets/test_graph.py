"""The graph that Dagster is given: assets, kinds, edges, partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import dagster as dg
import pytest

from rag_assets.assets.build import partitions_of
from rag_assets.assets.execution import SERVER_POOL, pool_of
from rag_assets.assets.names import artifact_key, asset_key, partition_key, plain_name
from rag_assets.definitions import defs
from rag_assets.engine.recipe import Input
from rag_assets.experiment import load_experiment
from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.evaluation_names import register
from rag_assets.pipeline.stages import STAGES
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.settings import StoreSettings
from tests.answers.answering import with_answers
from tests.dagster_state import definitions
from tests.installed import python
from tests.llm.server import Server
from tests.tiny_experiment import MINILM, Tiny


def use_everything(tiny: Tiny) -> Tiny:
    """Add what the tiny experiment lacks, and a chunking that nothing uses."""
    tiny.config["retrievers"] |= MINILM
    tiny.config["retrievers"]["okapi"] |= {"filters": True, "expand": {"type": "window"}}
    tuned = {"type": "rrf", "inputs": ["bm25-whole", "minilm"], "weights": "tuned"}
    tiny.config["retrievers"]["tuned"] = tuned
    tiny.config["split"] = {"dev": 0.5, "seed": 0}
    tiny.config["retrievers"]["lone-fusion"] = {"type": "rrf", "inputs": ["minilm", "okapi"]}
    tiny.config["chunking"]["unused"] = {"strategy": "recursive", "max_tokens": 50}
    tiny.write_config()
    return tiny


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, cutoffs: tuple[int, ...]) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("graph") / "full")
    tiny.config["top_k"] = [*cutoffs]
    return use_everything(tiny.write())


SHOWN_WITH = {"leaderboard": {"comparisons"}}
"""Asset -> what is made before it though it reads nothing of that."""


def edge_of(experiment: Experiment, item: Input) -> ArtifactKey:
    """Return the partition by which Dagster sees an input; what is read lies behind it."""
    edge, behind = item.edge or item.key, set[ArtifactKey]()
    waiting = [edge]
    while waiting:
        key = waiting.pop()
        behind.add(key)
        above = STAGES[key.asset].inputs(experiment, key)
        waiting += [one.edge or one.key for one in above if (one.edge or one.key) not in behind]
    assert item.key in behind
    return edge


def check_edges(tiny: Tiny, assets: Iterable[str]) -> int:
    """Check every edge into some assets in both directions; return how many pairs there are."""
    experiment = tiny.pipeline().experiment
    graph = definitions(tiny).resolve_asset_graph()
    n_pairs = 0
    with dg.partition_loading_context():
        for child in assets:
            child_key = asset_key("tiny", child)
            inputs = {
                partition_key(key): [
                    edge_of(experiment, item) for item in STAGES[child].inputs(experiment, key)
                ]
                for key in STAGES[child].keys(experiment)
            }
            assert inputs
            read = {key.asset for keys in inputs.values() for key in keys}
            parents = {key.path[-1] for key in graph.get(child_key).parent_keys}
            assert parents == read | SHOWN_WITH.get(child, set()), child
            for parent in parents:
                parent_key = asset_key("tiny", parent)
                if not STAGES[parent].dimensions:
                    assert graph.get(parent_key).partitions_def is None
                    continue
                pairs = set()
                for partition, keys in inputs.items():
                    expected = {partition_key(key) for key in keys if key.asset == parent}
                    mapped = graph.get_parent_partition_keys_for_child(
                        partition, parent_key, child_key
                    )
                    assert set(mapped.partitions_subset.get_partition_keys()) == expected
                    pairs |= {(name, partition) for name in expected}
                for key in STAGES[parent].keys(experiment) if STAGES[child].dimensions else ():
                    name = partition_key(key)
                    assert name is not None
                    back = graph.get_child_partition_keys_of_parent(name, parent_key, child_key)
                    assert set(back) == {one for parent, one in pairs if parent == name}
                n_pairs += len(pairs)
    return n_pairs


def test_parents_in_dagster_are_exactly_the_inputs_of_the_stages(full: Tiny) -> None:
    assert check_edges(full, [stage.name for stage in full.pipeline().stages()]) > 100


LLM = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None}


def model_filters(tiny: Tiny) -> None:
    tiny.config["query_sets"] = {
        "parts": {"strategy": "self_query"},
        "clear": {"strategy": "rewrite"},
    }
    tiny.configure("bm25", filters=True)
    tiny.configure("bm25-whole", filters=True, query_set="parts")
    tiny.configure("okapi", query_set="clear")


def recency(tiny: Tiny) -> None:
    """The edge is one for all partitions; a recipe knows whose factors count."""
    tiny.configure("bm25", recency={"half_life": "90d"})
    tiny.configure("fused", type="rrf", inputs=["bm25", "okapi"], recency={"half_life": "90d"})


def questions(tiny: Tiny) -> None:
    tiny.config["questions"] = {"chunking": "parts"}
    tiny.write_config()
    experiment = tiny.pipeline().experiment
    assert pool_of(STAGES["generated_questions"], experiment) == SERVER_POOL


def index_texts(tiny: Tiny) -> None:
    tiny.config["chunking"]["parts"]["index_texts"] = ["text", "headings"]


def levels(tiny: Tiny) -> None:
    tiny.configure("late", type="maxsim", input="hybrid", candidates=5)
    tiny.configure("diverse", type="mmr", input="bm25", candidates=5)
    tiny.configure("last", type="maxsim", input="late", candidates=3)
    tiny.configure("joined", type="rrf", inputs=["bm25", "diverse"])
    tiny.configure("full", type="maxsim", input="bm25", candidates="all")


@pytest.mark.parametrize(
    ("change", "assets"),
    [
        (model_filters, {"query_set_answers", "query_filters"}),
        (recency, {"recency_factors"}),
        (questions, {"generated_questions"}),
        (index_texts, {"index_texts"}),
        (
            levels,
            {"reranked_runs", "second_fused_runs", "second_reranked_runs", "list_similarities"},
        ),
    ],
)
def test_edges_of_what_few_experiments_have(
    fresh: Tiny, change: Callable[[Tiny], None], assets: set[str]
) -> None:
    fresh.config["llm"] = LLM
    change(fresh)
    fresh.write_config()
    used = {stage.name for stage in fresh.pipeline().stages()}
    assert used >= assets
    assert check_edges(fresh, used) > 20
    dg.Definitions.validate_loadable(definitions(fresh))


def test_partitions_are_those_of_the_stages(full: Tiny) -> None:
    experiment = full.pipeline().experiment
    for stage in full.pipeline().stages():
        partitions = partitions_of(stage, experiment)
        names = [partition_key(key) for key in stage.keys(experiment)]
        if partitions is None:
            assert names == [None]
        else:
            assert set(map(str, partitions.get_partition_keys())) == set(names)
        for key, name in zip(stage.keys(experiment), names, strict=True):
            assert artifact_key(stage, name) == key


def test_definitions_are_loadable_also_of_a_name_with_dots_and_dashes(
    full: Tiny, fresh: Tiny
) -> None:
    dg.Definitions.validate_loadable(definitions(full))
    fresh.config["name"] = "my.first-try_2"
    fresh.write_config()
    assert plain_name(fresh.pipeline().experiment.name) == "my_first_try_2"
    dg.Definitions.validate_loadable(definitions(fresh))


LOAD = """
import sys
from pathlib import Path
import yaml
from tests.dagster_state import definitions
from tests.tiny_experiment import Tiny
judged = Tiny(Path("judged"), yaml.safe_load(Path("judged/data/experiment.yaml").open()))
keys = definitions(judged).resolve_asset_graph().get_all_asset_keys()
print("relevance_verdicts" in {key.path[-1] for key in keys})
print("rag_assets.llm.models" in sys.modules)
import rag_assets.definitions
found = rag_assets.definitions.defs()
print(sorted({key.path[0] for key in found.resolve_asset_graph().get_all_asset_keys()}))
print(sorted({"torch", "sentence_transformers", "faiss", "transformers"} & set(sys.modules)))
"""


def test_loading_is_silent_needs_no_model_and_asks_nobody(tmp_path: Path, server: Server) -> None:
    tiny = use_everything(Tiny(tmp_path / "tiny").write())
    (tmp_path / "data").mkdir()
    tiny.folder.rename(tmp_path / "data" / "tiny")
    model = {"base_url": server.base_url, "model": "small", "api_key_env": None, "retries": 0}
    judges = {"strict": {"type": "llm", "depth": 2}, "floor": {"type": "words"}}
    with_answers(Tiny(tmp_path / "judged").write(), llm=model, judges=judges)
    done = python(tmp_path, "-c", LOAD)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["True", "False", "['tiny']", "[]"]
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["tiny"]
    assert server.received == []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with the experiments ``one`` and ``two``; the working directory."""
    for name in ("RAG_ASSETS_STORE", "RAG_ASSETS_STATE_DIR", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "checkout"
    (place / "data").mkdir(parents=True)
    for name in ("one", "two"):
        tiny = Tiny(tmp_path / name)
        tiny.config["name"] = name
        tiny.write().folder.rename(place / "data" / name)
    monkeypatch.chdir(place)
    return place


def experiments_shown() -> set[str]:
    found = defs()
    assert isinstance(found, dg.Definitions)
    return {key.path[0] for key in found.resolve_asset_graph().get_all_asset_keys()}


def replace(place: Path, experiment: str, old: str, new: str) -> None:
    file = place / "data" / experiment / "experiment.yaml"
    file.write_text(file.read_text().replace(old, new))


def test_all_below_data_and_what_was_evaluated_elsewhere_is_found(
    place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (place / "data" / "one" / "judgments.jsonl").unlink()  # without labels it is shown too
    far = Tiny(tmp_path / "far").write()
    register(far.pipeline().experiment, StoreSettings.resolve())
    assert experiments_shown() == {"one", "two", "tiny"}
    (far.folder / "experiment.yaml").unlink()
    assert experiments_shown() == {"one", "two"}
    assert "experiment left out" in caplog.text
    assert "no such file" in caplog.text


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("retrievers: {a: {type: bm52}}", "unknown type 'bm52'"),
        ("a: [", "is not valid YAML"),
        ("top_k: [0]", "top_k"),
        ("dataset: {path: nowhere}", "nowhere"),
        ("schedule: {cron: 0 25 * * *}", "0 25 * * *"),
    ],
)
def test_one_that_is_invalid_does_not_take_the_others_down(
    place: Path, caplog: pytest.LogCaptureFixture, content: str, problem: str
) -> None:
    """It is one asset with a failed check; its job says why, or evaluates it where that can be."""
    (place / "data" / "one" / "experiment.yaml").write_text(content)
    assert experiments_shown() == {"one", "two"}
    assert "experiment left out" in caplog.text
    assert problem in caplog.text
    found = defs()
    assert isinstance(found, dg.Definitions)
    check = found.resolve_asset_graph().get(dg.AssetKey(["one", "experiment"])).check_keys
    assert [key.name for key in check] == ["can_be_loaded"]
    job = found.resolve_job_def("one_evaluate")
    with dg.DagsterInstance.ephemeral() as instance:
        run = job.execute_in_process(instance=instance, raise_on_error=False)
    failures = [event.step_failure_data for event in run.all_events if event.is_step_failure]
    told = [problem in str(failure.user_failure_data) for failure in failures]
    assert told == ([] if "cron" in content else [True])


def test_one_that_is_invalid_has_the_name_that_is_listed_and_is_shown_once(place: Path) -> None:
    """Where none is listed, it has the one that the folder gives."""
    replace(place, "one", "name: one", "name: first-try")
    register(load_experiment(place / "data" / "one"), StoreSettings.resolve())
    replace(place, "one", "top_k", "top_kk")
    (place / "data" / "two").rename(place / "data" / "no. 2 (old)")
    replace(place, "no. 2 (old)", "top_k", "top_kk")
    assert experiments_shown() == {"first-try", "no.-2-old"}
    found = defs()
    assert isinstance(found, dg.Definitions)
    names = {job.name for job in found.get_repository_def().get_all_jobs()}
    assert names >= {"first_try_evaluate", "no__2_old_evaluate"}


def test_of_two_with_one_name_or_names_that_differ_in_a_dash_the_first_is_shown(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    replace(place, "two", "name: two", "name: one")
    assert experiments_shown() == {"one"}
    replace(place, "one", "name: one", "name: a.b")
    replace(place, "two", "name: one", "name: a-b")
    assert experiments_shown() == {"a.b"}
    assert "'a-b' and 'a.b' of" in caplog.text


def test_each_has_a_job_and_a_sensor_and_one_has_a_schedule(place: Path) -> None:
    with (place / "data" / "two" / "experiment.yaml").open("a") as file:
        file.write("schedule: {cron: 0 3 * * *}\n")
    found = defs()
    assert isinstance(found, dg.Definitions)
    repository = found.get_repository_def()
    assert {job.name for job in repository.get_all_jobs()} >= {"one_evaluate", "two_evaluate"}
    assert {schedule.name for schedule in repository.schedule_defs} == {"two_schedule"}
    assert {sensor.name for sensor in repository.sensor_defs} == {
        f"{name}_sources" for name in ("one", "two")
    }


def test_where_there_is_no_experiment_none_is_shown_and_nothing_is_written(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    assert experiments_shown() == set()
    assert list(empty.iterdir()) == []


def test_kinds(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path)
    tiny.config["retrievers"] = {
        "words": {"type": "tfidf", "chunking": "parts"},
        "sparse": {"type": "splade", "model": "some-model", "chunking": "parts"},
        "asked": {"type": "rerank_api", "input": "words", "base_url": "http://x", "model": "m"},
    }
    tiny.config["baseline"] = "words"
    graph = definitions(tiny.write()).resolve_asset_graph()
    found = {key.path[-1]: graph.get(key).kinds for key in graph.get_all_asset_keys()}
    assert found["lexical_index"] == {"tfidf"}
    assert found["lexical_runs"] == {"parquet", "tfidf"}
    assert found["embedding_index"] == {"sentence-transformers", "numpy"}
    assert found["embedding_queries"] == {"parquet", "sentence-transformers"}
    assert found["embedding_runs"] == {"parquet", "numpy"}
    assert found["reranked_runs"] == {"parquet", "http"}
