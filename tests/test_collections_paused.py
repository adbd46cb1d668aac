from __future__ import annotations

import gc

import pytest

from rag_assets.collections_paused import collections_paused


@pytest.mark.parametrize("was_on", [True, False])
def test_collections_are_off_inside_and_as_before_after_it(was_on: bool) -> None:
    try:
        (gc.enable if was_on else gc.disable)()
        with collections_paused():
            inside = gc.isenabled()
        assert (inside, gc.isenabled()) == (False, was_on)
    finally:
        gc.enable()
