"""Credentials, how they are kept out of what a server says, and whose machine an address names.

Texts leave this machine only for a host that was chosen.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import quote, urlsplit


def key_of(variable: str) -> str:
    """Return the key that an experiment names by a variable; empty where there is none."""
    return os.environ.get(variable, "").strip()


def host_of(address: str) -> str:
    """Return the host of an address, with its port where it has one, without user and password."""
    return urlsplit(address).netloc.rpartition("@")[2]


def is_loopback(address: str) -> bool:
    """Return whether an address is one of this machine: nothing that is sent there leaves it."""
    try:
        host = urlsplit(address).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False  # another name, or no address at all


SHOWN = "[key]"
"""What stands in place of a credential."""

MAX_CHARACTERS = 200
"""Longest line that is made of what others say."""

_SHORT = 8
_OWN_WORD = 16


class Secrets:
    """Credentials that must not be repeated.

    They are hidden as they are, as URLs and JSON write them and in base64, in capitals or not.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        """Keep some credentials; empty ones do not count."""
        self._secrets = sorted({text for text in secrets if text}, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """Return a text without them."""
        return _without(self._secrets, text)

    def line(self, text: str) -> str:
        """Return one short line without them."""
        line = " ".join(self.hide(text).split())
        return line if len(line) <= MAX_CHARACTERS else f"{line[:MAX_CHARACTERS]}..."

    def hide_in_answer(self, content: bytes) -> bytes:
        """Return an answer without those that cannot be mistaken for a word of it.

        A key such as ``unused`` is nothing to hide, and its replacement would change results.
        """
        telling = [text for text in self._secrets if _is_telling(text)]
        text = content.decode("utf-8", "surrogateescape")
        return _without(telling, text).encode("utf-8", "surrogateescape")


def _is_telling(secret: str) -> bool:
    digit = any(character.isdigit() for character in secret)
    return len(secret) >= _OWN_WORD or (len(secret) >= _SHORT and digit)


def _without(secrets: Iterable[str], text: str) -> str:
    lower = text.lower()
    for secret in secrets:
        for form in _forms(secret):
            if form.lower() in lower:
                # A short one is hidden where it is a word of its own: it may be a part of many.
                word = "" if len(secret) >= _SHORT else "[A-Za-z0-9]"
                edges = (f"(?<!{word})", f"(?!{word})") if word else ("", "")
                pattern = re.escape(form).join(edges)
                text = re.sub(pattern, SHOWN, text, flags=re.IGNORECASE)
    return text


def _forms(secret: str) -> list[str]:
    """Return a credential as it is, and as a URL, JSON and base64 write it; the longest first."""
    in_json = json.dumps(secret, ensure_ascii=False)[1:-1]
    in_url = {quote(secret, safe=safe, errors="replace") for safe in ("", "/")}
    forms = {secret, *in_url, in_json, in_json.replace("/", r"\/")}
    forms |= {json.dumps(form, ensure_ascii=False)[1:-1] for form in forms}  # JSON in JSON
    forms.add(base64.b64encode(secret.encode("utf-8", "surrogateescape")).decode())
    return sorted(forms, key=len, reverse=True)
