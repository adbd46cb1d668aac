"""``--quiet`` and ``--verbose``, before or after the name of a command: how much goes to stderr."""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any

import click

from rag_assets.errors import UsageError

_KEY = "rag_assets.verbosity"

# Alembic tells of each of Dagster's databases that it looks at it.
_VERBOSE_LEVELS = {"": logging.INFO, "rag_assets": logging.DEBUG, "alembic": logging.WARNING}


class Verbosity(Enum):
    """How much is said beside the results."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


def verbosity() -> Verbosity:
    """Return what the user asked for; outside of a command, ``NORMAL``."""
    context = click.get_current_context(silent=True)
    found: Verbosity = context.meta.get(_KEY, Verbosity.NORMAL) if context else Verbosity.NORMAL
    return found


def with_verbosity(command: click.Command) -> click.Command:
    """Add both options to a command and to those below it, once."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            with_verbosity(below)
    if not any(option.name == Verbosity.QUIET.value for option in command.params):
        command.params += _options()
    return command


def _options() -> list[click.Option]:
    return [
        click.Option(
            ["-q", f"--{Verbosity.QUIET.value}"],
            is_flag=True,
            expose_value=False,
            callback=_asked(Verbosity.QUIET),
            help="Print results and errors only: no notes, no progress.",
        ),
        click.Option(
            ["-v", f"--{Verbosity.VERBOSE.value}"],
            is_flag=True,
            expose_value=False,
            callback=_asked(Verbosity.VERBOSE),
            help="Say on stderr what is computed, how long it takes, and what libraries log.",
        ),
    ]


def _asked(wanted: Verbosity) -> Any:  # noqa: ANN401 (click's callback)
    def callback(context: click.Context, option: click.Parameter, value: bool) -> None:
        if not value or context.resilient_parsing:
            return
        if context.meta.setdefault(_KEY, wanted) is not wanted:
            raise UsageError("--quiet and --verbose exclude each other; give one of them")
        _log_to_stderr(context.find_root(), wanted)

    return callback


def _log_to_stderr(root: click.Context, wanted: Verbosity) -> None:
    """Print what is logged until the program ends: when quiet, errors alone."""
    root_logger = logging.getLogger()
    if any(isinstance(handler, _Lines) for handler in root_logger.handlers):
        return
    verbose = wanted is Verbosity.VERBOSE
    handler = _Lines(logging.DEBUG if verbose else logging.ERROR)
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


class _Lines(logging.Handler):
    """Prints records as lines on stderr, above a progress bar; a library's with its name."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        from rag_assets.cli.terminal import log_lines

        try:
            name = "" if record.name.split(".")[0] == "rag_assets" else f"{record.name}: "
            seconds = record.relativeCreated / 1000
            text = f"{seconds:8.2f} s  {name}{record.getMessage()}"
            log_lines().print(text, markup=False, soft_wrap=True, style="dim")
        except Exception:
            self.handleError(record)
