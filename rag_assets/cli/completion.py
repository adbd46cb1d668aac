"""What a shell completes: experiments, names of retrievers, evaluations. Reads, never computes.

A shell waits for it, so files are read as they are and nothing is validated; what cannot be read
completes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

_EXPERIMENT_FILE = "experiment.yaml"
_EVALUATION_NAMES = ("latest", "previous", "anchor")


class ExperimentPath(click.Path):
    """A path; experiments below the working directory and below ``data/`` are completed first."""

    def __init__(self) -> None:
        """Take any path, as a ``Path``."""
        super().__init__(path_type=Path)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete folders with an experiment.yaml; where none fits, any file or folder."""
        files = [*Path().glob(f"*/{_EXPERIMENT_FILE}"), *Path().glob(f"data/*/{_EXPERIMENT_FILE}")]
        items = _items(sorted(str(file.parent) for file in files), incomplete)
        return items or super().shell_complete(ctx, param, incomplete)


def complete_retrievers(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the retrievers that experiment.yaml names, and those of the last evaluation."""
    path, names = _path_of(ctx), list[str]()
    if path is not None:
        for read in (
            _written_retrievers,
            lambda path: _evaluated(_store_of(ctx, path), "retriever"),
        ):
            with suppress(Exception):
                names += read(path)
    return _items(dict.fromkeys(names), incomplete)


def complete_answerers(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the answerers of the last evaluation at their cut-offs, as ``plain@5``."""
    path, names = _path_of(ctx), list[str]()
    if path is not None:
        with suppress(Exception):
            names = _evaluated(_store_of(ctx, path), "answerer")
    return _items(dict.fromkeys(names), incomplete)


def complete_compared(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete retrievers, and answerers at their cut-offs."""
    return [
        item
        for complete in (complete_retrievers, complete_answerers)
        for item in complete(ctx, param, incomplete)
    ]


def complete_evaluations(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete ``latest``, ``previous``, ``anchor``, and the ids of evaluations, newest first."""
    path, ids = _path_of(ctx), list[str]()
    if path is not None:
        with suppress(Exception):
            files = (_store_of(ctx, path) / "evaluations").glob("*.json")
            ids = sorted((file.stem for file in files), reverse=True)
    return _items([*_EVALUATION_NAMES, *ids], incomplete)


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _path_of(ctx: click.Context) -> Path | None:
    """Return PATH; click leaves it among the rest where the option to complete has no value yet."""
    rest = [Path(word) for word in ctx.args]
    return ctx.params.get("path") or next(iter(rest), None)


def _yaml(path: Path) -> dict[str, Any]:
    from rag_assets.experiment.yaml_file import read_yaml

    return read_yaml(path / _EXPERIMENT_FILE if path.is_dir() else path).data


def _store_of(ctx: click.Context, path: Path) -> Path:
    from rag_assets.store.settings import StoreSettings

    settings = StoreSettings.resolve(ctx.params.get("store"))
    file = path.absolute()
    is_own = not path.is_dir() and file.name != _EXPERIMENT_FILE
    name = file.stem if is_own else (file if path.is_dir() else file.parent).name
    with suppress(Exception):
        listed = json.loads(settings.registry.read_text("utf-8")).items()
        sources = (str(file), str(file / _EXPERIMENT_FILE))
        name = next((known for known, source in listed if source in sources), name)
    with suppress(Exception):
        name = _yaml(path).get("name", name)
    return settings.store / name


def _evaluated(root: Path, dimension: str) -> list[str]:
    evaluation = (root / "current").read_text(encoding="utf-8").strip()
    snapshot = json.loads((root / "evaluations" / f"{evaluation}.json").read_text("utf-8"))
    partitions = (entry["partition"] for entry in snapshot["entries"])
    return [one[dimension] for one in partitions if dimension in one]


def _written_retrievers(path: Path) -> list[str]:
    return list(_yaml(path)["retrievers"])
