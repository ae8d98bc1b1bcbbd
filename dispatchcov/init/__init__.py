"""From code that dispatches to a first table: ``dispatchcov init``."""
