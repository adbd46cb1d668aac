"""A server on loopback that speaks S3: moto's, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = {
    "AWS_ACCESS_KEY_ID": "ferry-key-of-the-tests",
    "AWS_SECRET_ACCESS_KEY": "ferry-secret-of-the-tests",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Any credentials are right; without some, AWS's library looks for a machine's role."""


@contextmanager
def s3_server() -> Iterator[str]:
    """Run a server on a free port; yield its URL."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield _url(process)
    finally:
        process.terminate()
        process.wait()


def make_bucket(url: str, name: str) -> None:
    """Create a bucket; the server wants no signature."""
    urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="PUT")).close()


def deny_access(url: str, *, deny: bool) -> None:
    """Have the server refuse every key, or none."""
    body = b"0" if deny else b"inf"
    request = urllib.request.Request(
        f"{url}/moto-api/reset-auth", body, {"Content-Type": "text/plain"}, method="POST"
    )
    urllib.request.urlopen(request).close()


def _url(process: subprocess.Popen[str]) -> str:
    lines = process.stderr
    assert lines is not None
    for line in lines:
        found = re.search(r"Running on (http://127\.0\.0\.1:\d+)", line)
        if found:
            # It writes a line a request: nobody reads them, and a full pipe would stop it.
            threading.Thread(target=lines.read, daemon=True).start()
            return found[1]
    raise RuntimeError(f"the server ended with {process.wait()}")
