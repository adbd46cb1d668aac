"""Store and keys reach a run through Dagster's resources, and a code location may give others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from rag_assets.assets.experiment_definitions import definitions_of
from rag_assets.assets.resources import ModelKeys, RetrievalStore, resources_of
from rag_assets.experiment import Experiment
from rag_assets.llm.endpoint import given_keys, key_of
from rag_assets.store.artifacts import OBJECTS
from rag_assets.store.settings import StoreSettings
from tests.assets.asking import KEY_VARIABLE, ask
from tests.dagster_state import QUIET
from tests.llm.server import Server, says, serving
from tests.tiny_experiment import Tiny


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        running.on("", says('["a clear question"]'))
        yield running


@pytest.fixture
def asking(small: Tiny, server: Server) -> Tiny:
    return ask(small, server.base_url)


class VaultKeys(ModelKeys):
    def read(self) -> dict[str, str]:
        return {KEY_VARIABLE: "sk-vault"}


def loaded(tiny: Tiny) -> Experiment:
    return tiny.pipeline().experiment


def run(defs: dg.Definitions, assets: list[str], partition: str | None = None) -> bool:
    with dg.DagsterInstance.ephemeral() as instance:
        return bool(
            defs.resolve_implicit_global_asset_job_def()
            .execute_in_process(
                instance=instance,
                asset_selection=[dg.AssetKey(["tiny", name]) for name in assets],
                partition_key=partition,
                run_config=QUIET,
                raise_on_error=False,
            )
            .success
        )


def keys_sent(server: Server) -> set[str]:
    return {request.headers["authorization"] for request in server.received}


def test_the_environment_gives_them(
    asking: Tiny, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_ASSETS_STORE", str(asking.settings.store))
    monkeypatch.setenv(KEY_VARIABLE, "sk-environment")
    found = resources_of(loaded(asking), StoreSettings.resolve())
    assert found == {
        "tiny_store": RetrievalStore(
            store=dg.EnvVar("RAG_ASSETS_STORE"), state_dir=str(asking.settings.store)
        ),
        "tiny_keys": ModelKeys(api_keys={KEY_VARIABLE: dg.EnvVar(KEY_VARIABLE)}),
    }
    defs = definitions_of(loaded(asking), StoreSettings.resolve())
    assert "sk-environment" not in repr(defs.resources)
    assert run(defs, ["queries"])
    assert run(defs, ["query_set_answers"], "clear")
    assert keys_sent(server) == {"Bearer sk-environment"}


def test_a_code_location_gives_others(
    asking: Tiny, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    elsewhere = asking.root / "elsewhere"
    defs = definitions_of(loaded(asking), asking.settings)
    given = {
        "tiny_store": RetrievalStore(store=str(elsewhere), state_dir=str(elsewhere)),
        "tiny_keys": VaultKeys(),
    }
    defs = dg.Definitions(assets=defs.assets, resources=given)
    assert run(defs, ["queries"])
    assert run(defs, ["query_set_answers"], "clear")
    assert keys_sent(server) == {"Bearer sk-vault"}
    assert (elsewhere / OBJECTS / "queries").is_dir()
    assert not asking.objects("queries").exists()


def test_a_missing_key_stops_only_what_needs_it(
    asking: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    defs = definitions_of(loaded(asking), asking.settings)
    assert run(defs, ["queries"])
    assert not run(defs, ["query_set_answers"], "clear")


def test_the_job_has_them_too(asking: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-1")
    defs = definitions_of(loaded(asking), asking.settings)
    job = defs.resolve_job_def("tiny_evaluate")
    assert set(job.resource_defs) >= {"tiny_store", "tiny_keys"}
    with dg.DagsterInstance.ephemeral() as instance:
        assert job.execute_in_process(instance=instance, run_config=QUIET).success
    pipeline = asking.pipeline()
    assert all(
        pipeline.current(key) for stage in pipeline.stages() for key in stage.keys(loaded(asking))
    )


def test_given_keys_go_first_and_only_in_their_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, " sk-environment ")
    with given_keys({KEY_VARIABLE: "sk-given"}):
        assert key_of(KEY_VARIABLE) == "sk-given"
        assert key_of("ANOTHER_KEY_OF_TESTS") == ""
    assert key_of(KEY_VARIABLE) == "sk-environment"


def test_the_code_on_the_page(small: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small.config["name"] = "handbook"
    small.write_config()
    small.folder.rename(tmp_path / "handbook")
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text(encoding="utf-8")
    names: dict[str, dg.Definitions] = {}
    exec(page.split("```python\n")[1].split("```")[0], names)  # our own page
    job = names["defs"].resolve_implicit_global_asset_job_def()
    assert {"handbook_store", "handbook_keys"} <= set(job.resource_defs)
