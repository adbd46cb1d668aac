"""The page over HTTP: who is let in, what is sent, and what wrong requests are told."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rag_assets.labels.logs import read_judgments
from tests.labels.page.served import Client, moment, serving, session_of

KILLS = int(os.environ.get("RAG_ASSETS_LABEL_KILLS", "6"))
"""Random moments at which the server is killed."""

SCRIPT = "<script>window.attacked = 1</script>\u202egnp.exe\u202c"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def client(log: Path) -> Iterator[Client]:
    with serving(session_of(log)) as client:
        yield client


def test_the_page_loads_nothing_but_itself(client: Client) -> None:
    for name in ("", "page.js", "page.css"):
        status, headers, body = client.raw(name, None, "GET")
        assert status == 200
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; script-src 'self'"
        )
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers.keys().isdisjoint({"access-control-allow-origin", "server"})
        assert not [word for word in (b"http://", b"https://") if word in body]
    page = client.raw("", None, "GET")[2].decode()
    assert not [word for word in ("<style", " style=", " onclick") if word in page]


WITHOUT_TOKEN = (
    *("/", "/next", "/wrong/", "/wrong/next", "/../next", "/%2e%2e/", "/page.js", "/%C3%A9/%ff"),
    "//etc/passwd",
)
TO_ANOTHER_FILE = (
    "../../../../etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "page.js/../session.py",
    "files/page.html",
    "page.js%00.html",
)


def test_without_the_token_nothing_is_there_and_with_it_no_other_file(client: Client) -> None:
    for path in (*WITHOUT_TOKEN, *TO_ANOTHER_FILE):
        status, _, body = client.raw(path, None, "GET")
        assert status == 404, path
        assert path in TO_ANOTHER_FILE or body == b"not found\n", path
        assert b"root:" not in body, path


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
    ],
)
def test_other_pages_are_refused(client: Client, log: Path, headers: dict[str, str]) -> None:
    task = client.ask("next")["task"]
    for path, method in (("", "GET"), ("next", "POST"), ("answer", "POST")):
        status, sent, body = client.raw(path, b'{"by": "eve"}', method, **headers)
        assert (status, body) == (404, b"not found\n")
        assert "access-control-allow-origin" not in sent
    assert client.answer("ada", moment(1), task)[0] == 200
    assert len(read_judgments(log)) == 1


def test_it_serves_its_own_origin_on_loopback_alone(client: Client) -> None:
    """A form of another page can send text, but no JSON without asking first."""
    host = urlsplit(client.address).netloc
    own = {"Origin": f"http://{host}", "Sec_Fetch_Site": "same-origin"}
    assert client.raw("next", b"{}", **own)[0] == 200
    assert client.raw("next", None, "GET", **own)[0] == 405
    port = urlsplit(client.address).port or 0
    assert urlsplit(client.address).hostname == "127.0.0.1"
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.2", port)) != 0
    status, _, _ = client.raw("next", b"{}", Content_Type="text/plain")
    assert status == 400


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("next", b"", "the request is wrong"),
        ("undo", b'{"by": "", "at": "2026-03-01T09:00:00Z"}', "must name its user and time"),
        ("next", b'{"file": "/etc/passwd"}', "unknown field `file`"),
        ("next", b'{"by": "' + b"a" * 200_000 + b'"}', "at most 100000 bytes"),
        ("text", b'{"document_id":"x","start":0,"end":9}', "no document 'x'"),
        ("text", b'{"document_id":"../crew","start":0,"end":9}', "no document"),
        ("text", b'{"document_id":"crew","start":-5,"end":9}', "Expected `int` >= 0"),
        ("mark", b'{"by":"ada","query_id":"qx","mark":null}', "no question 'qx'"),
        ("mark", b'{"by":"ada","at":"yesterday","query_id":"q1","mark":null}', "Invalid RFC3339"),
        ("undo", b'{"by":"ada","at":"yesterday"}', "the request is wrong: Invalid RFC3339 encoded"),
        ("undo", b'{"by":"ada","at":7}', "Expected `str`, got `int` - at `$.at`"),
        ("undo", b'{"by":"ada","at":"2026-03-01T09:00:00.000Z"}', "nothing to undo"),
        (
            "mark",
            b'{"by":"ada","at":"2026-03-01T09:00:00.000Z","query_id":"q1","mark":"duplicate",'
            b'"of":"q1"}',
            "of: is the question itself",
        ),
    ],
)
def test_wrong_requests_are_told_what_is_wrong(
    client: Client, log: Path, path: str, body: bytes, problem: str
) -> None:
    status, _, content = client.raw(path, body)
    assert status == 400
    assert problem in json.loads(content)["problem"]
    assert not log.exists()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"grade": 4}, "Expected `int` <= 3"),
        ({"grade": None}, "grade: must be an integer from 0 to 3 where the status is judged"),
        ({"status": "done"}, "Invalid enum value 'done'"),
        ({"seconds": float("inf")}, "the request is wrong"),
        ({"seconds": -1.0}, "Expected `float` >= 0"),
        ({"evidence": [[0, 900]]}, "evidence: must be a list of [start, end] in the item"),
        ({"end": 5}, "not in the sample"),
    ],
)
def test_wrong_answers_are_not_written(
    client: Client, log: Path, change: dict[str, object], problem: str
) -> None:
    status, said = client.answer("ada", moment(1), client.ask("next")["task"], **change)
    assert (status, problem in said["problem"]) == (400, True), said
    assert not log.exists()


def test_nothing_tells_which_retriever_found_it(client: Client) -> None:
    task = client.ask("next")
    sent = json.dumps([task, client.answer("ada", moment(1), task["task"])[1]])
    for word in ("hidden", "rank", "probability", "score", "system", "retriever"):
        assert word not in sent
    assert "hidden-a" in json.dumps(client.ask("standing"))


def test_hostile_texts_are_sent_as_data_in_windows(log: Path) -> None:
    long = SCRIPT + "x" * 1_000_000
    texts = {SCRIPT: long, "b": f"</textarea>{SCRIPT}", "c": "c", "d": "\u0000\u2028\r\nd"}
    with serving(session_of(log, texts, {SCRIPT: SCRIPT * 3000})) as client:
        seen = {}
        for number in range(4):
            task = client.ask("next")["task"]
            assert len(task["question"]) <= 20_000
            seen[task["document_id"]] = task["text"]["text"]
            assert client.answer("ada", moment(number), task)[0] == 200
        assert seen == {name: text[:20_000] for name, text in texts.items()}
        rest = client.ask("text", document_id=SCRIPT, start=20_000, end=2**30)
        assert (rest["start"], rest["end"]) == (20_000, 40_000)
        assert client.raw("", None, "GET")[2].count(b"attacked") == 0
        for request in (b"{}", b"<script>"):
            assert client.raw("next", request)[1]["content-type"] == "application/json"


def test_a_log_that_was_damaged_is_told(client: Client, log: Path) -> None:
    log.write_text("{}\n", encoding="utf-8")
    status, _, content = client.raw("next", b"{}")
    assert status == 500
    assert "log.jsonl:1: `query_id`: is missing" in json.loads(content)["problem"]


SERVER = """
import sys
import threading
from pathlib import Path
from rag_assets.labels.page.server import LabelServer
from tests.labels.page.served import session_of
texts = {f"d{n}": f"text {n} of many" for n in range(4)}
questions = {f"q{n}": f"question {n}" for n in range(int(sys.argv[2]))}
session = session_of(Path(sys.argv[1]), texts, questions)
server = LabelServer(session, "ada")
print(server.address, flush=True)
server.run()
"""


@pytest.mark.slow
def test_a_killed_server_loses_and_doubles_no_judgment(log: Path) -> None:
    """What was confirmed is there once; what was not confirmed is there once or is asked again."""
    generator = random.Random(7)
    confirmed: list[tuple[str, str]] = []
    number = 0
    for _ in range(KILLS):
        with subprocess.Popen(
            [sys.executable, "-c", SERVER, str(log), str(40 * KILLS)],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            client = Client(process.stdout.readline().strip())
            task = client.ask("next")["task"]  # however busy the machine is
            killer = threading.Timer(generator.uniform(0.0, 0.25), process.kill)
            killer.start()
            try:
                while task is not None:
                    number += 1
                    _, reply = client.answer("ada", moment(number), task)
                    confirmed.append((task["query_id"], task["document_id"]))
                    task = reply["task"]
            except (OSError, ValueError, HTTPException):
                pass  # it was killed, perhaps in the middle of an answer
            killer.join()
    lines = read_judgments(log) if log.exists() else []
    items = [line.item[:2] for line in lines]
    assert len(set(items)) == len(items)
    assert KILLS <= len(confirmed) < 160 * KILLS  # there was always something left to ask
    assert set(confirmed) <= set(items)
    assert len(items) - len(confirmed) <= KILLS
    assert len(set(confirmed)) == len(confirmed)
