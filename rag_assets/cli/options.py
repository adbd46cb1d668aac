"""How commands are declared, and the options that several of them share.

A command is declared apart from what it does, so that its help waits for no library of tables,
models or Dagster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from rag_assets.cli.terminal import GIVEN_STORE, verbosity_options
from rag_assets.errors import UsageError
from rag_assets.plain_text import shortened

MAX_DAYS = 100_000
"""Of an age: about as many as there are days before now in a calendar."""

MAX_INTEGER = 2**31 - 1
"""Of a number of things: what counts them has 32 bits here and there."""


class _Finite(click.ParamType[Any]):
    """A number of no more than 32 bits; ``nan`` is in every range for click, and infinity too."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 (click's signature)
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 (click's signature)
        """Return the number."""
        number = super().convert(value, param, ctx)
        if abs(number) == inf or number != number:
            self.fail(f"{number} is not a finite number.", param, ctx)
        if abs(number) > MAX_INTEGER:
            self.fail(f"{shortened(str(value))} is more than {MAX_INTEGER}.", param, ctx)
        return number


class Number(_Finite, click.FloatRange):
    """A number in a range."""


class Integer(_Finite, click.IntRange):
    """An integer in a range, of which help says what matters."""


class Limit(click.ParamType[Any]):
    """A metric and a number with ``=`` between, as ``(metric, number)``."""

    name = "metric=number"

    def convert(
        self,
        value: Any,  # noqa: ANN401 (click's signature)
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, float]:
        """Return both; the metric may have a ``=`` of its own."""
        metric, _, number = value.rpartition("=")
        if not metric:
            self.fail(f"{shortened(value)} is no METRIC=NUMBER, such as recall@10=0.8.", param, ctx)
        return metric.strip(), Number().convert(number, param, ctx)


PLACE = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)


def option(*names: str, **attributes: Any) -> click.Option:  # noqa: ANN401 (click's)
    """Return an option; a default is shown."""
    return click.Option(names, **{"show_default": True, **attributes})


def flag(name: str, text: str) -> click.Option:
    """Return an option without a value."""
    return click.Option([name], is_flag=True, help=text)


def count(*names: str, **attributes: Any) -> click.Option:  # noqa: ANN401 (click's)
    """Return an option that takes a number of things, at least one."""
    return option(*names, type=Integer(min=1), **attributes)


def choice(
    *names: str,
    of: Collection[str],
    **attributes: Any,  # noqa: ANN401 (click's)
) -> click.Option:
    """Return an option that takes one of some words."""
    return option(*names, type=click.Choice(list(of)), **attributes)


def output_format(
    of: Collection[str] = ("table", "json", "csv", "markdown"), text: str = ""
) -> click.Option:
    """Return ``--format`` with its forms, the default first."""
    forms = [*of]
    return choice("--format", "form", of=forms, default=forms[0], help=text or "Output format.")


def _remembered(context: click.Context, _: click.Parameter, store: Path | None) -> Path | None:
    """Let the commands that messages advise name the same store."""
    context.meta[GIVEN_STORE] = store
    return store


PATH = click.Argument(["path"], type=PLACE, is_eager=True)
STORE = option(
    "--store",
    type=PLACE,
    callback=_remembered,
    help="Folder for artifacts and state, or s3://BUCKET/PREFIX  [default: data/store, or "
    "RAG_ASSETS_STORE]",
)
RETRIEVERS = option(
    "--retriever",
    "retrievers",
    multiple=True,
    metavar="NAME",
    help="Use only this retriever. Can be repeated.",
)
ANSWERERS = option(
    "--answerer",
    "answerers",
    multiple=True,
    metavar="NAME@K",
    help="Use only this answerer at this cut-off, such as plain@5. Can be repeated.",
)
TOP_KS = count(
    "--top-k", "top_k", multiple=True, metavar="K", help="Use only this cut-off. Can be repeated."
)
FORMAT = output_format(text="Output format: `table` for people, the others for programs.")
PAPER_FORMAT = output_format(
    of=("table", "json", "csv", "markdown", "latex"),
    text="Output format: `table` for people, `latex` for papers, the others for programs.",
)
METRIC = option("--metric", help="Such as recall@10 or answer_f1  [default: the primary metric]")
SPLIT = option("--split", help="Use this split  [default: test, if there is one]")
MEANS = (RETRIEVERS, ANSWERERS, METRIC, SPLIT)
"""Which means are compared over evaluations."""

DEV_OR_TEST = choice(
    "--split",
    of=("dev", "test"),
    help="Queries for choosing (dev) or for reporting (test)  [default: test, if there is a split]",
)
INTERSECTION = flag(
    "--intersection", "If queries or labels differ, compare on those that are the same in both."
)
EXPLORER = flag(
    "--explorer",
    "Write the page with charts, and with what each retriever returned for each query (5 MB).",
)
DRY_RUN = flag("--dry-run", "Print the number of requests, and send none.")


class Command(click.Command):
    """A command; what it does is imported when it is run."""

    def __init__(self, name: str, runs: str, text: str, *parameters: click.Parameter) -> None:
        """Declare a command.

        Args:
            name: as it is typed.
            runs: ``module:function`` below ``rag_assets.cli``.
            text: its help.
            parameters: in the order of the help; the function has them by name.
        """
        every = [*parameters, *verbosity_options()]
        super().__init__(name, params=every, help=text, callback=self._run)
        self.runs = runs

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an option of one value that was given twice: the first would be dropped."""
        for opt, count in Counter(self.make_parser(ctx).parse_args([*args])[2]).items():
            if count > 1 and isinstance(opt, click.Option) and not (opt.multiple or opt.is_flag):
                name = max(opt.opts, key=len)
                raise UsageError(f"{name} is given {count} times; it takes only one value")
        return super().parse_args(ctx, args)

    def _run(self, **values: Any) -> None:  # noqa: ANN401 (of its parameters)
        module, _, function = self.runs.partition(":")
        getattr(import_module(f"rag_assets.cli.{module}"), function)(**values)


def group(name: str, text: str, *commands: click.Command) -> click.Group:
    """Return a command that has others below it."""
    return click.Group(name, help=text, commands=[*commands], params=verbosity_options())


def refuse_given(names: Collection[str], why: str) -> None:
    """Refuse an option of this command that was given and would not be used.

    Args:
        names: of the command's parameters, as its function has them.
        why: follows the option in the error.

    Raises:
        UsageError: one of them was given.
    """
    context = click.get_current_context()
    for param in context.command.params:
        source = context.get_parameter_source(param.name or "")
        if param.name in names and source is ParameterSource.COMMANDLINE:
            name = param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name
            raise UsageError(f"{name} {why}")


def cell_names(retrievers: Collection[str], answerers: Collection[str]) -> tuple[str, ...]:
    """Return the names that --retriever or --answerer gave.

    Raises:
        UsageError: both were given: they have no metric in common.
    """
    if retrievers and answerers:
        raise UsageError("--retriever and --answerer have no metric in common; give one of them")
    return (*retrievers, *answerers)
