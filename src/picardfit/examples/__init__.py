"""The five problems of the paper, ready to use: `picardfit.examples.van_der_pol.generate(seed=1, eps=0.1)`.

Each module has MODEL (text), `model()`, TRUTH, BOUNDS, SETTINGS (of Algorithm 4 in the paper) and
`generate()`, which gives a Problem with simulated data and its `truth`: {"parameters": {...}, "initial":
{experiment: {...}}}.
"""

from picardfit.examples import fitzhugh_nagumo, lorenz, rosenzweig_macarthur, tumor, van_der_pol

ALL = {
    "van_der_pol": van_der_pol,
    "fitzhugh_nagumo": fitzhugh_nagumo,
    "rosenzweig_macarthur": rosenzweig_macarthur,
    "tumor": tumor,
    "lorenz": lorenz,
}

__all__ = ["ALL", "fitzhugh_nagumo", "lorenz", "rosenzweig_macarthur", "tumor", "van_der_pol"]
