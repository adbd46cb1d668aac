from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.store.remote import Address, LocalCopy, Objects


def objects(address: str) -> Objects:
    parsed = Address.of(address)
    assert parsed is not None
    return Objects(parsed)


def copy_at(folder: Path, address: str) -> LocalCopy:
    return LocalCopy(folder, objects(address))


@pytest.fixture
def here(tmp_path: Path, s3_store: str) -> LocalCopy:
    return copy_at(tmp_path / "here", s3_store)


@pytest.fixture
def other(tmp_path: Path, s3_store: str) -> LocalCopy:
    return copy_at(tmp_path / "other", s3_store)
