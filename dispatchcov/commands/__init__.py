"""What each command of ``dispatchcov`` does: each takes the parsed options and returns the exit status."""
