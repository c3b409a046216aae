"""The studio: a local page on which a person goes from a table and equations to a report (cli/studio.py starts it)."""
