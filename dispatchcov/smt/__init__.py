"""The questions of :mod:`dispatchcov.regions` answered by z3, for predicates over several variables."""
