"""The group of all commands with a line on each, and how failures leave the program."""

from __future__ import annotations

import errno
import logging
import time
from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import IO, Any

import click

from rag_assets import __version__
from rag_assets.cli.terminal import (
    log_to_stderr,
    note_beginning,
    printable_messages,
    with_verbosity,
)
from rag_assets.errors import RagAssetsError, StoreError, UsageError
from rag_assets.plain_text import one_line, printable, shortened
from rag_assets.signal_handlers import interrupt_handlers, is_interrupt

SUMMARIES: Mapping[str, str] = {
    "init": "Look at your data, and write a commented experiment.yaml for it.",
    "ask": "Show what each retriever finds for one question.",
    "evaluate": "Compute what is out of date, and print the leaderboard.",
    "plan": "Say what `evaluate` would compute, and why.",
    "validate": "Check documents, queries and labels.",
    "leaderboard": "Print the leaderboard of the last evaluation.",
    "compare": "Compare two retrievers, or all pairs, on the same queries.",
    "status": "List the experiments of a store: best, stale, anchor, schedule.",
    "history": "Print a metric over time, and what changed.",
    "diff": "Say what differs between two evaluations.",
    "gate": "Say if the last evaluation got worse: pass, fail or cannot tell.",
    "anchor": "Pin an evaluation for `gate` and `diff` to compare with.",
    "attribution": "Print which stage found or lost the evidence.",
    "report": "Write the last evaluation as one HTML page.",
    "score": "Score a run file against qrels.",
    "pool": "Write a sheet of what the retrievers found, for people to grade.",
    "label": "Grade passages in your browser, one at a time.",
    "judge": "Label answers, test judges, export verdicts.",
    "generate": "Have a language model write questions about the chunks.",
    "convert": "Write a dataset in another format.",
    "export-run": "Write what a retriever returned, as a file.",
    "cache": "Show the caches.",
    "clean": "Remove old evaluations, files that nothing needs, and texts.",
    "warehouse": "Rebuild `warehouse.duckdb`.",
}
"""Command -> what it does, in the order of use; its module has its name."""


INTERRUPTED = 3

MOST_SHOWN = 3_000
"""Characters of an error: what it quotes may be as long as a file."""

_log = logging.getLogger(__name__)


class _Group(click.Group):
    """Loads a command's module when it is used: ``score`` needs neither Dagster nor a model."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of use."""
        return list(SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return one command."""
        if cmd_name not in SUMMARIES:
            return None
        module = import_module(f"rag_assets.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return with_verbosity(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without loading one."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is named first; a typing error is told what may be meant."""
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], SUMMARIES, n=1)
            if not near or "Did you mean" in error.message:
                raise
            raise click.UsageError(f"{error.message} Did you mean '{near[0]}'?", ctx) from error
        if command is not None and not ctx.resilient_parsing:
            _refuse_repetitions(command, rest, click.Context(command, ctx, name))
        return name, command, rest

    def main(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 (click's signature)
        """Run the program, which Ctrl-C and SIGTERM interrupt."""
        with interrupt_handlers(), printable_messages():
            return super().main(*args, **extra)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 (click's signature)
    ) -> click.Context:
        """Parse the arguments of the group; what is wrong with them is one line."""
        try:
            _refuse_no_text(args)
            return super().make_context(info_name, args, parent, **extra)
        except RagAssetsError as error:
            click.echo(f"error: {shortened(str(error), MOST_SHOWN)}", err=True)
            raise click.exceptions.Exit(error.exit_code) from error
        except click.UsageError as error:
            raise _shown(error) from None

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 (click's signature)
        """Run a command; an expected failure is one line on stderr and an exit code."""
        started = time.perf_counter()
        note_beginning(ctx)
        log_to_stderr(ctx)
        try:
            return super().invoke(ctx)
        except RagAssetsError as error:
            click.echo(f"error: {shortened(str(error), MOST_SHOWN)}", err=True)
            ctx.exit(error.exit_code)
        except click.UsageError as error:
            raise _shown(error) from None
        except OSError as error:
            if error.strerror is None or error.errno == errno.EPIPE:
                raise
            place = shortened(str(error.filename or "the system"))
            click.echo(f"error: {one_line(place)}: {error.strerror}", err=True)
            ctx.exit(StoreError.exit_code)
        except (KeyboardInterrupt, RuntimeError) as error:
            if not is_interrupt(error):
                raise
            click.echo("interrupted; finished work is stored, run it again to go on", err=True)
            ctx.exit(INTERRUPTED)
        finally:
            _log.info("%s took %.2f s", ctx.invoked_subcommand, time.perf_counter() - started)


def _refuse_repetitions(command: click.Command, args: list[str], ctx: click.Context) -> None:
    """Refuse an option that takes one value and was given two: the first would be dropped.

    Raises:
        UsageError: there is such an option.
    """
    _, rest, given = command.make_parser(ctx).parse_args(list(args))
    for option, count in Counter(map(id, given)).items():
        one = next(each for each in given if id(each) == option)
        if count > 1 and isinstance(one, click.Option) and not (one.multiple or one.is_flag):
            name = max(one.opts, key=len)
            raise UsageError(f"{name} is given {count} times; it takes one value")
    if isinstance(command, click.Group) and rest:
        below = command.get_command(ctx, rest[0])
        if below is not None:
            _refuse_repetitions(below, rest[1:], click.Context(below, ctx, rest[0]))


def _refuse_no_text(args: list[str]) -> None:
    """Refuse bytes that are no text: they could be in no file of the store, and in no message."""
    for arg in args:
        try:
            arg.encode()
        except UnicodeEncodeError:
            raise UsageError(f"the argument {shortened(arg)!a} is not UTF-8") from None


class _WrongUsage(click.UsageError):
    """An error of click that is told as all of ours are: ``error:`` at the beginning."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print how the command is used, and the error."""
        if self.ctx is not None:
            hint = f"Try '{self.ctx.command_path} --help' for help."
            click.echo(f"{self.ctx.get_usage()}\n{hint}\n", file, err=True)
        click.echo(f"error: {self.format_message()}", file, err=True)


def _shown(error: click.UsageError) -> click.UsageError:
    """Return an error of click as ours are; it holds nothing which a terminal obeys."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error  # it is the help
    text = shortened(printable(error.format_message()), MOST_SHOWN)
    return _WrongUsage(text, error.ctx)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rag-assets")
def main() -> None:
    """Find out which retrieval setup is best on your questions, and what produced each number.

    Exit codes: 0 success, 1 a finding such as invalid data, 2 wrong usage or configuration,
    3 interrupted or incomplete, 4 `gate` cannot tell.

    Example: rag-assets evaluate data/handbook
    """


with_verbosity(main)
