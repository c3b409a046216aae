"""Text tables, HTML report, notebook, plots."""
