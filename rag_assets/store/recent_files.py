"""What was read from small files lately: an evaluation reads most of its files several times."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

Content = TypeVar("Content")


class _State(NamedTuple):
    size: int
    changed: int
    noted: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> _State:
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


class RecentFiles(Generic[Content]):
    """Contents by path, as long as the file is the one that was read; threads may share it.

    What is kept is shared: nobody may change it.
    """

    def __init__(self, size: Callable[[Content], int], largest: int, together: int) -> None:
        """Keep contents whose ``size`` is at most ``largest``, ``together`` in all."""
        self._size, self._largest, self._together = size, largest, together
        self._kept: OrderedDict[Path, tuple[_State, Content]] = OrderedDict()
        self._sum = 0
        self._lock = threading.Lock()

    def get(self, path: Path, read: Callable[[Path], Content]) -> Content:
        """Return the content of a file; ``read`` is asked for one that is not known.

        Raises:
            OSError: there is no such file.
        """
        state = _State.of(path)
        with self._lock:
            known = self._kept.get(path)
            if known is not None and known[0] == state:
                self._kept.move_to_end(path)
                return known[1]
        content = read(path)
        if self._size(content) <= self._largest:
            self._keep(path, state, content)
        return content

    def _keep(self, path: Path, state: _State, content: Content) -> None:
        with self._lock:
            self._drop(self._kept.pop(path, None))
            self._kept[path] = state, content
            self._sum += self._size(content)
            while self._sum > self._together:
                self._drop(self._kept.popitem(last=False)[1])

    def _drop(self, known: tuple[_State, Content] | None) -> None:
        if known is not None:
            self._sum -= self._size(known[1])
