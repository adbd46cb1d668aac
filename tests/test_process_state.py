"""What tests leave behind is told: see the fixtures in conftest.py that ask for it."""

from __future__ import annotations

import signal
from importlib import import_module
from pathlib import Path

import pytest

from rag_assets.cli import progress_bars
from rag_assets.signal_handlers import Interrupted, interrupt_handlers, is_interrupt
from tests.installed import python
from tests.process_state import CACHES, PACKAGE, ModuleState, ProcessState


def test_what_a_process_is_left_with_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ProcessState.now()
    assert before.changes() == []
    with monkeypatch.context() as patch:
        patch.setenv("RAG_ASSETS_STATE_DIR", "left")
        patch.delenv("PATH")
        patch.chdir(tmp_path)
        patch.syspath_prepend(str(tmp_path))
        told = "\n".join(before.changes())
    for what in ("'PATH'", "STATE_DIR'] was None, is 'left'", str(tmp_path), "sys.path"):
        assert what in told
    assert before.changes() == []


def test_what_a_module_is_left_with_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ModuleState.now()
    with monkeypatch.context() as patch:
        patch.setattr(progress_bars, "LINE_INTERVAL_S", 3.0)
        patch.setattr(progress_bars, "_open_boards", ["embed"])
        told = before.changes()
        assert {line.split(" was ")[0] for line in told if " was " in line} == {
            "rag_assets.cli.progress_bars.LINE_INTERVAL_S",
            "rag_assets.cli.progress_bars._open_boards",
        }
        assert any(line.startswith("cli.progress_bars._open_boards held []") for line in told)
    assert before.changes() == []


@pytest.mark.parametrize("cache", sorted(CACHES))
def test_a_cache_that_may_grow_is_there(cache: str) -> None:
    module, _, name = cache.rpartition(".")
    assert hasattr(import_module(f"{PACKAGE}.{module}"), name)


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
def test_one_that_was_caught_leaves_the_exit_code_alone(
    tmp_path: Path, number: signal.Signals
) -> None:
    """A plain KeyboardInterrupt out of `exec` ends the process by SIGINT at its very end."""
    done = python(tmp_path, "-c", CAUGHT.format(number=int(number)))
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
