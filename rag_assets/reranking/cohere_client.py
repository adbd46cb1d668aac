"""One request to Cohere's rerank endpoint by Cohere's own client, the package ``cohere``.

The client would try again by itself, after waits of its own: that is switched off, so that every
server is treated alike. It checks little of what comes back, so the answer is checked here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rag_assets.errors import UsageError
from rag_assets.llm.endpoint import Endpoint
from rag_assets.reranking.candidates import Scores
from rag_assets.reranking.rerank_answers import (
    Attempt,
    Failed,
    in_order,
    key_of,
    late,
    malformed,
    message_in,
    plain,
    refused,
    unconnected,
    with_retries,
)

if TYPE_CHECKING:
    from cohere import ClientV2
    from cohere.core.api_error import ApiError

PATH = "/v2/rerank"


class CohereReranker:
    """A model of Cohere's, or of a server that speaks its protocol."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        max_tokens_per_doc: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Args:
            endpoint: the server; its address is that before ``/v2/rerank``.
            max_tokens_per_doc: after how many tokens the server cuts a document; None leaves it to
                the server.
            sleep: waits between attempts.

        Raises:
            UsageError: the package ``cohere`` is not installed, or the variable is not set, or
                holds what no header can.
        """
        self._endpoint = endpoint
        self._optional: dict[str, Any] = {}
        if max_tokens_per_doc is not None:
            self._optional["max_tokens_per_doc"] = max_tokens_per_doc
        self._sleep = sleep
        self._key = key_of(endpoint)
        self._client = _open(endpoint, self._key)
        self._answered: list[int] = []
        self._billed: dict[str, list[float]] = {"input_tokens": [], "search_units": []}

    @property
    def n_asked(self) -> int:
        """Documents that were scored so far."""
        return sum(self._answered)

    @property
    def tokens(self) -> int | None:
        """Tokens that were charged so far; None: the server does not tell."""
        told = self._billed["input_tokens"]
        return round(sum(told)) if told else None

    @property
    def searches(self) -> float | None:
        """Search units that were charged so far; None: the server does not tell."""
        told = self._billed["search_units"]
        return sum(told) if told else None

    def close(self) -> None:
        """Close the connections."""
        with self._client:
            pass

    def score(self, query: str, documents: Sequence[str]) -> Scores | Failed:
        """Return one score a document, or why there are none.

        Raises:
            ModelUnavailable: no request can succeed: the address, the key or the model is wrong.
        """
        return with_retries(lambda: self._attempt(query, documents), self._endpoint, self._sleep)

    def _attempt(self, query: str, documents: Sequence[str]) -> Attempt:
        import httpx
        from cohere.core.api_error import ApiError

        try:
            answer = self._client.rerank(
                model=self._endpoint.model,
                query=query,
                documents=list(documents),
                top_n=len(documents),
                **self._optional,
            )
            rows = [(one.index, one.relevance_score) for one in answer.results]
            found = in_order(rows, len(documents))
        except ApiError as error:
            return self._refused(error)
        except httpx.TimeoutException:
            return late(self._endpoint)
        except httpx.HTTPError as error:
            return unconnected(plain(str(error) or type(error).__name__, self._key))
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            return Attempt(malformed(plain(str(error), self._key)))
        if not isinstance(found, Failed):
            self._answered.append(len(documents))
            for unit, told in self._billed.items():
                told += _billed(answer, unit)
        return Attempt(found)

    def _refused(self, error: ApiError) -> Attempt:
        """Return how an attempt ended on which the client raised an error.

        It also raises one for an answer that is no JSON, with the text in place of the content.
        """
        status = error.status_code or 0
        if 200 <= status < 300:
            return Attempt(malformed(f"no JSON: {plain(str(error.body), self._key)}"))
        told = message_in(error.body) or str(error.body or "no reason given")
        headers = {name.lower(): text for name, text in (error.headers or {}).items()}
        return refused(self._endpoint, PATH, status, plain(told, self._key), headers)


def _open(endpoint: Endpoint, key: str | None) -> ClientV2:
    """Return a client that tries once and follows no redirect: the key is for this server."""
    try:
        import cohere
        import httpx
    except ImportError as error:
        raise UsageError(
            "type cohere needs the package cohere: pip install 'rag-assets[cohere]'"
        ) from error
    return cohere.ClientV2(
        key or "",  # with an empty key, no header is sent
        base_url=endpoint.base_url.rstrip("/"),
        timeout=endpoint.timeout,
        max_retries=0,
        httpx_client=httpx.Client(timeout=endpoint.timeout, follow_redirects=False),
        log_warning_experimental_features=False,
    )


def _billed(answer: Any, unit: str) -> list[float]:  # noqa: ANN401 (the client's, not checked)
    """Return what an answer says was charged, nothing where it does not."""
    told = getattr(getattr(getattr(answer, "meta", None), "billed_units", None), unit, None)
    if not isinstance(told, int | float) or isinstance(told, bool) or not math.isfinite(told):
        return []
    return [float(told)]
