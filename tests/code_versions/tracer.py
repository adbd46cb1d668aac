"""Which functions of the library run while a stage computes, seen by Python's profiler hook."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import rag_assets
from rag_assets.pipeline.stages import STAGES

PACKAGE = str(Path(rag_assets.__file__).parent)

ENGINE = (
    "pipeline/pipeline.py",
    "pipeline/rankings.py",
    "pipeline/latency_sample.py",
    "pipeline/stages/embedding_times.py",
    "pipeline/measurements.py",
    "pipeline/attempts.py",
    "pipeline/plan.py",
    "progress.py",
    "errors.py",
)
"""What a stage asks through its context, what is measured, and what is shown: none is a result."""

Place = tuple[str, int]
"""File below the package, and the first line of a function in it."""


class Tracer:
    """Collects the functions that run in each stage's ``compute`` and ``rank``."""

    def __init__(self) -> None:
        self.executed: defaultdict[str, set[Place]] = defaultdict(set)
        self._roots: dict[CodeType, str] = {}
        for name, stage in STAGES.items():
            for method in ("compute", "rank"):
                for kind in type(stage).__mro__:
                    found = kind.__dict__.get(method)
                    if found is not None:
                        self._roots[found.__code__] = name
        self._local = threading.local()
        self._at_work: list[str | None] = [None]

    @contextmanager
    def watching(self) -> Iterator[None]:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event not in {"call", "return"}:
            return
        stack: list[str | None] = self._local.__dict__.setdefault("stack", [])
        if event == "return":
            if stack:
                stack.pop()
            return
        code = frame.f_code
        above = stack[-1] if stack else self._at_work[0]
        here = self._stage_of(code, frame, above)
        stack.append(here)
        if threading.current_thread() is threading.main_thread():
            self._at_work[0] = here
        is_own = code.co_filename.startswith(PACKAGE) and code.co_name != "<module>"
        if here is not None and is_own:
            place = str(Path(code.co_filename).relative_to(PACKAGE)), code.co_firstlineno
            self.executed[here].add(place)

    def _stage_of(self, code: CodeType, frame: FrameType, above: str | None) -> str | None:
        if code in self._roots:
            own = frame.f_locals.get("self")
            return str(getattr(own, "name", self._roots[code]))
        is_own = code.co_filename.startswith(PACKAGE)
        if is_own and code.co_filename.removeprefix(f"{PACKAGE}/") in ENGINE:
            return None
        return above
