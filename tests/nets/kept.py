"""What a net keeps of an earlier state: JSON with a line for each entry; and what differs now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

FOLDER = Path(__file__).parent
SHOWN = 60
"""Differences that are printed; the others are counted."""


def text_of(value: Any, levels: int, indent: int = 0) -> str:
    """Write JSON: entries of the outer levels have lines of their own, what is inside has none."""
    if not levels or not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    inner = " " * (indent + 1)
    lines = [
        f"{inner}{json.dumps(name, ensure_ascii=False)}: {text_of(one, levels - 1, indent + 1)}"
        for name, one in sorted(value.items())
    ]
    return "{\n" + ",\n".join(lines) + f"\n{' ' * indent}}}" if lines else "{}"


def entries(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each value that is no object, and the value as JSON."""
    if isinstance(value, dict) and value:
        for name, one in value.items():
            yield from entries(one, f"{path} > {name}" if path else name)
    else:
        yield path, json.dumps(value, ensure_ascii=False, sort_keys=True)


def differences(kept: Any, now: Any) -> list[str]:
    """Return a line for each value that was added, removed or changed."""
    old, new = dict(entries(kept)), dict(entries(now))
    lines = []
    for path in sorted(old.keys() | new.keys()):
        if path not in new:
            lines.append(f"- {path}: {old[path]}")
        elif path not in old:
            lines.append(f"+ {path}: {new[path]}")
        elif old[path] != new[path]:
            lines.append(f"! {path}: {old[path]} -> {new[path]}")
    more = [f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return lines[:SHOWN] + more


def read(file: Path) -> Any:
    """Return what is kept; nothing where there is no file."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def renew(file: Path, now: Any, levels: int) -> None:
    """Print what differs, and keep what is now."""
    lines = differences(read(file), now)
    click.echo("\n".join(lines) or "nothing changed")
    file.write_text(f"{text_of(now, levels)}\n", encoding="utf-8")


def check(lines: Sequence[str], command: str) -> None:
    """Fail with all that differs, and with the command that keeps it."""
    if lines:
        raise AssertionError("\n".join([*lines, f"If that is meant: {command}"]))


def machine() -> str:
    """Return what decides the last bit of a sum: the kernel of numpy's linear algebra."""
    import numpy  # noqa: F401 (loads its library)
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    kernels = {
        one.get("architecture") for one in threadpool_info() if "numpy" in str(one.get("filepath"))
    }
    return " ".join(sorted(map(str, kernels)))
