"""Store and keys reach a run through resources of Dagster, and a key is in no byte that is kept."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from traceback import format_exception
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from rag_assets.assets.execution import without_foreign
from rag_assets.assets.experiment_definitions import definitions_of
from rag_assets.assets.resources import ModelKeys, RetrievalStore, resources_of
from rag_assets.cli import main
from rag_assets.errors import DataError, StoreError
from rag_assets.experiment import Experiment
from rag_assets.servers.secrets import given_keys, key_of
from rag_assets.store.artifacts import OBJECTS
from rag_assets.store.settings import StoreSettings
from tests.assets.asking import KEY_VARIABLE, ask
from tests.dagster_state import QUIET
from tests.llm import server as replies
from tests.llm.server import Server, says, serving
from tests.servers.hostile import ENCODINGS, PIECES, SECRETS, VARIABLE, Hostile, echo, leaked
from tests.servers.hostile import KEY as HOSTILE_KEY
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


KEY = "sk-5e7a0b-do-not-tell-anyone-9c41"
PASSWORD = "hunter2-in-an-address"


@pytest.fixture
def refusing_server() -> Iterator[Server]:
    with serving(lambda prompt: json.dumps([f"another question {len(prompt)}"])) as running:
        yield running


def holding(folder: Path, *forms: str) -> list[Path]:
    """Files that hold a text: as it is, or in a compressed column."""
    wanted = [form.encode() for form in forms]
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        contents = [path.read_bytes()]
        if path.suffix == ".parquet":
            table = pq.read_table(path, partitioning=None)
            contents.append(repr([table.schema.metadata, table.to_pydict()]).encode())
        if any(form in content for form in wanted for content in contents):
            found.append(path)
    return found


def evaluated(tiny: Tiny, base_url: str) -> Result:
    """Evaluate an experiment with a query set that a language model writes."""
    tiny.config["top_k"] = [5]
    tiny.write()
    ask(tiny, base_url, "MY_SECRET_KEY")
    runner = CliRunner(env={"COLUMNS": "80", "MY_SECRET_KEY": KEY, "DAGSTER_HOME": None})
    words = ["evaluate", str(tiny.folder), "--store", str(tiny.settings.store)]
    return runner.invoke(main, words)


def test_a_key_and_a_password_in_an_address_are_kept_nowhere(
    tmp_path: Path, refusing_server: Server
) -> None:
    tiny = Tiny(tmp_path)
    result = evaluated(tiny, refusing_server.base_url)
    assert result.exit_code == 0, result.output
    assert {got.headers["authorization"] for got in refusing_server.received} == {f"Bearer {KEY}"}
    address = refusing_server.base_url.replace("http://", f"http://me:{PASSWORD}@")
    result = evaluated(tiny, address)
    assert result.exit_code == 0, result.output
    for secret in (KEY, PASSWORD):
        in_base64 = base64.b64encode(secret.encode()).decode()
        assert secret not in result.output
        assert holding(tiny.settings.store, secret, in_base64) == []
    assert any((tiny.settings.store / "dagster").rglob("*.db"))
    assert holding(tiny.settings.store, "MY_SECRET_KEY")


def test_a_server_that_repeats_the_key_does_not_spread_it(
    tmp_path: Path, refusing_server: Server
) -> None:
    tiny = Tiny(tmp_path)
    refusing_server.on("dog", replies.error(401, f"Incorrect API key provided: {KEY}"))
    result = evaluated(tiny, refusing_server.base_url)
    assert result.exit_code == 1
    assert KEY not in result.output
    assert holding(tiny.settings.store, KEY) == []


def configured(tiny: Tiny, kind: str, server: Hostile) -> Tiny:
    """Let an experiment ask a server by one of our clients."""
    bm25 = tiny.config["retrievers"]["bm25"]
    address = {"model": "m", "base_url": server.with_user, "retries": 0}
    plain = {**address, "base_url": f"{server.root}/v1", "api_key_env": VARIABLE}
    reranked = {"input": "bm25", "candidates": 3, **plain}
    asking: dict[str, dict[str, Any]] = {
        "openai_embedding": {"chunking": "parts", **address, "api_key_env": None},
        "listwise": {**reranked, **address, "api_key_env": None},
        "rerank_api": reranked,
        "qdrant": {
            "chunking": "parts",
            "url": server.root,
            "collection": "c",
            "api_key_env": VARIABLE,
        },
    }
    tiny.config["top_k"] = [5]
    if kind == "llm":
        return ask(tiny, server.with_query, VARIABLE)
    tiny.config["retrievers"] = {"bm25": bm25, "asks": {"type": kind, **asking[kind]}}
    tiny.write_config()
    return tiny


@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.parametrize("kind", ["llm", "openai_embedding", "listwise", "rerank_api", "qdrant"])
def test_a_server_that_repeats_all_spreads_nothing(tmp_path: Path, kind: str, status: int) -> None:
    """Store, Dagster's databases, log, terminal and report."""
    if kind == "qdrant":
        pytest.importorskip("qdrant_client", reason="needs pip install 'rag-assets[qdrant]'")
    tiny = Tiny(tmp_path)
    tiny.write()
    store = str(tiny.settings.store)
    runner = CliRunner(env={"COLUMNS": "200", VARIABLE: HOSTILE_KEY, "DAGSTER_HOME": None})
    with Hostile(echo(str, status)) as server:
        configured(tiny, kind, server)
        told = runner.invoke(main, ["-v", "evaluate", str(tiny.folder), "--store", store])
        assert server.received
    report = runner.invoke(main, ["-v", "report", str(tiny.folder), "--store", store])
    assert "Traceback" not in told.output + report.output
    assert told.exception is None or isinstance(told.exception, SystemExit)
    assert leaked(told.output + report.output) == []
    forms = [encode(secret) for secret in SECRETS for encode in ENCODINGS.values()] + [*PIECES]
    assert any((tiny.settings.store / "dagster").rglob("*.db"))
    assert [path for path in holding(tmp_path, *forms) if path.name != "experiment.yaml"] == []


def test_what_dagster_stores_has_nothing_foreign_in_its_chain() -> None:
    try:
        try:
            try:
                raise OSError(KEY)
            except OSError as error:
                raise StoreError("the disk is full") from error
        except StoreError as error:
            raise DataError("no table") from error
    except DataError as error:
        told = "".join(format_exception(without_foreign(error)))
    assert KEY not in told
    assert "the disk is full" in told
