"""The server of the labelling page: on this machine alone, behind a token in its address.

A request is answered where its address holds the token, and neither ``Origin`` nor
``Sec-Fetch-Site`` tells of another page. The page may load nothing but itself. No path of a file is
made from a request, and nothing that is sent tells which retriever found a passage.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any, TypeAlias, TypeVar

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rag_assets.errors import RagAssetsError, UsageError
from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.page.followed_log import AnsweredMeanwhile
from rag_assets.labels.page.passages import Hit
from rag_assets.labels.page.question_review import QuestionReview
from rag_assets.labels.page.requests import (
    AnswerBody,
    DecisionBody,
    EmptyBody,
    MarkBody,
    NextBody,
    PassBody,
    SearchBody,
    SpanBody,
    TextBody,
    UndoBody,
)
from rag_assets.labels.page.session import LabelSession
from rag_assets.labels.pooling.pool import PooledUnit
from rag_assets.labels.sampling.standing import ITEMS, PRICE, QUESTIONS, sample_status
from rag_assets.servers.local_server import HEADERS as LOCAL_HEADERS
from rag_assets.servers.local_server import LocalServer

MAX_BYTES = 100_000
MAX_HITS = 10

HEADERS = {
    **LOCAL_HEADERS,
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_FILES = {
    "": ("page.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
}

Search: TypeAlias = Callable[[str, int], Sequence[Hit]]
_B = TypeVar("_B", bound=EmptyBody)

Actions: TypeAlias = dict[str, tuple[type[Any], Callable[[Any], Any]]]
"""Name of a request -> its body, and what answers it."""


class LabelPage:
    """The answers to the page's requests.

    Args:
        session: the items and the log.
        search: text, n -> the n best hits of a free search.
        metric: by which it is told how things stand.
        user: who labels, unless the page says another name.
        clusters: one name a question; None: each is its own.
        level: of what is told.
    """

    def __init__(
        self,
        session: LabelSession,
        search: Search,
        metric: Metric,
        user: str,
        clusters: Sequence[str] | None = None,
        level: float = 0.95,
    ) -> None:
        self.session, self._search, self._metric = session, search, metric
        self._user, self._clusters, self._level = user, clusters, level

    def actions(self) -> Actions:
        """Return what the page may ask for."""
        session = self.session
        start = {"by": self._user, "metric": str(self._metric), "review": False}
        return {
            "start": (EmptyBody, lambda _: start),
            "next": (NextBody, lambda body: session.next_task(body.by)),
            "answer": (AnswerBody, session.answer),
            "undo": (UndoBody, lambda body: session.undo(body.by, body.at)),
            "mark": (MarkBody, lambda body: session.mark(body.question_mark())),
            "label": (SpanBody, session.label),
            "text": (TextBody, lambda body: session.passages.marked_text(body.item)),
            "search": (SearchBody, self._found),
            "standing": (EmptyBody, lambda _: self._standing()),
        }

    def _found(self, body: SearchBody) -> list[dict[str, Any]]:
        passages = self.session.passages
        items = [PooledUnit(body.query_id, *hit) for hit in self._search(body.text, MAX_HITS)]
        return [
            {**passages.place(item), "text": passages.window(body.text, *item[1:])}
            for item in items
            if passages.holds(item)
        ]

    def _standing(self) -> dict[str, Any]:
        sample, lines = self.session.sample()
        now = sample_status(sample, self._metric, lines, self._clusters, self._level)
        return {
            **now._asdict(),
            "metric": str(self._metric),
            "level": self._level,
            "n_labels": int((sample.judged | (sample.certain & sample.pool.counted)).sum()),
            "targets": {"items": ITEMS, "questions": QUESTIONS},
            "price": PRICE,
        }


class ReviewPage:
    """The same page for questions that a model wrote: keep, refuse, or word them better.

    Args:
        review: the questions and what was decided.
        user: who decides, unless the page says another name.
    """

    def __init__(self, review: QuestionReview, user: str) -> None:
        self.review, self._user = review, user

    def actions(self) -> Actions:
        """Return what the page may ask for."""
        review = self.review
        start = {"by": self._user, "metric": None, "review": True}
        return {
            "start": (EmptyBody, lambda _: start),
            "next": (NextBody, lambda body: review.next_task(body.by)),
            "decide": (
                DecisionBody,
                lambda body: review.decide(body.question_mark(), body.n_lines),
            ),
            "skip": (PassBody, lambda body: review.leave(body.query_id, body.by)),
            "undo": (UndoBody, lambda body: review.undo(body.by, body.at)),
            "text": (TextBody, lambda body: review.passages.marked_text(body.item)),
        }


def page_app(page: LabelPage | ReviewPage, token: str) -> ASGIApp:
    """Return the application that answers to those who know the token."""
    routes = [Route(f"/{token}/{name}", _file(*file)) for name, file in _FILES.items()]
    for name, (body, action) in page.actions().items():
        routes.append(Route(f"/{token}/{name}", _action(body, action), methods=["POST"]))
    return _Guard(Starlette(routes=routes), token)


class _Guard:
    """Lets those requests through that come from the page itself; to others, nothing is there."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._prefix = app, f"/{token}/".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = scope["type"] == "lifespan" or self._is_allowed(scope)
        answer = self._app if allowed else Response("not found\n", 404, HEADERS)
        await answer(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        path = str(scope["path"]).encode()[: len(self._prefix)]
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"")
        return (
            hmac.compare_digest(path, self._prefix)
            and headers.get(b"origin", b"http://" + host) == b"http://" + host
            and headers.get(b"sec-fetch-site", b"none") in {b"same-origin", b"none"}
        )


def _file(name: str, media_type: str) -> Callable[[Request], Response]:
    content = resources.files("rag_assets.labels.page").joinpath("files", name).read_bytes()
    return lambda _: Response(content, headers=HEADERS, media_type=media_type)


def _action(body_type: type[_B], action: Callable[[_B], Any]) -> Any:  # noqa: ANN401 (an endpoint)
    async def answer(request: Request) -> Response:
        try:
            body = body_type.model_validate_json(await _body(request))
            return JSONResponse(await run_in_threadpool(action, body), headers=HEADERS)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            return _refusal(400, f"the request is wrong: {place}: {first['msg']}")
        except RagAssetsError as error:
            is_wrong = 400 if isinstance(error, UsageError) else 500
            return _refusal(409 if isinstance(error, AnsweredMeanwhile) else is_wrong, str(error))

    return answer


async def _body(request: Request) -> bytes:
    if request.headers.get("content-type", "") != "application/json":
        raise UsageError("a request is JSON")
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MAX_BYTES:
            raise UsageError(f"a request has at most {MAX_BYTES} bytes")
    return content


def _refusal(status: int, problem: str) -> Response:
    return JSONResponse({"problem": problem}, status, HEADERS)


class LabelServer(LocalServer):
    """The page at a free port, or at one that is given; its address holds the token.

    Raises:
        UsageError: the port is taken.
    """

    def __init__(self, page: LabelPage | ReviewPage, port: int = 0) -> None:
        super().__init__(port)
        token = secrets.token_urlsafe(32)
        self.address = f"{self.address}/{token}/"
        self.serve(page_app(page, token), HEADERS)
