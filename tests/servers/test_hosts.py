from __future__ import annotations

import pytest

from rag_assets.servers.secrets import is_loopback
from tests.llm.requests import asking, completion, model
from tests.llm.server import serving

HERE = [
    "http://127.0.0.1:8080/v1",
    "http://127.8.9.1",
    "https://LOCALHOST/v1",
    "http://[::1]:80/",
    "http://me:secret@localhost:1",
]
ELSEWHERE = [
    "https://api.openai.com/v1",
    "http://192.168.0.7",
    "http://0.0.0.0:80",
    "http://localhost.example.org",
    "http://127.0.0.1.example.org",
    "http://127.0.0.1@example.org/v1",
    "http://example.org/127.0.0.1",
    "http://2130706433/",  # 127.0.0.1 as some write it: not ours to guess
    "localhost:80",
    "http://[::1",
    "",
]


@pytest.mark.parametrize("address", HERE)
def test_this_machine(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize("address", ELSEWHERE)
def test_other_machines_and_no_addresses(address: str) -> None:
    assert not is_loopback(address)


def test_no_proxy_sees_what_is_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server, serving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.root)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        assert completion(model(server).answer(asking("a"))).text == "answer to: a"
        assert (len(server.received), len(proxy.received)) == (1, 0)
