"""Messages arrive as they are, or it is said in one line that they did not, without the address."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from rag_assets.assets.alerts import NotDelivered, place_of, post
from rag_assets.errors import UsageError
from tests.background import free_port
from tests.loopback_webhook import Webhook, webhook


@pytest.fixture
def server() -> Iterator[Webhook]:
    with webhook() as running:
        yield running


def test_a_message_arrives(server: Webhook) -> None:
    message = {"text": "zwölf \N{SNOWMAN}\nlines", "n": [1, None]}
    post(server.address, message)
    assert server.messages == [message]
    assert server.paths == ["/hooks/a-secret?token=b-secret"]


@pytest.mark.parametrize("status", [301, 307, 400, 404, 500, 503])
def test_what_is_refused_is_one_line_without_the_secret(server: Webhook, status: int) -> None:
    server.status = status
    server.headers = {"Location": server.address.replace("hooks", "elsewhere")}
    with pytest.raises(NotDelivered) as error:
        post(server.address, {"text": "x"})
    assert re.fullmatch(rf"http://127\.0\.0\.1:\d+: HTTP {status}: .+", str(error.value))
    assert len(server.messages) == 1


def test_nobody_there() -> None:
    address = f"http://me:password@127.0.0.1:{free_port()}/a-secret"
    with pytest.raises(NotDelivered, match=r"^http://127\.0\.0\.1:\d+: ") as error:
        post(address, {})
    assert "secret" not in str(error.value)
    assert "password" not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://host/x", "https://", "word", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="must begin with http:// or https://"):
        post(address, {})


def test_only_the_place_is_shown() -> None:
    assert place_of("https://me:you@hooks.example:8443/x?y#z") == "https://hooks.example:8443"
