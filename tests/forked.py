"""Commands in processes of their own that start at once: forked from one that has evaluated.

``python -m tests.forked`` reads lines of JSON: ``["start", PLACE, ARGUMENT...]`` forks a process
that does what ``rag-assets ARGUMENT...`` does (or ``dagster ...`` or ``python FILE``, where this is
the first argument) and answers with its id; ``["wait", ID]`` answers with its exit status, negative
where a signal ended it. The first evaluation of a process imports modules, reads the package's
source for its versions, and takes twice as long: the server makes it once, in a store that it
throws away.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.tiny_experiment import Tiny

ROOT = Path(__file__).parents[1]

IMPORTED = ("faiss", "pandas", "plotly", "scipy.special", "tokenizers", "upath")
"""What commands import beyond an evaluation of the small experiment."""


@dataclass(frozen=True)
class Place:
    """What a process finds.

    Attributes:
        log: the file that it prints to.
        folder: the one it works in.
        environment: more variables.
        largest_file: bytes beyond which it cannot write a file, as on a full disk.
        killed_at: it is killed, by kill -9, before it renames or removes a file for this time (0:
            the first), counted from the first on whose path has ``counted_from`` in it.
        counted_from: by default, the snapshot.
        errors: the file for standard error; by default, the log.
    """

    log: str
    folder: str = str(ROOT)
    environment: Mapping[str, str] = field(default_factory=dict)
    largest_file: int | None = None
    killed_at: int | None = None
    counted_from: str = "/evaluations/"
    errors: str | None = None


class Forks:
    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def start(self, place: Path | Place, *arguments: str) -> int:
        found = Place(str(place)) if isinstance(place, Path) else place
        return self._ask("start", asdict(found), *arguments)

    def wait(self, process: int) -> int:
        return self._ask("wait", process)

    def run(self, place: Path | Place, *arguments: str) -> int:
        return self.wait(self.start(place, *arguments))

    def kill(self, process: int) -> None:
        """End a process, by kill -9, unless it has ended."""
        os.kill(process, signal.SIGKILL)  # nobody has waited for it, so the id is still its own

    def _ask(self, *question: object) -> int:
        if self._server.stdin is None or self._server.stdout is None:
            raise RuntimeError("the server has no pipes")
        self._server.stdin.write(json.dumps(question) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


@contextmanager
def forking() -> Iterator[Forks]:
    """Start the server, and end it."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.forked"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Forks(server)
    finally:
        server.communicate(timeout=60)


def serve() -> None:
    """Answer until the input ends."""
    for name in IMPORTED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        if (outcome := Tiny(Path(folder)).write().command("evaluate", ".")).exit_code:
            raise RuntimeError(outcome.output)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a run of Dagster leaves its own
    gc.collect()
    gc.freeze()  # no fork looks for garbage among what is imported, nor copies its pages for that
    for line in sys.stdin:
        what, *rest = json.loads(line)
        if what == "start":
            answer = os.fork()
            if answer == 0:
                _run(Place(**rest[0]), *rest[1:])
        else:
            _, status = os.waitpid(rest[0], 0)
            answer = os.waitstatus_to_exitcode(status)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    gc.unfreeze()  # DuckDB wants everything taken apart


def _run(place: Place, *arguments: str) -> None:
    """Be the command, in a process that was just forked; never returns."""
    code = 70
    try:
        for stream, file in ((1, place.log), (2, place.errors)):
            output = 1 if file is None else os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, stream)
        os.close(0)
        os.chdir(place.folder)
        os.environ.update(place.environment)
        if place.largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (place.largest_file, place.largest_file))
        if place.killed_at is not None:
            _kill_at(place.killed_at, place.counted_from)
        if arguments[0] == "dagster":
            from dagster._cli import cli

            cli.main(list(arguments[1:]), prog_name="dagster")
        elif arguments[0] == "python":
            sys.argv[:], sys.path[0] = arguments[1:], place.folder
            # What Python removes when a process ends is not removed after a fork.
            with tempfile.TemporaryDirectory() as tempfile.tempdir:
                runpy.run_path(arguments[1], run_name="__main__")
            code = 0
        else:
            from rag_assets.cli import progress_bars
            from rag_assets.cli.main import main

            progress_bars.LINE_INTERVAL_S = 3600.0  # how busy the machine is changes no output
            main.main(list(arguments), prog_name="rag-assets")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _kill_at(write: int, counted_from: str) -> None:
    """Let this process be killed between two writes of the end of its evaluation."""
    done: list[str] = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("os.rename", "os.remove"):
            target = str(arguments[1 if event == "os.rename" else 0])
            if done or counted_from in target:
                if len(done) == write:
                    os.kill(os.getpid(), signal.SIGKILL)
                done.append(target)

    sys.addaudithook(watch)


if __name__ == "__main__":
    serve()
