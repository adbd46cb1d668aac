from __future__ import annotations

import pytest

from tests.servers.hostile import KEY, VARIABLE


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
