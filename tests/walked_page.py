"""Walks through a page of docs: writes its files, runs its commands, compares what they print.

A block below a line that is nothing but ``` `path`: ``` is a file. In a block ``console`` a line
``$ ...`` is a command, and the lines below it are its output: ``...`` stands for anything within a
line, a line ``...`` for any lines. A command ends with 0, unless ``# exit code N`` is behind it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from rag_assets.cli import main
from tests.forked import ROOT, Forks, Place

DOCS = Path(__file__).resolve().parents[1] / "docs"

_BLOCK = re.compile(
    r"(?:^`(?P<file>[^`\n]+)`:\n\n)?^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.M | re.S
)
_CODE = re.compile(r"\s+# exit code (\d+)$")
_VARIABLE = re.compile(r"[A-Z_]+=")


SERVER = "http://127.0.0.1:8080/v1"
"""Where the pages say that a language model is."""


class Command(NamedTuple):
    """A command line, the status that it ends with, and what it prints."""

    line: str
    code: int
    output: list[str]


def walk(
    page: str, folder: Path, forks: Forks | None = None, server: str = SERVER
) -> list[Command]:
    """Do all that a page says, in ``folder``, and return the commands.

    With ``forks`` those of ``dagster`` and scripts of Python are forked: they need not import all.
    ``server`` stands for the address of the page's language model.

    Fails where a command ends, or prints, otherwise than the page says.
    """
    walked = []
    text = (DOCS / page).read_text(encoding="utf-8").replace(SERVER, server)
    for block in _BLOCK.finditer(text):
        if block["file"] is not None:
            path = folder / block["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["body"], encoding="utf-8")
        elif block["kind"] == "console":
            for command in commands(block["body"]):
                check(command, folder, forks)
                walked.append(command)
    return walked


def commands(body: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        line, *output = part.splitlines()
        code = _CODE.search(line)
        yield Command(_CODE.sub("", line), int(code[1]) if code else 0, output)


def check(command: Command, folder: Path, forks: Forks | None = None) -> None:
    code, printed = run(command.line, folder, forks)
    assert code == command.code, f"{command.line}\n{printed}"
    assert alike(command.output, printed), f"{command.line}\n{printed}"


def run(line: str, folder: Path, forks: Forks | None = None) -> tuple[int, str]:
    """Run a command: the program in this process, all others in a shell, or forked."""
    words = shlex.split(line)
    variables = dict(word.split("=", 1) for word in takewhile(_VARIABLE.match, words))
    if words[len(variables)] == "rag-assets":
        runner = CliRunner(env={"COLUMNS": "100", **variables})
        result = runner.invoke(main, words[len(variables) + 1 :])
        return result.exit_code, result.output
    if forks is not None and words[0] in ("dagster", "python") and words[:2] != ["python", "-m"]:
        log = folder.with_name("forked.log")
        place = Place(str(log), str(folder), {**os.environ, "PYTHONPATH": str(ROOT)})
        return forks.run(place, *words), log.read_text(encoding="utf-8")
    python = Path(sys.executable).parent
    path = {**os.environ, "PATH": f"{python}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(line, shell=True, cwd=folder, env=path, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def alike(expected: list[str], printed: str) -> bool:
    """Return whether the output is as a page shows it; blanks at the ends of lines do not count."""
    patterns = []
    for line in expected:
        if line == "...":
            patterns.append(r"(?:.*\n)*?")
        else:
            patterns.append(".*".join(map(re.escape, line.rstrip().split("..."))) + "\n")
    text = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return re.fullmatch("".join(patterns), text) is not None
