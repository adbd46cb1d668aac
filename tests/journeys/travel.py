"""Runs the commands of a journey, in this process or in others, and looks at each outcome."""

from __future__ import annotations

import os
import re
import shlex
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import rag_assets
from rag_assets.assets.instance import open_instance
from rag_assets.assets.job import evaluation_job
from rag_assets.cli.main import INTERRUPTED, main
from rag_assets.errors import RagAssetsError
from rag_assets.experiment import load_experiment
from rag_assets.labels.page.server import LabelServer
from rag_assets.labels.sampling.estimates import NO_QUESTION
from rag_assets.store.settings import StoreSettings
from tests.dagster_state import QUIET
from tests.forked import Forks, Place
from tests.journeys.checks import Step, advices, page_advices, page_problems, problems
from tests.journeys.folder import LAB, METRICS, Folder, Row
from tests.labels.page.served import Client

Person = Callable[[Client], None]
"""What somebody does on the page of labels."""

EVALUATION = re.compile(r"^evaluation (\S+): ", re.MULTILINE)


def in_process(arguments: Sequence[str], person: Person | None) -> tuple[int, str, str]:
    """Run a command in this process."""
    with pytest.MonkeyPatch.context() as patch:
        if person is not None:
            patch.setattr(LabelServer, "run", _served_to(person))
        outcome = CliRunner(env={"COLUMNS": "200"}).invoke(main, list(arguments))
    stderr = outcome.stderr
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        stderr += "".join(traceback.format_exception(outcome.exception))
    return outcome.exit_code, outcome.stdout, stderr


def _served_to(person: Person) -> Callable[[LabelServer], None]:
    serve = LabelServer.run

    def run(server: LabelServer) -> None:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        try:
            person(Client(server.address))
        finally:
            server.server.should_exit = True
            thread.join(20)

    return run


@dataclass
class Processes:
    """Runs each command as a process of its own; ``process`` is the id of the last one."""

    forks: Forks
    folder: Path
    process: int = 0

    def __call__(self, arguments: Sequence[str], person: Person | None) -> tuple[int, str, str]:
        log = self.folder / "output.txt"
        log.unlink(missing_ok=True)
        place = Place(str(log), str(self.folder), {"COLUMNS": "200"})
        self.process = self.forks.start(place, *arguments)
        if person is not None:
            person(Client(self._address(log)))
            os.kill(self.process, signal.SIGINT)  # nobody has waited for it yet
        code = self.forks.wait(self.process)
        return code, log.read_text(encoding="utf-8"), ""

    def _address(self, log: Path) -> str:
        for _ in range(600):
            printed = log.read_text(encoding="utf-8") if log.exists() else ""
            match = re.search(r"^(http://\S+/)$", printed, re.MULTILINE)
            if match:
                return match[1]
            time.sleep(0.1)
        raise TimeoutError(f"no address was printed: {printed}")


@dataclass
class Journey:
    """A folder, and what was run on it."""

    folder: Folder
    command: Callable[[Sequence[str], Person | None], tuple[int, str, str]] = in_process
    steps: list[Step] = field(default_factory=list)
    advised: dict[str, None] = field(default_factory=dict)
    evaluations: list[str] = field(default_factory=list)

    def run(
        self,
        *arguments: str,
        person: Person | None = None,
        fails: bool = False,
        at_once: bool = True,
    ) -> Step:
        """Run a command, look at what it said, and run what it advises.

        Args:
            arguments: of ``rag-assets``.
            person: what somebody does on the page that it serves.
            fails: whether it must end with 1 or 2 and an error.
            at_once: whether advised commands are run now; else only written down.
        """
        step = Step(arguments, *self.command(arguments, person))
        self.steps.append(step)
        self.evaluations += EVALUATION.findall(step.stdout)
        codes = {1, 2} if fails else exit_codes(self.folder.row, arguments[0])
        codes |= {INTERRUPTED} if person is not None else set()
        wrong = list(problems(step, codes))
        advice = advices(f"{step.stdout}\n{step.stderr}")
        report = self.folder.root / "data/store" / LAB / "report.html"
        if arguments[0] in ("evaluate", "report") and report.is_file():
            page = report.read_text(encoding="utf-8")
            wrong += page_problems(page)
            advice += page_advices(page)
        if wrong:
            pytest.fail(f"{self}\n" + "\n".join(dict.fromkeys(wrong)), pytrace=False)
        for text in advice:
            if text not in self.advised:
                self.advised[text] = None
                if at_once:
                    self.follow_advice(text)
        return step

    def follow_advice(self, advice: str) -> Step:
        """Run an advised command, as printed."""
        command = completed(advice)
        return self.run(*command, person=looks if command[0] == "label" else None)

    def job(self) -> None:
        """Run the job of Dagster, in this process; it ends as the last evaluation did."""
        settings = StoreSettings.resolve()
        with open_instance(settings) as instance:
            job = evaluation_job(load_experiment(LAB), settings)
            outcome = job.execute_in_process(
                instance=instance, run_config=QUIET, raise_on_error=False
            )
        last = self.last_evaluation()
        assert outcome.success == (last.code == 0), self

    def python(self) -> None:
        """Evaluate in Python, and show what comes back; it ends as the last evaluation did."""
        try:
            step = Step(("evaluate", "in Python"), 0, f"{rag_assets.evaluate(LAB)}\n", "")
        except RagAssetsError as error:
            step = Step(("evaluate", "in Python"), error.exit_code, "", f"error: {error}\n")
        wrong = list(problems(step, {self.last_evaluation().code}))
        self.steps.append(step)
        assert not wrong, wrong

    def last_evaluation(self) -> Step:
        """Return the last step that evaluated; advices were followed after it."""
        return next(step for step in reversed(self.steps) if step.arguments[0] == "evaluate")

    def __str__(self) -> str:
        row = self.folder.row
        differs = ", ".join(f"{name} {value}" for name, value in row._asdict().items())
        return "\n".join([f"journey: {differs}", *map(str, self.steps[-3:])])


