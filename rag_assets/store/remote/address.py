"""Where a remote store lies: ``s3://bucket/prefix``, and the server that serves it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from rag_assets.errors import UsageError
from rag_assets.store.canonical import fingerprint

ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""The first that is set names the server; without one it is AWS. So do the tools of AWS."""

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):/+", re.I)


@dataclass(frozen=True)
class Address:
    """A remote store: an existing bucket, the prefix of all names, and the server (None: AWS)."""

    bucket: str
    prefix: str
    endpoint: str | None = None

    @classmethod
    def of(cls, text: str) -> Address | None:
        """Return the address that a text is, with the endpoint in force; None: a local path.

        A path that was made of an address, and so lost a slash, counts as the address.

        Raises:
            UsageError: another scheme, no bucket, or an endpoint that is no URL.
        """
        scheme = _SCHEME.match(text)
        if scheme is None:
            return None
        rest = text[scheme.end() :]
        bucket, _, prefix = rest.partition("/")
        if scheme[1].lower() != "s3" or not bucket:
            where = f"{scheme[1]}://{rest}"
            raise UsageError(f"the store '{where}' is neither a folder nor s3://BUCKET/PREFIX")
        return cls(bucket, "/".join(part for part in prefix.split("/") if part), _endpoint())

    @property
    def url(self) -> str:
        """``s3://bucket/prefix``."""
        return f"s3://{'/'.join(part for part in (self.bucket, self.prefix) if part)}"

    @property
    def folder_name(self) -> str:
        """A name for the local copy: no two stores share one."""
        plain = re.sub(r"[^A-Za-z0-9]+", "-", f"{self.bucket}-{self.prefix}").strip("-")
        return f"{plain[:60]}-{fingerprint([self.url, self.endpoint])[:8]}"


def _endpoint() -> str | None:
    for variable in ENDPOINT_VARIABLES:
        text = os.environ.get(variable, "")
        parts = urlsplit(text)
        place = parts.netloc.rpartition("@")[2]  # without user and password
        if text and (parts.scheme not in ("http", "https") or not parts.hostname):
            hidden = text.rpartition("@")[2]
            raise UsageError(f"{variable} is '{hidden}'; allowed: http(s)://HOST[:PORT]")
        if text:
            return f"{parts.scheme}://{place}"
    return None
