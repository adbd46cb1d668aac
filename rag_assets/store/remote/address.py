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
    """A remote store.

    Attributes:
        bucket: it must exist.
        prefix: what all names begin with, without a slash at its ends; may be empty.
        endpoint: ``http://host:port`` of a server that speaks S3; None: AWS.
    """

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
        bucket, _, prefix = text[scheme.end() :].partition("/")
        if scheme[1].lower() != "s3" or not bucket:
            shown = f"{scheme[1]}://{text[scheme.end() :]}"
            raise UsageError(f"the store '{shown}' is neither a folder nor s3://BUCKET/PREFIX")
        parts = [part for part in prefix.split("/") if part]
        return cls(bucket, "/".join(parts), _endpoint())

    @property
    def url(self) -> str:
        """``s3://bucket/prefix``."""
        return f"s3://{'/'.join(part for part in (self.bucket, self.prefix) if part)}"

    @property
    def folder_name(self) -> str:
        """A name for the working copy: no two stores share one."""
        plain = re.sub(r"[^A-Za-z0-9]+", "-", f"{self.bucket}-{self.prefix}").strip("-")
        return f"{plain[:60]}-{fingerprint([self.url, self.endpoint])[:8]}"


def _endpoint() -> str | None:
    for variable in ENDPOINT_VARIABLES:
        text = os.environ.get(variable)
        if text:
            parts = urlsplit(text)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise UsageError(f"{variable} is '{_shown(text)}'; allowed: http(s)://HOST[:PORT]")
            # Without user and password: it is kept beside the working copy.
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return None


def _shown(text: str) -> str:
    return text.rpartition("@")[2]
