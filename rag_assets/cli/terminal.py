"""What is printed where: results to stdout, progress and notes to stderr, and how much of these.

All that a command prints goes through this module, which escapes what a terminal would obey:
names, tags, texts and answers of servers are data. ``--quiet`` and ``--verbose``, before or after
the name of a command, say how much goes to stderr.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from rag_assets.errors import UsageError
from rag_assets.plain_text import one_line, printable

if TYPE_CHECKING:
    from rag_assets.pipeline.evaluations import Evaluation
    from rag_assets.sheets.sheet import Sheet

UNBOUNDED = 10_000
"""Columns of what is no terminal: a line of a table or a note is one line of the file."""

_KEY = "rag_assets.verbosity"
GIVEN_STORE = "rag_assets.store"
"""Key of a context's ``meta``: the value of ``--store``."""

_ADVICE = re.compile(r"\brag-assets (?!init|convert|score)(?:judge )?[a-z-]+")
"""A command that a message advises, and that has ``--store``."""

# Alembic tells of each of Dagster's databases that it looks at it.
_VERBOSE_LEVELS = {"": logging.INFO, "rag_assets": logging.DEBUG, "alembic": logging.WARNING}

_BLANKS_AT_END = re.compile(r"(?<![ \t])[ \t]+(?=\n)")


class Verbosity(Enum):
    """How much is said beside the results."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


def verbosity() -> Verbosity:
    """Return what the user asked for; outside of a command, ``NORMAL``."""
    context = click.get_current_context(silent=True)
    level: Verbosity = context.meta.get(_KEY, Verbosity.NORMAL) if context else Verbosity.NORMAL
    return level


def print_line(text: str) -> None:
    """Print one line for people, on stdout."""
    print_data(f"{one_line(text)}\n")


def print_data(text: str) -> None:
    """Print what is for programs, and ends with its own line end.

    Into a pipe or a file it is written to the character; a terminal shows it to people.
    """
    try:
        click.echo(printable(text) if sys.stdout.isatty() else text, nl=False)
    except BrokenPipeError:
        output().on_broken_pipe()


def print_rows(
    rows: Sequence[Mapping[str, object]],
    form: str,
    sheets: Callable[[], Iterable[Sheet]],
    of: Evaluation | None = None,
    styles: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print rows in a form for programs, or for ``table`` and ``latex`` what ``sheets`` returns.

    Args:
        rows: what there is to print.
        form: ``table``, ``json``, ``csv``, ``markdown`` or ``latex``.
        sheets: returns what people read.
        of: the evaluation that the rows are of, which JSON and CSV name.
        styles: text of a cell -> how rich draws it.
    """
    # Loads the libraries of tables: names of commands are completed without them.
    from rag_assets.sheets.formats import dated, formatted
    from rag_assets.sheets.sheet import sheets_latex
    from rag_assets.sheets.terminal_table import sheets_view

    if form == "table":
        output().print(sheets_view(sheets(), styles))
    elif form == "latex":
        print_data(sheets_latex(sheets()))
    else:
        if of is not None:
            rows = dated(rows, form, of.evaluation_id, of.started)
        print_data(formatted(rows, form))


def output() -> Console:
    """Return the console for results; plain lines, as wide as they are, into a pipe or a file."""
    width = _width(sys.stdout)
    plain: Any = None if sys.stdout.isatty() else _Lines(sys.stdout)
    return _Console(file=plain, width=width)


def messages() -> Console:
    """Return the console for everything that is not the result; silent with ``--quiet``."""
    return _stderr(quiet=verbosity() is Verbosity.QUIET)


def print_message(line: str) -> None:
    """Print one line on stderr, however long; nothing with ``--quiet``."""
    messages().print(with_store(line), soft_wrap=True)


def with_store(message: str) -> str:
    """Return a message whose commands use the same ``--store`` as the one that is running."""
    context = click.get_current_context(silent=True)
    store = context.meta.get(GIVEN_STORE) if context is not None else None
    if store is None:
        return message
    return _ADVICE.sub(lambda match: f"{match[0]} --store {shlex.quote(str(store))}", message)


def print_note(line: str | None) -> None:
    """Print one line of a note on stderr; nothing for None."""
    if line is not None:
        print_message(f"note: {line}")


