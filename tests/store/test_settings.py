from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.store.settings import StoreSettings

VARIABLES = ("RAG_ASSETS_STORE", "RAG_ASSETS_STATE_DIR", "DAGSTER_HOME")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_default_lies_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = StoreSettings.resolve()
    assert settings.store == settings.state_dir == tmp_path / "data" / "store"


def test_environment_gives_both_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_ASSETS_STORE", "far/store")
    assert StoreSettings.resolve() == StoreSettings(tmp_path / "far/store", tmp_path / "far/store")
    monkeypatch.setenv("RAG_ASSETS_STATE_DIR", str(tmp_path / "near"))
    assert StoreSettings.resolve() == StoreSettings(tmp_path / "far/store", tmp_path / "near")


def test_argument_wins_and_holds_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES[:2]:
        monkeypatch.setenv(name, str(tmp_path / "other"))
    monkeypatch.chdir(tmp_path)
    settings = StoreSettings.resolve("mine")
    assert settings.store == settings.state_dir == tmp_path / "mine"


def test_places_below_the_state_folder(tmp_path: Path) -> None:
    settings = StoreSettings(tmp_path / "store", tmp_path / "state")
    assert settings.dagster_home == tmp_path / "state" / "dagster"
    assert not settings.has_dagster_home
    for place in (settings.warehouse, settings.locks, settings.registry):
        assert place.parent == tmp_path / "state"


def test_own_dagster_home_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    settings = StoreSettings.resolve(tmp_path / "store")
    assert settings.has_dagster_home
    assert settings.dagster_home == tmp_path / "home"
