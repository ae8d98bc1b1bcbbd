"""Drift: which tests reach other regions or kernels than they did, and the baseline that remembers it."""
