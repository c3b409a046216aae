"""Other tools on the same problem: the same data, the same bounds, the same start, one judge.

`compare.run(problem)` runs every tool in a process of its own and gives a Comparison: loss by
independent integration, parameters, time and success side by side. `study` is the comparison of the paper's
Fig. 3. The tools come with `pip install 'picardfit[compare]'`; one that is missing is a row that says so.
"""

from compare.registry import TOOLS, Tool
from compare.runner import run
from compare.study import Study, study
from compare.table import Comparison, Row

__all__ = ["TOOLS", "Comparison", "Row", "Study", "Tool", "run", "study"]
