"""A key is in no byte that is kept."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from traceback import format_exception
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from rag_assets.assets.execution import without_foreign
from rag_assets.cli import main
from rag_assets.errors import DataError, StoreError
from tests.assets.asking import ask
from tests.llm import server as replies
from tests.llm.server import Server, serving
from tests.servers.hostile import ENCODINGS, PIECES, SECRETS, VARIABLE, Hostile, echo, leaked
from tests.servers.hostile import KEY as HOSTILE_KEY
from tests.tiny_experiment import Tiny

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
