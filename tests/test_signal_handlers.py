"""SIGTERM and SIGINT in a process of our own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rag_assets.signal_handlers import Interrupted, interrupt_handlers, is_interrupt

CAUGHT = """
import signal
from rag_assets.signal_handlers import Interrupted, interrupt_handlers
with interrupt_handlers():
    try:
        exec("signal.raise_signal({number})")
    except Interrupted:
        raise SystemExit(3)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_was_caught_leaves_the_exit_code_alone(number: signal.Signals) -> None:
    """A plain KeyboardInterrupt out of `exec` ends the process by SIGINT at its very end."""
    done = subprocess.run(
        [sys.executable, "-c", CAUGHT.format(number=int(number))],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, "")


def test_handlers_are_put_back_and_others_kept() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with interrupt_handlers(), pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with interrupt_handlers():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_duckdb_makes_of_one_is_one() -> None:
    assert is_interrupt(RuntimeError("Query interrupted"))
    assert is_interrupt(Interrupted())
    assert not is_interrupt(RuntimeError("something else"))
