"""The five numerical experiments of the paper (its section 7), run again.

`picardfit paper all` runs them from a checkout, `python -m paper.tumor --quick` one of them. Each module of an
experiment has `tasks(plan)`, the fits it needs, and `present(results, plan)`, its tables and figures.
"""
