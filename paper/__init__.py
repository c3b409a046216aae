"""The five numerical experiments of the paper (its section 7), run again.

`picardfit paper all` runs them. Each module of an experiment has `tasks(plan)`, the fits it needs, and
`present(results, plan)`, its tables and figures. `python -m paper.document` makes docs/paper.md from them.
"""
