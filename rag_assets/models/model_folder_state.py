"""What is read from a model's folder, kept in this process while no file in it changes.

Recipes describe a model dozens of times; looking at its files' states takes a hundredth of reading
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

Rest = ParamSpec("Rest")
Found = TypeVar("Found")

State = tuple[tuple[str, int, int, int], ...]
"""Path, size, mtime and inode of each file and folder, sorted."""


def folder_state(folder: Path) -> State:
    """Return what differs when a file below a folder was changed, added or removed.

    A link to a file stands for that file; a folder that cannot be read has no files.
    """
    return tuple(sorted(_states(str(folder))))


def kept_while_unchanged(
    read: Callable[Concatenate[Path, Rest], Found],
) -> Callable[Concatenate[Path, Rest], Found]:
    """Keep what a function reads from a folder while the folder's state is the same.

    Its other arguments are hashable, and what it returns is not changed by anyone. What it raises
    is not kept. The state is looked at first: what changes while it reads is read the next time.
    """
    kept: dict[Hashable, tuple[State, Found]] = {}

    @wraps(read)
    def remembered(folder: Path, /, *args: Rest.args, **options: Rest.kwargs) -> Found:
        state = folder_state(folder)
        key = (str(folder), args, tuple(sorted(options.items())))
        known = kept.get(key)
        if known is None or known[0] != state:
            known = kept[key] = (state, read(folder, *args, **options))
        return known[1]

    return remembered


def _states(folder: str) -> list[tuple[str, int, int, int]]:
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found.append(_state(entry))
                if entry.is_dir(follow_symlinks=False):
                    found += _states(entry.path)
    except OSError:
        return found
    return found


def _state(entry: os.DirEntry[str]) -> tuple[str, int, int, int]:
    try:
        status = entry.stat()
    except FileNotFoundError:  # a link to nothing
        status = entry.stat(follow_symlinks=False)
    return (entry.path, status.st_size, status.st_mtime_ns, status.st_ino)
