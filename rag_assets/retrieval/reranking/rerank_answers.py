"""How a request to a reranking server ends: scores, a reason why there are none, or another try."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rag_assets.errors import ModelUnavailable
from rag_assets.llm.endpoint import Endpoint
from rag_assets.retrieval.reranking.candidates import Scores
from rag_assets.servers.failures import ServerFailure
from rag_assets.servers.retries import wait_before


class Failed(NamedTuple):
    """Why a request has no scores; ``transient``: the server did not serve, despite retries."""

    reason: str
    transient: bool = False


def with_retries(
    ask: Callable[[], Scores | Failed],
    endpoint: Endpoint,
    path: str,
    sleep: Callable[[float], None],
) -> Scores | Failed:
    """Return how the last attempt ended; another one follows where the server did not serve.

    Args:
        ask: makes an attempt; raises ServerFailure where it got no answer.
        endpoint: who is asked.
        path: of the request, behind the endpoint's address.
        sleep: waits between attempts.

    Raises:
        ModelUnavailable: no request can succeed: the address, the key or the model is wrong.
    """
    for number in range(endpoint.retries + 1):
        try:
            return ask()
        except ServerFailure as failure:
            last = failure
        if last.final is not None:
            raise ModelUnavailable(
                f"{endpoint.place}{path}, model '{endpoint.model}': {last.final} ({last}); "
                "check base_url, model and api_key_env"
            )
        if not last.transient or number == endpoint.retries:
            return Failed(str(last), last.transient)
        wait = wait_before(number, last.asked, endpoint.backoff, endpoint.max_backoff)
        if wait is None:
            break
        sleep(wait)
    return Failed(f"told to wait {last.asked:.0f} s, which is too long", transient=True)


def in_order(rows: Sequence[tuple[object, object]], n: int) -> Scores | Failed:
    """Return the scores of ``n`` documents in their order, from pairs of index and score.

    Raises:
        ValueError: an index is none of ``n`` documents, or a score is no finite number.
    """
    found = {_index(index, n): _score(score) for index, score in rows}
    if len(rows) != n or len(found) != n:
        return Failed(f"the answer has {len(found)} scores for {n} documents")
    return np.array([found[place] for place in range(n)], dtype=np.float64)


def _index(index: object, n: int) -> int:
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < n:
        raise ValueError(f"index {index!r} is no number of a document, from 0 to {n - 1}")
    return index


def _score(score: object) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise ValueError(f"score {score!r} is no finite number")
    return float(score)
