"""A page of the Dagster UI, and all that went wrong in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, Response, ViewportSize
from playwright.sync_api import Error as PlaywrightError

VIEW = ViewportSize(width=1440, height=900)

_TOLD = """() => {
  const tell = (toast) => window.tellToast(toast.innerText);
  const look = () => document.querySelectorAll('[data-sonner-toast]:not([data-seen])')
    .forEach((toast) => { toast.setAttribute('data-seen', ''); tell(toast); });
  new MutationObserver(look).observe(document, {childList: true, subtree: true});
}"""
"""Tells of every message that pops up, also of one that is gone before anybody looks."""


class DagsterPage:
    """A page of the web server at ``address``.

    Attributes:
        wrong: errors of the page, messages that popped up, answers that are errors, and requests to
            any other place than the server.
    """

    def __init__(self, browser: Browser, address: str, pictures: Path | None = None) -> None:
        """Open nothing yet; ``pictures`` is where screenshots are kept."""
        self.wrong: list[str] = []
        self.page: Page = browser.new_context(viewport=VIEW, locale="en-GB").new_page()
        self._address = address
        self._pictures = pictures
        self.page.set_default_timeout(30_000)
        self.page.expose_function("tellToast", lambda text: self.wrong.append(f"toast: {text}"))
        self.page.add_init_script(f"({_TOLD})()")
        self.page.on("pageerror", lambda error: self.wrong.append(f"page error: {error}"))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("response", self._answered)

    def open(self, path: str, **query: str) -> Page:
        """Open a path of the server."""
        self.page.goto(f"{self._address}{path}{'?' if query else ''}{urlencode(query)}")
        return self.page

    def sees(self, *texts: str) -> None:
        """Wait until each text stands somewhere on the page."""
        for text in texts:
            self.page.get_by_text(text, exact=True).locator("visible=true").first.wait_for()

    def picture(self, name: str) -> None:
        """Keep a screenshot, once nothing moves any more."""
        if self._pictures is not None:
            self.page.wait_for_timeout(1_500)
            self.page.screenshot(path=self._pictures / f"{name}.png")

    def _asked(self, url: str) -> None:
        if not url.startswith((self._address, "data:", "blob:")):
            self.wrong.append(f"asked {url}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.wrong.append(f"{response.status} of {response.url}")
        elif "/graphql" in response.url and response.request.method == "POST":
            try:
                answer = json.loads(response.body())
            except (PlaywrightError, ValueError):
                return  # the page went on before it was read
            self.wrong += [f"graphql: {error}" for error in errors_in(answer)]


def errors_in(answer: Mapping[str, Any]) -> list[str]:
    """Return the errors that an answer of the server tells, wherever they stand in it."""
    found = [str(error.get("message")) for error in answer.get("errors") or []]
    open_parts: list[Any] = [answer.get("data")]
    while open_parts:
        part = open_parts.pop()
        if isinstance(part, list):
            open_parts += part
        elif isinstance(part, dict):
            if str(part.get("__typename")).endswith(("PythonError", "LoadError")):
                found.append(str(part.get("message")))
            open_parts += part.values()
    return found
