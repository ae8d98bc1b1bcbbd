"""Benchmarks: correctness first, then times. ``python -m fp4ops.bench`` lists them."""
