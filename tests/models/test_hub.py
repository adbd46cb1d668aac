"""Downloads from a small hub that speaks the part of the protocol that the client uses."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.servers.hostile import ANSWERS, KEY, Handler, Hostile, echo, leaked

COMMIT = "0123456789abcdef0123456789abcdef01234567"

RESOLVE = """
from rag_assets.models.model_names import resolve_model
from rag_assets.errors import ModelUnavailable
try:
    files = resolve_model("some/model")
    print(files.source, files.revision)
    found = [path.relative_to(files.path) for path in files.path.rglob("*") if path.is_file()]
    print(*sorted(path.as_posix() for path in found))
except ModelUnavailable as error:
    print(error)
"""


class Hub(BaseHTTPRequestHandler):
    """One repository, ``some/model``, with the files of ``folder``."""

    folder: Path
    asked: list[str]

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        self.asked.append(path)
        name = path.removeprefix(f"/some/model/resolve/{COMMIT}/")
        if path.startswith("/api/models/some/model/tree/"):
            content = json.dumps(self._tree()).encode()
        elif path.startswith("/api/models/some/model"):
            content = json.dumps(self._info()).encode()
        elif name != path and (self.folder / name).is_file():
            content = (self.folder / name).read_bytes()
        else:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def _info(self) -> dict[str, object]:
        siblings = [{"rfilename": entry["path"]} for entry in self._tree()]
        return {"id": "some/model", "modelId": "some/model", "sha": COMMIT, "siblings": siblings}

    def _tree(self) -> list[dict[str, object]]:
        files = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        return [
            {
                "type": "file",
                "path": path.relative_to(self.folder).as_posix(),
                "size": path.stat().st_size,
                "oid": hashlib.sha1(path.read_bytes()).hexdigest(),
            }
            for path in files
        ]

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@pytest.fixture
def hub(small_files: Path) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    handler = type("OneHub", (Hub,), {"folder": small_files, "asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_data_files_are_downloaded_once_and_code_never(
    run_python: Callable[..., CompletedProcess[str]], small_files: Path, hub: tuple[str, list[str]]
) -> None:
    endpoint, asked = hub
    for name in ("modeling_own.py", "pytorch_model.bin", "weights.pkl"):
        (small_files / name).write_bytes(b"never wanted")
    (small_files / "onnx").mkdir()
    (small_files / "onnx" / "config.json").write_text("{}")
    first = run_python(RESOLVE, HF_ENDPOINT=endpoint, HF_HUB_OFFLINE="0")
    assert first.stderr == ""
    origin, files = first.stdout.splitlines()
    assert origin == f"hub {COMMIT}"
    assert {"model.safetensors", "modules.json", "1_Pooling/config.json"} <= set(files.split())
    assert not [name for name in files.split() if name.endswith((".py", ".bin", ".pkl", ".md"))]
    assert not any("onnx" in path for path in asked)
    asked.clear()
    second = run_python(RESOLVE, HF_ENDPOINT=endpoint, HF_HUB_OFFLINE="0")
    assert second.stdout == first.stdout
    assert asked == []


def test_model_without_safetensors_is_not_downloaded(
    run_python: Callable[..., CompletedProcess[str]], small_files: Path, hub: tuple[str, list[str]]
) -> None:
    endpoint, asked = hub
    (small_files / "model.safetensors").rename(small_files / "pytorch_model.bin")
    done = run_python(RESOLVE, HF_ENDPOINT=endpoint, HF_HUB_OFFLINE="0")
    assert "without safetensors; pickled weights are refused" in done.stdout
    assert not any("/resolve/" in path for path in asked)


def test_model_that_the_hub_does_not_have(
    run_python: Callable[..., CompletedProcess[str]], hub: tuple[str, list[str]]
) -> None:
    code = RESOLVE.replace("some/model", "other/model")
    done = run_python(code, HF_ENDPOINT=hub[0], HF_HUB_OFFLINE="0")
    assert len(done.stdout.splitlines()) == 1
    assert "model 'other/model' is not available: the hub" in done.stdout


def test_a_hub_that_means_harm(run_python: Callable[..., CompletedProcess[str]]) -> None:
    wrong = ("is nested", "has no JSON", "is null", "is a list", "has half a body", "is no HTTP")
    answers = {name: ANSWERS[name] for name in wrong}
    answers |= {f"repeats {status}": echo(str, status) for status in (200, 401, 500)}
    names = list(answers)

    def answer(handler: Handler) -> None:
        number = int(handler.path.partition("/models/m/")[2].partition("?")[0])
        answers[names[number]](handler)

    code = (
        "from rag_assets.models.model_names import resolve_model\n"
        "from rag_assets.errors import ModelUnavailable\n"
        f"for number in range({len(names)}):\n"
        "    try:\n        resolve_model(f'm/{number}')\n"
        "    except ModelUnavailable as error:\n"
        "        print(error, end=' ')\n"
        "        error = error.__cause__\n"
        "        hidden = error.__suppress_context__ or not error.__context__\n"
        "        print(error, bool(error.__cause__ or not hidden))\n"
    )
    with Hostile(answer) as hub:
        done = run_python(code, HF_ENDPOINT=hub.root, HF_HUB_OFFLINE="0", HF_TOKEN=KEY)
    assert any(KEY in headers.get("authorization", "") for _, headers, _ in hub.received)
    lines = done.stdout.splitlines()
    assert len(lines) == len(names), done.stderr
    assert [line for line in lines if not line.endswith(" False")] == []
    assert leaked(done.stdout + done.stderr) == []
