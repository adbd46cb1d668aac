"""The group of all commands, and how failures leave the program."""

from __future__ import annotations

from typing import Any, ClassVar

import click

from rag_assets import __version__
from rag_assets.errors import RagAssetsError

INTERRUPTED = 3


class _Group(click.Group):
    """Loads a command's module when it is used: ``score`` needs neither Dagster nor a model."""

    _modules: ClassVar[dict[str, str]] = {
        "init": "init",
        "evaluate": "evaluate",
        "plan": "plan",
        "validate": "validate",
        "leaderboard": "leaderboard",
        "compare": "compare",
        "history": "history",
        "diff": "diff",
        "gate": "gate",
        "anchor": "anchor",
        "attribution": "attribution",
        "report": "report",
        "score": "score",
        "pool": "pool",
        "generate": "generate",
        "convert": "convert",
        "export-run": "export_run",
        "cache": "cache",
        "clean": "clean",
        "purge": "purge",
        "warehouse": "warehouse",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of use."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return one command."""
        from importlib import import_module

        if cmd_name not in self._modules:
            return None
        module = import_module(f"rag_assets.cli.{self._modules[cmd_name]}")
        command: click.Command = module.command
        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 (click's signature)
    ) -> click.Context:
        """Parse the arguments; ``--help`` loads every command, which a broken plug-in prevents."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except RagAssetsError as error:
            click.echo(f"error: {_one_line(str(error))}", err=True)
            raise click.exceptions.Exit(error.exit_code) from error

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 (click's signature)
        """Run a command; an expected failure is one line on stderr and an exit code."""
        try:
            return super().invoke(ctx)
        except RagAssetsError as error:
            click.echo(f"error: {_one_line(str(error))}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("interrupted; what was finished is kept, run it again to go on", err=True)
            ctx.exit(INTERRUPTED)


def _one_line(text: str) -> str:
    """Escape what a name from a file may hold and a terminal would obey, such as a line break."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rag-assets")
def main() -> None:
    """Which retrieval configuration is best on your questions, and what produced each number.

    Exit codes: 0 success, 1 a finding such as invalid data, 2 wrong usage or configuration,
    3 interrupted or incomplete.
    """
