"""Draw the pictures of the README: `python docs/make_figures.py`."""

from pathlib import Path

import picardfit as pf

HERE = Path(__file__).parent

fit = pf.fit(pf.problems.fitzhugh_nagumo.generate(seed=1))
fit.plot(HERE / "fit.png")
