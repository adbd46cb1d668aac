"""What a retriever returns beyond the units that it ranks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rag_assets.options import Options


class WindowExpansion(Options):
    """Return with each unit the ``chunks`` units before and after it in its document."""

    type: Literal["window"]
    chunks: Annotated[int, Field(ge=1, le=1000, strict=True)] = 1
