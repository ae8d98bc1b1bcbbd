"""dispatchcov: which kernel did the tests really run?"""

from __future__ import annotations

from dispatchcov.load import load_table, parse_table

__all__ = ["load_table", "parse_table"]
