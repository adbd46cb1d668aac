"""The reports of a store in a browser of this machine: a page of another site cannot link to files.

It listens on loopback. A request is answered where its ``Host`` is this server's (other names may
be made to lead here); no path of a file is made from a request. A page is written anew when it is
asked for and something changed.
"""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from rag_assets.errors import RagAssetsError, UsageError
from rag_assets.pipeline.evaluations import all_experiments
from rag_assets.report.html import REPORT_FILE, write_report
from rag_assets.report.result import EvaluationResult

HOST = "127.0.0.1"

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Type": "text/html; charset=utf-8",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def report_path(experiment: str) -> str:
    """Return where a server has the report of an experiment: ``handbook/report.html``."""
    return f"{quote(experiment)}/{REPORT_FILE}"


class ReportServer(ThreadingHTTPServer):
    """A server at a port, or at a free one; :attr:`address` is known before it runs.

    Raises:
        UsageError: the port is taken.
    """

    daemon_threads = True

    def __init__(self, store: Path, port: int = 0) -> None:
        """Listen; nothing is answered before ``serve_forever``."""
        self.store = store
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise UsageError(f"port {port} of {HOST}: {error.strerror or error}") from error
        self.address = f"http://{HOST}:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer

    def do_GET(self) -> None:
        """Answer with the list of the reports, or one of them."""
        hosts = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        if self.headers.get("Host") not in hosts:
            self._send("not found", HTTPStatus.NOT_FOUND)
            return
        path = unquote(urlsplit(self.path).path).strip("/")
        roots = {f"{root.name}/{REPORT_FILE}": root for root in all_experiments(self.server.store)}
        try:
            if path == "":
                self._send(_list([root.name for root in roots.values()]))
            elif path in roots:
                report = write_report(EvaluationResult.current(roots[path]))
                self._send(report.read_text(encoding="utf-8"))
            else:
                self._send("not found", HTTPStatus.NOT_FOUND)
        except RagAssetsError as error:
            self._send(escape(str(error)), HTTPStatus.INTERNAL_SERVER_ERROR)

    def _send(self, page: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        body = page.encode("utf-8", errors="replace")
        self.send_response_only(status)
        for name, value in {**HEADERS, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing of single requests."""


def _list(names: list[str]) -> str:
    items = "".join(f'<li><a href="/{report_path(name)}">{escape(name)}</a>' for name in names)
    return f"<!doctype html><title>Reports</title><ul>{items}</ul>"
