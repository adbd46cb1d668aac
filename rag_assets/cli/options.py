"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import isfinite
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from rag_assets.errors import UsageError
from rag_assets.plain_text import shortened
from rag_assets.report.formats import FORMATS

MOST_DAYS = 100_000
"""Of an age: about as many as there are days before now in a calendar."""


class Number(click.FloatRange):
    """A number in a range; ``nan`` is in every range for click, and infinity in an open one."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 (click's signature)
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return number


MOST = 2**31 - 1
"""Of a number of things: what counts them has 32 bits here and there."""


class Integer(click.IntRange):
    """An integer in a range of no more than 32 bits, of which help says what matters."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 (click's signature)
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> int:
        """Return the integer."""
        number: int = super().convert(value, param, ctx)
        if abs(number) > MOST:
            self.fail(f"{shortened(str(value))} is more than {MOST}.", param, ctx)
        return number


Decorated = Callable[..., Any]

path_argument = click.argument("path", type=click.Path(path_type=Path), is_eager=True)

store_option = click.option(
    "--store",
    type=click.Path(path_type=Path),
    help="Folder for artifacts and state, or s3://BUCKET/PREFIX  [default: data/store, or "
    "RAG_ASSETS_STORE]",
)
retriever_option = click.option(
    "--retriever",
    "retrievers",
    multiple=True,
    metavar="NAME",
    help="Only this one. Can be repeated.",
)
answerer_option = click.option(
    "--answerer",
    "answerers",
    multiple=True,
    metavar="NAME@K",
    help="Only this answerer at this cut-off, such as plain@5. Can be repeated.",
)
top_k_option = click.option(
    "--top-k",
    "top_k",
    multiple=True,
    type=Integer(min=1),
    metavar="K",
    help="Only this cut-off. Can be repeated.",
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="How to print: `table` is for people, the others for programs.",
)


def refuse_given(names: Collection[str], why: str) -> None:
    """Refuse an option of this command that was given and would not be used.

    Args:
        names: of the command's parameters, as its function has them.
        why: follows the option in the error.

    Raises:
        UsageError: one of them was given.
    """
    context = click.get_current_context()
    for one in context.command.params:
        source = context.get_parameter_source(one.name or "")
        if one.name in names and source is ParameterSource.COMMANDLINE:
            shown = one.opts[-1] if isinstance(one, click.Option) else one.human_readable_name
            raise UsageError(f"{shown} {why}")


def cell_names(retrievers: Collection[str], answerers: Collection[str]) -> tuple[str, ...]:
    """Return the names that --retriever or --answerer gave.

    Raises:
        UsageError: both were given: they have no metric in common.
    """
    if retrievers and answerers:
        raise UsageError("--retriever and --answerer have no metric in common; give one of them")
    return (*retrievers, *answerers)


def selection_options(command: Decorated) -> Decorated:
    """Add ``PATH``, ``--store``, ``--retriever``, ``--top-k`` and ``--format``."""
    for option in (format_option, top_k_option, retriever_option, store_option, path_argument):
        command = option(command)
    return command
