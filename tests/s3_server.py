"""A server on loopback that speaks S3: moto's, in a process of its own.

moto looks at the condition of a write and then writes, with others in between; here one write comes
after the other. It can also refuse conditions, as servers do that know none.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

VARIABLES = {
    "AWS_ACCESS_KEY_ID": "ferry-key-of-the-tests",
    "AWS_SECRET_ACCESS_KEY": "ferry-secret-of-the-tests",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Any credentials are right; without some, AWS's library looks for a machine's role."""

_CONDITIONS = "/conditions-of-the-tests"
_REFUSAL = b"<Error><Code>NotImplemented</Code><Message>A header you provided.</Message></Error>"


@contextmanager
def s3_server() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, __file__], stderr=subprocess.PIPE, text=True)
    try:
        yield _url(process)
    finally:
        process.terminate()
        process.wait()


def make_bucket(url: str, name: str) -> None:
    urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="PUT")).close()


def deny_access(url: str, *, deny: bool) -> None:
    body = b"0" if deny else b"inf"
    request = urllib.request.Request(
        f"{url}/moto-api/reset-auth", body, {"Content-Type": "text/plain"}, method="POST"
    )
    urllib.request.urlopen(request).close()


@contextmanager
def refusing_conditions(url: str) -> Iterator[None]:
    _set_conditions(url, "refused")
    try:
        yield
    finally:
        _set_conditions(url, "kept")


def _set_conditions(url: str, mode: str) -> None:
    request = urllib.request.Request(f"{url}{_CONDITIONS}", mode.encode(), method="POST")
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


class _Server:
    """moto's application, with one write at a time."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._mode = "kept"
        self._writing = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Any) -> Any:
        if environ["PATH_INFO"] == _CONDITIONS:
            self._mode = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])).decode()
            start("200 OK", [("Content-Length", "0")])
            return [b""]
        if environ["REQUEST_METHOD"] not in ("PUT", "POST"):
            return self._application(environ, start)
        conditions = [name for name in ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH") if name in environ]
        if conditions and self._mode == "refused":
            environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            start("501 Not Implemented", [("Content-Length", str(len(_REFUSAL)))])
            return [_REFUSAL]
        with self._writing:
            return self._application(environ, start)


def _serve() -> None:
    from moto import backends
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    services = [*backends.list_of_moto_modules()]
    backends.list_of_moto_modules = lambda: services  # it reads the folder with each request
    application = _Server(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", 0, application, threaded=True)


if __name__ == "__main__":
    _serve()
