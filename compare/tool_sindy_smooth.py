"""SINDy at its best: smoothed differences, which its authors advise for noisy data, and the known structure.

Each equation may only use the functions that occur in it, as all other tools know them too.
"""

from __future__ import annotations

import numpy as np
import pysindy

from compare.task import Answer, Task, Unable
from compare.tool_sindy import regress, states_of

WINDOW = 11  # samples of the Savitzky-Golay filter, pysindy's own choice


def solve(task: Task) -> Answer:
    for e, one in enumerate(task.problem.experiments):
        _, times = states_of(task.problem, e)
        steps = np.diff(times)
        if len(times) < WINDOW or np.ptp(steps) > 1e-6 * steps.mean():
            raise Unable(
                f"smoothing needs at least {WINDOW} evenly spaced samples, which `{one.name}` has not"
            )
    differences = pysindy.SmoothedFiniteDifference(smoother_kws={"window_length": WINDOW, "polyorder": 3})
    return regress(task, differences, "smoothed differences, own terms of each equation", own_terms=True)
