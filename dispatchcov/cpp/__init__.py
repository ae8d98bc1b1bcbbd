"""A table as a C++ header that decides and records: ``dispatchcov cpp``."""
