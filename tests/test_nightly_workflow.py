"""The workflow of docs/how_to/nightly.md: its steps are executed, as the forge would."""

from __future__ import annotations

import json
import os
import re
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.forked import Forks, Place

PAGE = Path(__file__).parents[1] / "docs/how_to/nightly.md"
FILES = dict(
    re.findall(r"^`([^`\n]+)`:\n\n```\w*\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
)
WORKFLOW = yaml.safe_load(FILES[".github/workflows/retrieval.yml"])
GOOD = FILES["data/ferry/experiment.yaml"].replace("whitespace", "english")
EXPRESSION = re.compile(r"\$\{\{ ?(.*?) ?\}\}")
MARK = "<!-- rag-assets -->"

GH = """#!{python}
import json, os, pathlib, sys
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if "--paginate" in sys.argv and pathlib.Path({log!r}).read_text().count('"comment"'):
    print(77)
"""

PROGRAM = """#!{python} -IS
import json, os, socket, sys
with socket.create_connection(("127.0.0.1", {port})) as server:
    server.sendall(json.dumps([os.getcwd(), dict(os.environ), sys.argv[1:]]).encode() + b"\\n")
    code, output, errors = json.loads(server.makefile().readline())
sys.stdout.write(output)
sys.stderr.write(errors)
sys.exit(code)
"""
"""``rag-assets`` as a process that was forked, with modules that need not be imported again."""


class Run(NamedTuple):
    """What a run of the workflow left behind."""

    steps: list[str]
    summary: str
    failed: list[str]


class Forge:
    """Executes the steps of the job in a checkout."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.log = folder, folder / "gh.jsonl"
        self.log.touch()
        commands = folder / "bin"
        commands.mkdir()
        fork = PROGRAM.format(python=sys.executable, port=port)
        other = GH.format(python=sys.executable, log=str(self.log))
        for name, text in {"gh": other, "pip": other, "rag-assets": fork}.items():
            file = commands / name
            file.write_text(text, encoding="utf-8")
            file.chmod(0o755)
        self.path = os.pathsep.join(
            [str(commands), str(Path(sys.executable).parent), os.environ["PATH"]]
        )

    def calls(self) -> list[list[str]]:
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [words for line in lines if (words := json.loads(line))[0] != "install"]

    def run(self, checkout: Path, event: str, *, pin: bool = False) -> Run:
        """Run the job's steps, with what their expressions say."""
        ref = "refs/pull/5/merge" if event == "pull_request" else "refs/heads/main"
        values: dict[str, object] = {
            "github.ref": ref,
            "github.event_name": event,
            "github.token": "a-token",
            "github.event.pull_request.number": 5,
            "inputs.pin": pin,
            "always()": True,
        }
        summary, output = (self.folder / name for name in ("summary.md", "output.txt"))
        summary.write_text("")
        output.write_text("")
        done: list[str] = []
        failed: list[str] = []
        (job,) = WORKFLOW["jobs"].values()
        for step in job["steps"]:
            name = step.get("name", step.get("uses", step.get("run", "")))
            condition = step.get("if", "true")
            if (failed and "always()" not in condition) or not _holds(condition, values):
                continue
            done.append(name)
            if "run" not in step:
                continue
            variables = {**job["env"], **step.get("env", {})}
            filled = {key: _filled(str(value), values) for key, value in variables.items()}
            forge = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(output)}
            forge |= {"GITHUB_REPOSITORY": "me/ferry", "PATH": self.path, "COLUMNS": "200"}
            script = self.folder / "script.sh"
            script.write_text(_filled(step["run"], values), encoding="utf-8")
            code = subprocess.run(
                ["bash", "-e", str(script)],
                cwd=checkout,
                env={**os.environ, **forge, **filled},
                check=False,
            ).returncode
            if code and not step.get("continue-on-error"):
                failed.append(f"{name}: {code}")
            for line in output.read_text().splitlines():
                key, _, value = line.partition("=")
                values[f"steps.{step.get('id', 'gate')}.outputs.{key}"] = value
        return Run(done, summary.read_text(encoding="utf-8"), failed)


