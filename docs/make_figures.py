"""Draw the pictures of the README and of the pages: `python docs/make_figures.py`."""

from importlib.resources import files
from pathlib import Path

import picardfit as pf

HERE = Path(__file__).parent
STARTERS = Path(str(files("picardfit") / "examples" / "starters"))

fit = pf.fit(pf.examples.fitzhugh_nagumo.generate(seed=1))
fit.plot(HERE / "fit.png")
for starter, picture in (("lotka-volterra", "hares.png"), ("influenza", "influenza.png")):
    fit = pf.fit(pf.read_problem(STARTERS / starter))
    fit.plot(HERE / picture, band=0.95)
