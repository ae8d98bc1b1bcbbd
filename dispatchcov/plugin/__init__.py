"""What the pytest plugin does, without pytest's hooks."""
