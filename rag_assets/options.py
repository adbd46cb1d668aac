"""What the blocks of an ``experiment.yaml`` are made of: strict, frozen, with no unknown key."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MAX_DEPTH = 2**31 - 1
"""The largest cut-off or depth: ranks are 32-bit integers."""

# Strict: a text such as '5' or the word `yes` is not taken for a number.
Depth = Annotated[int, Field(ge=1, le=MAX_DEPTH, strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Options(BaseModel):
    """Keys of one block of an ``experiment.yaml``; an unknown key is an error.

    The validator of a type is built when a block of it is first read: most types are never used.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
