"""From records and tables to what was covered: the items of a table with their states."""
