"""The files that hold records: shards that processes append to, and the data file that holds them merged."""
