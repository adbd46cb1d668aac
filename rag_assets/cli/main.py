"""The program: its commands in the order of use, and how failures leave it."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from rag_assets import __version__
from rag_assets.cli import data_commands as data
from rag_assets.cli import evaluation_commands as evaluations
from rag_assets.cli.terminal import log_to_stderr, printable_messages, verbosity_options, with_store
from rag_assets.errors import RagAssetsError, StoreError, UsageError
from rag_assets.plain_text import one_line, printable, shortened
from rag_assets.signal_handlers import interrupt_handlers, is_interrupt

INTERRUPTED = 3

MAX_CHARACTERS = 3_000
"""Characters of an error: what it quotes may be as long as a file."""

M_MMAP_THRESHOLD, MAPPED_FROM = -3, 1 << 22
"""An option of ``mallopt`` (malloc.h): from so many bytes on, what is freed leaves the process."""

_log = logging.getLogger(__name__)


class _Group(click.Group):
    """Lists commands in their order, and ends with one line and an exit code on a failure."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of use."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, each with the first sentence of its help."""
        texts = {name: f"{cmd.help}\n".split(".\n")[0] for name, cmd in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl([(n, f"{text.split('. ')[0]}.") for n, text in texts.items()])

    def main(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 (click's signature)
        """Run the program, which Ctrl-C and SIGTERM interrupt."""
        if not args and not extra.get("args"):  # this process is the program's own
            _hold_less_memory()
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
        with _failures():
            _refuse_no_text(args)
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 (click's signature)
        """Run a command; an expected failure is one line on stderr and an exit code."""
        started = time.perf_counter()
        log_to_stderr(ctx)
        try:
            with _failures():
                return super().invoke(ctx)
        finally:
            _log.info("%s took %.2f s", ctx.invoked_subcommand, time.perf_counter() - started)


@contextmanager
def _failures() -> Iterator[None]:
    """Print an expected failure as one line on stderr, and leave with its exit code."""
    try:
        yield
    except RagAssetsError as error:
        click.echo(f"error: {shortened(with_store(str(error)), MAX_CHARACTERS)}", err=True)
        raise click.exceptions.Exit(error.exit_code) from error
    except click.UsageError as error:
        raise _printable(error) from None
    except OSError as error:
        if error.strerror is None or error.errno == errno.EPIPE:
            raise
        place = shortened(str(error.filename or "the system"))
        click.echo(f"error: {one_line(place)}: {error.strerror}", err=True)
        raise click.exceptions.Exit(StoreError.exit_code) from error
    except (KeyboardInterrupt, RuntimeError) as error:
        if not is_interrupt(error):
            raise
        click.echo("interrupted; finished work is stored; run it again to continue", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from error


def _hold_less_memory() -> None:
    """Return large arrays to the system once they are freed; Arrow and C keep some by default."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):  # that of GNU has it
        mallopt(M_MMAP_THRESHOLD, MAPPED_FROM)


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


def _printable(error: click.UsageError) -> click.UsageError:
    """Return an error of click as ours are; it holds nothing which a terminal obeys."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error  # it is the help
    return _WrongUsage(shortened(printable(error.format_message()), MAX_CHARACTERS), error.ctx)


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    commands=[
        evaluations.INIT,
        evaluations.ASK,
        evaluations.EVALUATE,
        evaluations.PLAN,
        evaluations.VALIDATE,
        evaluations.LEADERBOARD,
        evaluations.COMPARE,
        evaluations.STATUS,
        evaluations.HISTORY,
        evaluations.DIFF,
        evaluations.GATE,
        evaluations.ANCHOR,
        evaluations.ATTRIBUTION,
        evaluations.REPORT,
        data.SCORE,
        data.POOL,
        data.LABEL,
        data.JUDGE,
        data.GENERATE,
        data.CONVERT,
        data.EXPORT_RUN,
        data.INTERLEAVE,
        data.CLEAN,
    ],
)
@click.version_option(__version__, prog_name="rag-assets")
def main() -> None:
    """Find out which retrieval setup is best on your questions, and what produced each number.

    Exit codes: 0 success, 1 a finding such as invalid data, 2 wrong usage or configuration,
    3 interrupted or incomplete, 4 `gate` cannot tell.

    Example: rag-assets evaluate data/handbook
    """


main.params += verbosity_options()
