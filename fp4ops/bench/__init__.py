"""Benchmarks: correctness first, then times. ``python -m fp4ops.bench.gpu`` needs a GPU."""
