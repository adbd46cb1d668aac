"""Downloads from a small hub that speaks the part of the protocol that the client uses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.retrieval.external.loopback import Answer, Loopback, Reply, Request, serving
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


def hub_of(folder: Path) -> Answer:
    """One repository, ``some/model``, with the files of a folder."""

    def tree() -> list[dict[str, object]]:
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        return [
            {
                "type": "file",
                "path": path.relative_to(folder).as_posix(),
                "size": path.stat().st_size,
                "oid": hashlib.sha1(path.read_bytes()).hexdigest(),
            }
            for path in files
        ]

    def answer(request: Request) -> Reply:
        name = request.path.removeprefix(f"/some/model/resolve/{COMMIT}/")
        if request.path.startswith("/api/models/some/model/tree/"):
            content = json.dumps(tree()).encode()
        elif request.path.startswith("/api/models/some/model"):
            siblings = [{"rfilename": entry["path"]} for entry in tree()]
            names = {"id": "some/model", "modelId": "some/model", "sha": COMMIT}
            content = json.dumps({**names, "siblings": siblings}).encode()
        elif name != request.path and (folder / name).is_file():
            content = (folder / name).read_bytes()
        else:
            return Reply(b"", 404)
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        return Reply(content, headers={"ETag": etag, "X-Repo-Commit": COMMIT})

    return answer


@pytest.fixture
def hub(small_files: Path) -> Iterator[Loopback]:
    with serving(hub_of(small_files)) as server:
        yield server


Run = Callable[..., CompletedProcess[str]]


def test_data_files_are_downloaded_once_and_code_never(
    run_python: Run, small_files: Path, hub: Loopback
) -> None:
    for name in ("modeling_own.py", "pytorch_model.bin", "weights.pkl"):
        (small_files / name).write_bytes(b"never wanted")
    (small_files / "onnx").mkdir()
    (small_files / "onnx" / "config.json").write_text("{}")
    first = run_python(RESOLVE, HF_ENDPOINT=hub.root, HF_HUB_OFFLINE="0")
    assert first.stderr == ""
    origin, files = first.stdout.splitlines()
    assert origin == f"hub {COMMIT}"
    assert {"model.safetensors", "modules.json", "1_Pooling/config.json"} <= set(files.split())
    assert not [name for name in files.split() if name.endswith((".py", ".bin", ".pkl", ".md"))]
    assert not any("onnx" in request.path for request in hub.received)
    hub.received.clear()
    assert run_python(RESOLVE, HF_ENDPOINT=hub.root, HF_HUB_OFFLINE="0").stdout == first.stdout
    assert hub.received == []


def test_model_without_safetensors_is_not_downloaded(
    run_python: Run, small_files: Path, hub: Loopback
) -> None:
    (small_files / "model.safetensors").rename(small_files / "pytorch_model.bin")
    done = run_python(RESOLVE, HF_ENDPOINT=hub.root, HF_HUB_OFFLINE="0")
    assert "without safetensors; pickled weights are refused" in done.stdout
    assert not any("/resolve/" in request.path for request in hub.received)


def test_model_that_the_hub_does_not_have(run_python: Run, hub: Loopback) -> None:
    code = RESOLVE.replace("some/model", "other/model")
    done = run_python(code, HF_ENDPOINT=hub.root, HF_HUB_OFFLINE="0")
    assert len(done.stdout.splitlines()) == 1
    assert "model 'other/model' is not available: the hub" in done.stdout


def test_a_hub_that_means_harm(run_python: Run) -> None:
    wrong = ("is nested", "has no JSON", "is null", "is a list", "has half a body", "is no HTTP")
    answers = {name: ANSWERS[name] for name in wrong}
    answers |= {f"repeats {status}": echo(str, status) for status in (200, 401, 500)}
    names = list(answers)

    def answer(handler: Handler) -> None:
        answers[names[int(handler.path.partition("/models/m/")[2].partition("?")[0])]](handler)

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
