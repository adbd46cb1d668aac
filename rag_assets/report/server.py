"""The reports of a store in a browser of this machine: a page of another site cannot link to files.

No path of a file is made from a request. A page is written anew when it is asked for and something
changed.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from rag_assets.errors import RagAssetsError
from rag_assets.pipeline.evaluations import all_experiments
from rag_assets.report.html import REPORT_FILE, report_path, write_report
from rag_assets.report.result import EvaluationResult
from rag_assets.servers.local_server import HEADERS, LocalServer

_HEADERS = {**HEADERS, "X-Frame-Options": "DENY"}


class ReportServer(LocalServer):
    """The reports of a store, at a port or at a free one.

    Raises:
        UsageError: the port is taken.
    """

    def __init__(self, store: Path, port: int = 0) -> None:
        super().__init__(port)
        self._store = store
        self.serve(Starlette(routes=[Route("/{path:path}", self._answer)]), _HEADERS)

    def _answer(self, request: Request) -> HTMLResponse:
        path = request.path_params["path"].strip("/")
        roots = {f"{root.name}/{REPORT_FILE}": root for root in all_experiments(self._store)}
        try:
            if path == "":
                return HTMLResponse(_list([root.name for root in roots.values()]), headers=_HEADERS)
            if path in roots:
                report = write_report(EvaluationResult.current(roots[path]))
                return HTMLResponse(report.read_bytes(), headers=_HEADERS)
            return HTMLResponse("not found", 404, _HEADERS)
        except RagAssetsError as error:
            page = escape(str(error)).encode("utf-8", errors="replace")
            return HTMLResponse(page, 500, _HEADERS)


def _list(names: list[str]) -> str:
    items = "".join(f'<li><a href="/{report_path(name)}">{escape(name)}</a>' for name in names)
    return f"<!doctype html><title>Reports</title><ul>{items}</ul>"
