"""Reports over HTTP, asked by a real client: this machine's browsers only, and no other file."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets.errors import UsageError
from rag_assets.report.html import REPORT_FILE
from rag_assets.report.server import ReportServer
from tests.running_server import running
from tests.tiny_experiment import Tiny


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    tiny = Tiny(tmp_path / "tiny").write()
    tiny.run()
    return tiny


@pytest.fixture
def server(tiny: Tiny) -> Iterator[ReportServer]:
    tiny.snapshot()
    with running(ReportServer(tiny.settings.store)) as server:
        yield server


def get(server: ReportServer, path: str, host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {} if host is None else {"Host": host}
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode("utf-8")
    connection.close()
    return found


def test_a_report_is_shown_as_it_is_now(server: ReportServer, tiny: Tiny) -> None:
    status, page = get(server, "/tiny/report.html")
    assert status == 200
    assert page == (tiny.artifacts / REPORT_FILE).read_text(encoding="utf-8")
    assert "<!doctype html>" in page.lower()
    tiny.configure("bm25", k1=0.5)
    tiny.run()
    evaluation = tiny.snapshot()
    assert evaluation.evaluation_id in get(server, "/tiny/report.html")[1]
    assert get(server, "/") == (
        200,
        '<!doctype html><title>Reports</title><ul><li><a href="/tiny/report.html">tiny</a></ul>',
    )


@pytest.mark.parametrize(
    "path",
    ["/tiny", "/other/report.html", "/tiny/../tiny/report.html", "/tiny/current", "/../x", "/%2e"],
)
def test_nothing_else_is_there(server: ReportServer, path: str) -> None:
    assert get(server, path) == (404, "not found")


def test_a_name_that_was_made_to_lead_here_gets_nothing(server: ReportServer) -> None:
    assert get(server, "/tiny/report.html", host="evil.example")[0] == 404
    port = server.port
    assert get(server, "/tiny/report.html", host=f"localhost:{port}")[0] == 200


def test_a_damaged_evaluation_is_one_line(server: ReportServer, tiny: Tiny) -> None:
    for file in (tiny.artifacts / "evaluations").glob("*.json"):
        file.write_text("{")
    status, text = get(server, "/tiny/report.html")
    assert status == 500
    assert "\n" not in text


def test_a_port_that_is_taken(server: ReportServer, tiny: Tiny) -> None:
    with pytest.raises(UsageError, match=f"port {server.port} of 127.0.0.1"):
        ReportServer(tiny.settings.store, server.port)