def exit_codes(row: Row, command: str) -> set[int]:
    """Return with what a command may end, as its help says."""
    # A sample estimates a few metrics only, and what was not graded may come into the pool.
    is_whole = row.labels == "page" and row.between in ("nothing", "label", "marked", "deleted")
    is_pooled = row.between == "label" and row.labels in ("none", "judge")
    labelled = row.labels in ("complete", "samples") or is_pooled or is_whole
    has_metric = labelled or row.metric == "answers"
    is_other = row.between in ("label", "marked") or row.labels in ("drawn", "page")
    codes = {0}
    if row.questions == "1" and row.between == "marked":  # no question is left
        codes |= {1, 2}
    if command == "gate":  # 1 fail, 4 cannot tell, 2 wrong usage or other labels
        codes |= {1, 4} | ({2} if is_other or not has_metric or row.metric == "less" else set())
    elif command == "diff":
        codes |= {1} if is_other or not has_metric else set()
    elif command in ("compare", "history", "leaderboard"):
        is_alone = row.questions == "1" and command == "compare"
        codes |= {1, 2} if is_alone or not has_metric or not labelled else set()
    return codes


def looks(client: Client) -> None:
    """Be a person who opens the page of labels, and looks at all of it."""
    client.ask("start")
    status, _, content = client.raw("standing")
    assert status == 200 or NO_QUESTION in content.decode(), content
    client.ask("next")


def completed(advice: str) -> list[str]:
    """Return the arguments of an advised command, with the folder where it names none.

    ``PATH`` stands for the folder. In prose a command stands without arguments: it is named, and is
    not printed to be typed.
    """
    name, *arguments = shlex.split(advice)[1:]
    arguments = [LAB if one == "PATH" else one for one in arguments]
    command: click.Command | None = main.get_command(click.Context(main), name)
    if isinstance(command, click.Group) and arguments:
        command = command.commands[arguments[0]]
    takes_path = command is not None and any(one.name == "path" for one in command.params)
    if takes_path and not any(one == LAB for one in arguments):
        arguments.append(LAB)
    return [name, *arguments]


THEN: Mapping[str, Sequence[str]] = {
    "ask": ["ask lab 'a ticket for a dog'", "ask lab 'a ticket for a dog' --format json"],
    "plan": ["plan lab --all", "plan lab --format json"],
    "evaluate": ["evaluate lab", "evaluate lab --format json"],
    "leaderboard": [
        *(f"leaderboard lab --format {form}" for form in ("table", "json")),
        "leaderboard lab --latency",
    ],
    "compare": [f"compare lab {{metric}} --format {one}" for one in ("table", "json")],
    "diff": [f"diff lab {{first}} {{last}} {{metric}} --format {one}" for one in ("table", "json")],
    "gate": [
        *(
            f"gate lab --against {{first}} {{metric}} --format {form}"
            for form in ("table", "json", "markdown", "csv")
        ),
        "gate lab --against previous {metric}",
    ],
    "report": ["report lab", "report lab --explorer --out all.html"],
    "label": ["label lab --status", "label lab --status --format json", "label lab --no-browser"],
    "pool": ["pool lab --out pool.csv", "pool lab --sample 5"],
    "history": [f"history lab {{metric}} --format {one}" for one in ("table", "json", "markdown")],
    "export-run": [
        f"export-run lab --retriever mine --out mine.{form}" for form in ("trec", "jsonl")
    ],
    "status": ["status", "status --format json"],
    "dagster": ["leaderboard lab"],
    "python": ["leaderboard lab"],
}
"""Commands that come after the evaluations, of which the first and the last have their ids."""


def follow(journey: Journey) -> None:
    """Do what comes after the evaluations."""
    row, ids = journey.folder.row, journey.evaluations
    metric = "" if row.metric == "more" else f"--metric {METRICS[row.metric]}"
    for then in row.then.split("+"):
        if then == "dagster":
            journey.job()
        if then == "python":
            journey.python()
        for line in THEN[then]:
            arguments = shlex.split(line.format(metric=metric, first=ids[0], last=ids[-1]))
            is_page = arguments[0] == "label" and "--status" not in arguments
            journey.run(*arguments, person=looks if is_page else None)
