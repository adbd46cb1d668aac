"""A key is in no byte of the store, of Dagster's instance, or of what is printed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from rag_assets.cli import main
from tests.assets.asking import ask
from tests.llm import server as replies
from tests.llm.server import Server, serving
from tests.tiny_experiment import Tiny

KEY = "sk-5e7a0b-do-not-tell-anyone-9c41"
PASSWORD = "hunter2-in-an-address"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(lambda prompt: json.dumps([f"another question {len(prompt)}"])) as running:
        yield running


def holding(folder: Path, secret: str) -> list[Path]:
    """Files that hold a secret: as it is, in base64, or in a compressed column."""
    forms = [secret.encode(), base64.b64encode(secret.encode())]
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        contents = [path.read_bytes()]
        if path.suffix == ".parquet":
            table = pq.read_table(path, partitioning=None)
            contents.append(repr([table.schema.metadata, table.to_pydict()]).encode())
        if any(form in content for form in forms for content in contents):
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
    tmp_path: Path, server: Server
) -> None:
    tiny = Tiny(tmp_path)
    result = evaluated(tiny, server.base_url)
    assert result.exit_code == 0, result.output
    assert {got.headers["authorization"] for got in server.received} == {f"Bearer {KEY}"}
    address = server.base_url.replace("http://", f"http://me:{PASSWORD}@")
    result = evaluated(tiny, address)
    assert result.exit_code == 0, result.output
    for secret in (KEY, PASSWORD):
        assert secret not in result.output
        assert holding(tiny.settings.store, secret) == []
    assert any((tiny.settings.store / "dagster").rglob("*.db"))
    assert holding(tiny.settings.store, "MY_SECRET_KEY")


def test_a_server_that_repeats_the_key_does_not_spread_it(tmp_path: Path, server: Server) -> None:
    tiny = Tiny(tmp_path)
    server.on("dog", replies.error(401, f"Incorrect API key provided: {KEY}"))
    result = evaluated(tiny, server.base_url)
    assert result.exit_code == 1
    assert KEY not in result.output
    assert holding(tiny.settings.store, KEY) == []
