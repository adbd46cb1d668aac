"""Which functions of the library run while a stage computes, seen by Python's trace hook."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import rag_assets
from rag_assets.engine.stage import Stage
from rag_assets.pipeline.stages import STAGES

PACKAGE = str(Path(rag_assets.__file__).parent)

ENGINE = (
    "pipeline/pipeline.py",
    "engine/rankings.py",
    "engine/latency_sample.py",
    "engine/measurements.py",
    "engine/recipe.py",
    "pipeline/plan.py",
    "code_versions/closure.py",
    "code_versions/versions.py",
    "progress.py",
    "errors.py",
    "input_files.py",
    "store/atomic.py",
    "store/content_cache.py",
)
"""What a stage asks through its context, what is measured, shown and kept: none is a result."""

Stack = list[tuple[FrameType, str | None]]
TraceFunction = Callable[[FrameType, str, Any], Any]
Place = tuple[str, int]
"""File below the package, and the first line of a function in it."""


class Tracer:
    """Collects the functions that run in each stage's ``compute``, ``compute_one`` and ``rank``.

    Of most functions only the call is seen; the ends of those that begin or leave a stage, too.
    """

    def __init__(self) -> None:
        self.executed: defaultdict[str, set[Place]] = defaultdict(set)
        self._roots: dict[CodeType, str] = {}
        for name, stage in STAGES.items():
            for method in ("compute", "compute_one", "rank"):
                for kind in type(stage).__mro__:
                    found = kind.__dict__.get(method)
                    if found is not None and kind is not Stage:  # its loop is the engine's
                        self._roots[found.__code__] = name
        self._places: dict[tuple[str, CodeType], Place | None] = {}
        self._local = threading.local()
        self._at_work: str | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        before = sys.gettrace()
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(None)

    def _called(self, frame: FrameType, event: str, _: object) -> TraceFunction | None:
        code = frame.f_code
        named = code.co_filename, code  # equal functions of two files are equal code
        if named not in self._places:
            self._places[named] = _place(code)
        place = self._places[named]
        if place is None:
            return None
        stack: Stack = self._local.__dict__.setdefault("stack", [])
        here = stack[-1][1] if stack else self._at_work
        if code in self._roots:
            here = str(getattr(frame.f_locals.get("self"), "name", self._roots[code]))
        if here is not None and place[0] not in ENGINE:
            self.executed[here].add(place)
        if code not in self._roots and place[0] not in ENGINE:
            return None
        stack.append((frame, here if code in self._roots else None))
        self._tell(stack)
        frame.f_trace_lines = False
        return self._left

    def _left(self, frame: FrameType, event: str, _: object) -> TraceFunction:
        if event == "return":  # or a generator's yield; the next call enters again
            stack: Stack = self._local.__dict__.setdefault("stack", [])
            # a generator that is closed ends without a call before
            while any(one is frame for one, _ in stack):
                stack.pop()
            self._tell(stack)
        return self._left

    def _tell(self, stack: Stack) -> None:
        """What threads of a pool do, they do for what is at work in the main thread."""
        if threading.current_thread() is threading.main_thread():
            self._at_work = stack[-1][1] if stack else None


def _place(code: CodeType) -> Place | None:
    """Return where a function of the library begins; None for all else."""
    if not code.co_filename.startswith(PACKAGE) or code.co_name == "<module>":
        return None
    return code.co_filename.removeprefix(f"{PACKAGE}/"), code.co_firstlineno