def print_warnings(lines: Iterable[str]) -> None:
    """Print what may be wrong, a line each."""
    for line in lines:
        print_message(f"warning: {line}")


def _stderr(*, quiet: bool) -> Console:
    return _Console(stderr=True, width=_width(sys.stderr), quiet=quiet)


def _width(stream: TextIO) -> int | None:
    """Return the width for a stream; None where the terminal or ``COLUMNS`` says it."""
    return None if stream.isatty() or os.environ.get("COLUMNS", "").isdigit() else UNBOUNDED


@contextmanager
def printable_messages() -> Iterator[None]:
    """Let warnings, and what is logged, hold nothing that a terminal obeys.

    They come from libraries, from plug-ins, and from the code of a user's own search.
    """
    format_warning, last_resort = warnings.formatwarning, logging.lastResort

    def formatted(*parts: Any, **options: Any) -> str:  # noqa: ANN401 (the signature of warnings)
        return printable(format_warning(*parts, **options))

    warnings.formatwarning, logging.lastResort = formatted, _LastLines(logging.WARNING)
    try:
        yield
    finally:
        warnings.formatwarning, logging.lastResort = format_warning, last_resort


def shown_path(path: Path) -> str:
    """Return a path as short as it can be typed from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


class _Console(Console):
    """A console for which text is data: it reads no markup and no emoji codes in it."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 (rich's)
        super().__init__(markup=False, emoji=False, highlight=False, soft_wrap=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 (rich's)
        """Print; a string is one line."""
        lines = (one_line(part) if isinstance(part, str) else part for part in objects)
        super().print(*lines, **options)

    def on_broken_pipe(self) -> None:
        """Go on and print nowhere: whoever reads no further changes no exit code."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 (rich's)
        """Return the cell of a table."""
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is written; segments of control are rich's own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


class _Lines:
    """A stream that leaves out the blanks with which rich fills the last cell of a row."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(_BLANKS_AT_END.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever a stream has)
        return getattr(self._stream, name)


_TEXTS = {
    Verbosity.QUIET: "Print results and errors only: no notes, no progress.",
    Verbosity.VERBOSE: "Log to stderr what is computed, the time it takes, and logs of libraries.",
}


def verbosity_options() -> list[click.Option]:
    """Return the options that every command has, and the program itself."""
    return [
        click.Option(
            [f"-{level.value[0]}", f"--{level.value}"],
            is_flag=True,
            expose_value=False,
            callback=_set_verbosity,
            help=text,
        )
        for level, text in _TEXTS.items()
    ]


def _set_verbosity(context: click.Context, option: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    wanted = Verbosity(option.name)
    if context.meta.setdefault(_KEY, wanted) is not wanted:
        raise UsageError("give only one of --quiet and --verbose")
    if context.parent is not None:
        log_to_stderr(context.find_root())


def log_to_stderr(root: click.Context) -> None:
    """Print what is logged until the program ends: when quiet, errors alone.

    Not before the program's own options are parsed: where one is wrong, its context never ends.
    """
    wanted = root.meta.get(_KEY)
    if wanted is None:
        return
    root_logger = logging.getLogger()
    if any(isinstance(handler, _LogLines) for handler in root_logger.handlers):
        return
    verbose = wanted is Verbosity.VERBOSE
    handler = _LogLines(logging.DEBUG if verbose else logging.ERROR)
    levels = _VERBOSE_LEVELS if verbose else {}
    before = {name: logging.getLogger(name).level for name in levels}
    for name, wanted_level in levels.items():
        logging.getLogger(name).setLevel(wanted_level)
    root_logger.addHandler(handler)

    def restore() -> None:
        root_logger.removeHandler(handler)
        for name, old_level in before.items():
            logging.getLogger(name).setLevel(old_level)

    root.call_on_close(restore)


class _LastLines(logging.Handler):
    """Prints records that no other handler takes, as Python does."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        click.echo(printable(self.format(record)), err=True)


class _LogLines(logging.Handler):
    """Prints records as lines on stderr, above a progress bar; a library's with its name."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        try:
            name = "" if record.name.split(".")[0] == "rag_assets" else f"{record.name}: "
            text = f"{record.relativeCreated / 1000:8.2f} s  {name}{record.getMessage()}"
            _stderr(quiet=False).print(text, soft_wrap=True, style="dim")
        except Exception:
            self.handleError(record)
