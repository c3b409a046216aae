"""Other tools on the same problem: the same data, the same bounds, the same start, one judge.

`picardfit.compare.run(problem)` runs every tool in a process of its own and gives a Comparison: loss by
independent integration, parameters, time and success side by side. `study` is the comparison of the paper's
Fig. 3. The tools come with `pip install picardfit[compare]`; one that is missing is a row that says so.
"""

from picardfit.compare.registry import TOOLS, Tool
from picardfit.compare.runner import run
from picardfit.compare.study import Study, study
from picardfit.compare.table import Comparison, Row

__all__ = ["TOOLS", "Comparison", "Row", "Study", "Tool", "run", "study"]
