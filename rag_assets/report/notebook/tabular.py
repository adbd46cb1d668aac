"""The base of results that are tables: Arrow, pandas, polars, HTML and a figure of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    import polars as pl


class Tabular(ABC):
    """A result that is a table of rows, each with the same columns."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return all rows; a column without a value in a row is null."""

    @abstractmethod
    def plot(self) -> go.Figure:
        """Return an interactive figure, in the colours of the report."""

    @abstractmethod
    def _repr_html_(self) -> str:
        """Return what a notebook shows; all text from data is escaped."""

    def to_pandas(self) -> pd.DataFrame:
        """Return :meth:`to_arrow` as a pandas data frame.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas  # noqa: F401 (pyarrow says less clearly that it is missing)
        except ImportError as error:
            raise _missing("pandas") from error
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return :meth:`to_arrow` as a polars data frame.

        Raises:
            UsageError: polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise _missing("polars") from error
        return polars.DataFrame(self.to_arrow())


def _missing(package: str) -> UsageError:
    return UsageError(
        f"to_{package}() needs the package {package}: pip install 'rag-assets[notebook]'"
    )
