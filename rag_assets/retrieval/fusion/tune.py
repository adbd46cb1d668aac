"""``tune``: that the weights of a fusion are chosen on the dev split, and how."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rag_assets.options import Options


class Tune(Options):
    """How weights are chosen.

    ``metric`` is what they are best at, with a cut-off; the experiment's primary one by default.
    ``grid`` is how many values each weight takes from 0 to 1: 11 is steps of 0.1.
    """

    metric: str | None = Field(default=None, min_length=1)
    grid: Annotated[int, Field(ge=2, le=101, strict=True)] = 11
