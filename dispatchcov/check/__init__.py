"""Faults of a table, found before any test runs: ``dispatchcov check``."""
