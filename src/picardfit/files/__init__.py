"""Problem.toml, tables, fit.json."""
