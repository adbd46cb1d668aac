from __future__ import annotations

import asyncio
import warnings

import pytest

from rag_assets.assets.evaluate import as_in_a_script


async def answer() -> int:
    return 42


def test_a_loop_may_start_inside_a_running_one() -> None:
    async def cell() -> tuple[int, bool]:
        running = asyncio.get_running_loop()
        with as_in_a_script():
            found = asyncio.run(answer())
        return found, asyncio.get_running_loop() is running

    assert asyncio.run(cell()) == (42, True)


def test_the_running_loop_comes_back_after_a_failure() -> None:
    async def cell() -> bool:
        running = asyncio.get_running_loop()
        with pytest.raises(KeyboardInterrupt), as_in_a_script():
            raise KeyboardInterrupt
        return asyncio.get_running_loop() is running

    assert asyncio.run(cell())


def test_other_warnings_are_shown() -> None:
    with as_in_a_script():
        assert asyncio.run(answer()) == 42
        with pytest.warns(UserWarning, match="mind this"):
            warnings.warn("mind this", stacklevel=1)
