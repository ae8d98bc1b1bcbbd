"""The exact engine behind :mod:`dispatchcov.regions`: sets of inputs as boxes, and questions about them."""
