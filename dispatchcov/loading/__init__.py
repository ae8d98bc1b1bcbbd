"""From TOML to a table: every mistake an error with file, line, expected, got and known names."""
