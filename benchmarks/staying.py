"""Evaluates again and again in one process, as a notebook does; a contender of ``grid.py``.

    python benchmarks/staying.py rag_assets FOLDER STORE
    python benchmarks/staying.py script FOLDER MODEL

Each line that it reads is JSON with the ``k`` of the fusion: it evaluates once and prints what that
cost, as a line of JSON with wall and CPU seconds and the peak of its memory so far in bytes.
Nothing but the packages' imports, and the model once it is loaded, is left from one line to the
next, besides what a contender keeps on disk.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path


def ours(folder: Path, store: str) -> Callable[[int], object]:
    """Return what evaluates by this package; the ``k`` is in the experiment's file."""
    import rag_assets

    return lambda _: rag_assets.evaluate(folder, store=store)


def script(folder: Path, model: str) -> Callable[[int], object]:
    """Return what computes everything again."""
    from hand_written import evaluated

    return lambda k: evaluated(folder, model, k)


def main() -> None:
    """Evaluate once a line."""
    who, folder, other = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    evaluate = (ours if who == "rag_assets" else script)(folder, other)
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        evaluate(json.loads(line)["k"])
        cost = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        sys.stdout.write(json.dumps({**cost, "peak": peak, "printed": ""}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
