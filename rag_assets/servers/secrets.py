"""Credentials, how they are kept out of what a server says, and whose machine an address names.

Texts leave this machine only for a host that was chosen.
"""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Iterable
from functools import cached_property
from ipaddress import ip_address
from urllib.parse import urlsplit


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

_ESCAPES = re.compile(r"[%\\&+ ]")
_SHORT = 8
_OWN_WORD = 16
_LEAST_BASE64 = 8


class Secrets:
    """Credentials that must not be repeated, however a server encodes them.

    They are found as they are, in base64 at any offset, as hexadecimal digits, and where some or
    all characters are escaped as in a URL, in JSON, in Python or in HTML; whatever the case.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        """Keep some credentials; empty ones do not count."""
        self._secrets = sorted({text for text in secrets if text}, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """Return a text without them."""
        return self._any.sub(SHOWN, text) if self._any is not None else text

    def line(self, text: str) -> str:
        """Return one short line without them."""
        line = " ".join(self.hide(text).split())
        return line if len(line) <= MAX_CHARACTERS else f"{line[:MAX_CHARACTERS]}..."

    def hide_in_answer(self, content: bytes) -> bytes:
        """Return an answer without those that cannot be mistaken for a word of it.

        A key such as ``unused`` is nothing to hide, and its replacement would change results.
        """
        text = content.decode("utf-8", "surrogateescape")
        lower = text.lower()
        pattern = self._telling
        if pattern is None:
            return content
        if not _ESCAPES.search(text) and not any(form in lower for form in self._literals):
            return content  # a search for the pattern takes long in megabytes of numbers
        return pattern.sub(SHOWN, text).encode("utf-8", "surrogateescape")

    @cached_property
    def _any(self) -> re.Pattern[str] | None:
        return _pattern(self._secrets)

    @cached_property
    def _telling(self) -> re.Pattern[str] | None:
        return _pattern(self._long)

    @cached_property
    def _long(self) -> list[str]:
        return [text for text in self._secrets if _is_telling(text)]

    @cached_property
    def _literals(self) -> list[str]:
        """The forms without an escape, in small letters."""
        forms = {form for text in self._long for form in (text, *_encoded(text))}
        url_safe = {form.replace("+", "-").replace("/", "_") for form in forms}
        return [form.lower() for form in forms | url_safe]


def _is_telling(secret: str) -> bool:
    digit = any(character.isdigit() for character in secret)
    return len(secret) >= _OWN_WORD or (len(secret) >= _SHORT and digit)


def _pattern(secrets: Iterable[str]) -> re.Pattern[str] | None:
    patterns = [pattern for secret in secrets for pattern in _patterns(secret)]
    return re.compile("|".join(patterns), re.IGNORECASE) if patterns else None


def _patterns(secret: str) -> Iterable[str]:
    written = "".join(map(_character, secret))
    # A short one is hidden where it is a word of its own: it may be a part of many.
    yield written if len(secret) >= _SHORT else rf"(?<![A-Za-z0-9]){written}(?![A-Za-z0-9])"
    for form in _encoded(secret):
        yield "".join("[+-]" if c == "+" else "[/_]" if c == "/" else c for c in form)
        if "+" in form or "/" in form:
            yield "".join(map(_character, form))


def _encoded(secret: str) -> list[str]:
    """Return what base64 and hexadecimal digits make of it, wherever it stands in a text."""
    content = secret.encode("utf-8", "surrogateescape")
    forms = []
    for offset in range(3):
        whole = base64.b64encode(bytes(offset) + content).decode()
        # The characters that hold no bit of what stands before or behind.
        first, last = -(-8 * offset // 6), 8 * (offset + len(content)) // 6
        forms.append(whole[first:last])
    return [form for form in (*forms, content.hex()) if len(form) >= _LEAST_BASE64]


def _character(character: str) -> str:
    """Return a pattern for a character in any of its notations."""
    code = ord(character)
    content = character.encode("utf-8", "surrogateescape")
    units = character.encode("utf-16-be", "surrogatepass")
    forms = [
        re.escape(character),
        "".join(f"%(?:25)*{byte:02x}" for byte in content),
        "".join(rf"\\+u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)),
        "".join(rf"\\+x{byte:02x}" for byte in content),
        rf"&(?:amp;)*#0*{code};",
        rf"&(?:amp;)*#x0*{code:x};",
    ]
    entity = html.escape(character)
    if entity != character:
        forms.append(re.escape(entity))
    if character == " ":
        forms.append(r"\+")
    if character in "\"'\\/":
        forms.append(rf"\\+{re.escape(character)}")
    return f"(?:{'|'.join(forms)})"