@pytest.fixture
def forge(tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    """A forge whose steps find ``rag-assets`` as an installed program."""
    for name in ("DAGSTER_HOME", "RAG_ASSETS_STATE_DIR", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)

    class Program(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            folder, environment, arguments = json.loads(self.rfile.readline())
            output, errors = (tmp_path / name for name in ("stdout.txt", "stderr.txt"))
            place = Place(str(output), folder, environment, errors=str(errors))
            code = forks.run(place, *arguments)
            reply = [code, *(file.read_text(encoding="utf-8") for file in (output, errors))]
            self.wfile.write(json.dumps(reply).encode() + b"\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Program) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield Forge(tmp_path, server.server_address[1])
        server.shutdown()
        thread.join()


def _filled(text: str, values: Mapping[str, object]) -> str:
    return EXPRESSION.sub(lambda match: str(values[match[1]]), text)


def _holds(condition: str, values: Mapping[str, object]) -> bool:
    """Evaluate a condition: names, strings, ``==``, ``&&``, ``||``, brackets."""
    words = re.findall(r"'[^']*'|always\(\)|==|&&|\|\||[()]|[\w.]+", condition)
    python = {"&&": "and", "||": "or", "true": "True"}
    is_word = re.compile(r"'|==|[()]$")
    parts = [
        python.get(word) or (word if is_word.match(word) else repr(values.get(word, "")))
        for word in words
    ]
    return bool(eval(" ".join(parts), {}))


def checkout(folder: Path, experiment: str = GOOD) -> Path:
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (folder / "data/ferry/experiment.yaml").write_text(experiment, encoding="utf-8")
    return folder


def test_its_form() -> None:
    workflow: dict[Any, Any] = WORKFLOW
    assert set(workflow[True]) == {"schedule", "push", "pull_request", "workflow_dispatch"}
    (job,) = workflow["jobs"].values()
    assert workflow["permissions"] == {"contents": "read"}
    assert job["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    uses = [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]
    assert {
        "actions/checkout",
        "actions/cache/restore",
        "actions/cache/save",
        "actions/upload-artifact",
    } < {*uses}


def test_from_the_first_run_to_a_comment_that_is_updated(tmp_path: Path, forge: Forge) -> None:
    main = checkout(tmp_path / "main")
    first = forge.run(main, "push")
    assert first.failed == []
    assert "Pin the anchor" in first.steps
    assert "gate passed: ferry, floors" in first.summary
    assert (main / "data/store/ferry/anchor").is_file()
    night = forge.run(main, "schedule")
    assert (night.failed, "Pin the anchor" in night.steps) == ([], False)
    assert "gate passed: ferry, mrr@3 against" in night.summary
    assert "Pin the anchor" in forge.run(main, "workflow_dispatch", pin=True).steps
    assert forge.calls() == []
    request = checkout(tmp_path / "request", GOOD.replace("english", "whitespace"))
    shutil.copytree(main / "data/store", request / "data/store")  # the cache, under another path
    worse = forge.run(request, "pull_request")
    assert worse.failed == ["What the gate says: 1"]
    assert "Pin the anchor" not in worse.steps
    assert "actions/cache/save@v4" not in worse.steps
    assert "actions/upload-artifact@v4" in worse.steps
    assert "failed: bm25: hit_rate@3 >= 0.5: 0.1667 is below 0.5" in worse.summary
    asked, created = forge.calls()
    assert asked[:2] == ["api", "repos/me/ferry/issues/5/comments"]
    assert created == ["pr", "comment", "5", "--repo", "me/ferry", "--body-file", "comment.md"]
    comment = (request / "comment.md").read_text(encoding="utf-8")
    assert comment.startswith(f"{MARK}\n### gate FAILED: ferry, mrr@3 against ")
    (request / "data/ferry/experiment.yaml").write_text("top_k: [none]\n", encoding="utf-8")
    broken = forge.run(request, "pull_request")
    assert broken.failed == ["What the gate says: 2"]
    assert "experiment.yaml:1: 'top_k.0'" in broken.summary
    assert "gate FAILED" not in broken.summary
    *_, updated = forge.calls()
    assert updated[:4] == ["api", "repos/me/ferry/issues/comments/77", "--method", "PATCH"]
    assert updated[4:] == ["--field", "body=@comment.md"]
    (request / "data/ferry/experiment.yaml").write_text(
        GOOD.replace("hit_rate@3", "ndcg@9"), "utf-8"
    )
    unread = forge.run(request, "pull_request")
    assert unread.failed == ["What the gate says: 2"]
    assert "error: the floor ndcg@9 >= 0.5 cannot be read" in unread.summary
