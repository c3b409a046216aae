"""Small problems with known answers: estimates and standard errors by SciPy, which shares no code with the fit.

The other side evaluates plain Python equations with `solve_ivp`, minimises the negative log-likelihood with
`scipy.optimize`, and takes the expected information from finite differences. A fit that says success must agree:
the same optimum, and standard errors within 5 %.
"""

from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp
from scipy.optimize import minimize
from scipy.special import polygamma

import picardfit as pf

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Case:
    """One problem: a model in some unit, how it was sampled, and its noise."""

    model: str = "decay"
    noise: str = "additive"
    unit: float = 1.0
    pattern: str = "plain"
    seed: int = 0
    prior: bool = False
    options: dict = field(default_factory=dict)

    def __str__(self):
        return f"{self.model}-{self.noise}-{self.unit:g}-{self.pattern}-{self.seed}{'-prior' * self.prior}"


# name -> (equations, rate laws in Python, true parameters, true initial state, power of the unit in each parameter)
MODELS = {
    "decay": ("x' = -k*x", lambda t, x, p: [-p[0] * x[0]], {"k": 0.6}, [2.0], (0,)),
    "growth": (
        "x' = r*x*(1 - x/K)",
        lambda t, x, p: [p[0] * x[0] * (1 - x[0] / p[1])],
        {"r": 0.9, "K": 3.0},
        [0.3],
        (0, 1),
    ),
    "source": ("x' = s - k*x", lambda t, x, p: [p[0] - p[1] * x[0]], {"s": 1.5, "k": 0.7}, [0.5], (1, 0)),
    "chain": (
        "x' = -k*x\ny' = k*x - d*y",
        lambda t, x, p: [-p[0] * x[0], p[0] * x[0] - p[1] * x[1]],
        {"k": 0.8, "d": 0.3},
        [2.0, 0.6],
        (0, 0),
    ),
    "step": (
        "x' = u - k*x",
        lambda t, x, p: [(0.0 if t < 2 else 1.5 if t < 4 else 0.5) - p[0] * x[0]],
        {"k": 0.7},
        [1.5],
        (0,),
    ),
}
NOISES = (
    "none",
    "additive",
    "proportional",
    "both",
    "lognormal",
    "student",
    "laplace",
    "level",
    "shared",
    "degrees",
)
JUMPS = (2.0, 4.0)


def sampling(case):
    times = np.linspace(0.3, 6.3, 24 if case.noise not in LEVELS else 160)  # levels need more data
    t0 = 0.0
    if case.pattern == "late":
        t0, times = 100.0, times + 100.0
    if case.pattern == "replicates":
        times = np.repeat(times[::3], 3)
    return t0, times


def curves(case, values, t0, times):
    """(times, states) in the unit of the case."""
    _, law, truth, initial, powers = MODELS[case.model]
    count = len(truth)
    p = [v / case.unit**n for v, n in zip(values[:count], powers, strict=True)]
    x, start, found = np.asarray(values[count : count + len(initial)]) / case.unit, t0, []
    if not (np.isfinite(p).all() and np.isfinite(x).all() and np.abs(p).max() < 1e3):
        return None
    unique = np.unique(times)
    for end in [t for t in JUMPS if case.model == "step"] + [unique[-1]]:
        inside = unique[(unique > start) & (unique <= end)]
        middle = lambda t, y, a=start, b=end: law(np.clip(t, a + 1e-12, b - 1e-12), y, p)  # noqa: E731
        solved = solve_ivp(
            middle, (start, end), x, "LSODA", np.unique([*inside, end]), rtol=1e-10, atol=1e-12
        )
        if not solved.success:
            return None
        found.append(solved.y[:, : len(inside)].T)
        x, start = solved.y[:, -1], end
    rows = np.concatenate(found)
    return case.unit * rows[np.searchsorted(unique, times)]


LEVEL_BOUNDS = {
    "level": [[0.02, 200]],
    "shared": [[0.02, 200]] * 2,
    "degrees": [[0.02, 200], [0.2, 20]],
}  # over truth
LEVELS = {"level": [0.05], "shared": [0.05, 0.05], "degrees": [0.05, 5.0]}


def scale_of(case, g, levels):
    """Standard deviation, or scale, of every measurement."""
    a = 0.05 * case.unit
    match case.noise:
        case "none" | "additive" | "student" | "laplace":
            return np.full_like(g, a)
        case "proportional":
            return 0.05 * np.abs(g)
        case "both":
            return np.hypot(a, 0.05 * g)
        case "lognormal":
            return np.full_like(g, 0.05)
        case "level" | "degrees":
            return np.full_like(g, levels[0])
    return np.hypot(levels[0], levels[1] * g)


def declared(case):
    """The noise as picardfit has it."""
    a, wide = 0.05 * case.unit, (1e-3 * case.unit, 10 * case.unit)
    return {
        "none": None,
        "additive": pf.Noise(additive=a),
        "proportional": pf.Noise(proportional=0.05),
        "both": pf.Noise(additive=a, proportional=0.05),
        "lognormal": pf.LogNormal(0.05),
        "student": pf.StudentT(additive=a, degrees=4.0),
        "laplace": pf.Laplace(a),
        "level": pf.Noise(additive=wide),
        "shared": pf.Noise(additive=wide, proportional=(1e-3, 10.0)),
        "degrees": pf.StudentT(additive=wide, degrees=(1.0, 100.0)),
    }[case.noise]


def density(case, y, g, s, levels):
    """Log-density of every measurement."""
    match case.noise:
        case "lognormal":
            return stats.norm.logpdf(np.log(y / g), scale=s) - np.log(y)
        case "student":
            return stats.t.logpdf(y - g, 4.0, scale=s)
        case "degrees":
            return stats.t.logpdf(y - g, levels[1], scale=s)
        case "laplace":
            return stats.laplace.logpdf(y - g, scale=s)
    return stats.norm.logpdf(y - g, scale=s)


def draw(case, rng, g, levels):
    s = scale_of(case, g, levels)
    match case.noise:
        case "lognormal":
            return g * np.exp(s * rng.standard_normal(g.shape))
        case "student" | "degrees":
            return g + s * rng.standard_t(4.0 if case.noise == "student" else 5.0, g.shape)
        case "laplace":
            return g + rng.laplace(0, s)
    return g + s * rng.standard_normal(g.shape)


def constants(case, levels):
    """Expected information of location and of log scale, in units of 1/scale^2 and of 1."""
    if case.noise in ("student", "degrees"):
        v = 4.0 if case.noise == "student" else levels[1]
        return (v + 1) / (v + 3), 2 * v / (v + 3)
    return (1.0, 1.0) if case.noise == "laplace" else (1.0, 2.0)


def posed(case):
    """Problem, data (times, observables), truth (values with levels) and names of the unknowns."""
    text, _, parameters, initial, powers = MODELS[case.model]
    t0, times = sampling(case)
    levels = [v * (case.unit if k == 0 else 1.0) for k, v in enumerate(LEVELS.get(case.noise, []))]
    values = [v * case.unit**n for v, n in zip(parameters.values(), powers, strict=True)]
    truth = np.array([*values, *(case.unit * np.array(initial)), *levels])
    rng = np.random.default_rng(case.seed)
    g = curves(case, truth, t0, times)
    data = draw(case, rng, g, levels)
    if case.pattern == "missing":
        data[rng.random(data.shape) < 0.3] = np.nan
    model = pf.Model(text, inputs=["u"] if case.model == "step" else [])
    inputs = {"u": ([0, *JUMPS], [0.0, 1.5 * case.unit, 0.5 * case.unit])} if case.model == "step" else {}
    observed = {name: data[:, k] for k, name in enumerate(model.states)}
    experiment = pf.Experiment(times, observed, inputs=inputs, t0=t0)
    bounds = {n: pf.Parameter(v / 20, v * 20, log=True) for n, v in zip(parameters, values, strict=True)}
    if case.prior:
        first = next(iter(parameters))
        bounds[first] = pf.Parameter(
            values[0] / 20, values[0] * 20, prior=_normal(0.9 * values[0], 0.05 * values[0])
        )
    problem = pf.Problem(model, experiment, bounds, noise=declared(case))
    return problem, (t0, times, data), truth


def _normal(mean, sd):
    return pf.priors.Normal(mean, sd)


def answer(case, sampled, truth):
    """Optimum and standard errors by SciPy, in natural units."""
    t0, times, data = sampled
    there = np.isfinite(data)
    curve = len(truth) - len(LEVELS.get(case.noise, []))

    def cost(u):
        values = truth * np.exp(u)
        g = curves(case, values, t0, times)
        if g is None:
            return 1e10
        s = scale_of(case, g, values[curve:])
        with np.errstate(all="ignore"):
            terms = density(case, np.where(there, data, g), g, s, values[curve:])
        total = -np.sum(terms[there]) + (
            0.5 * ((values[0] / truth[0] - 0.9) / 0.05) ** 2 if case.prior else 0.0
        )
        return total if np.isfinite(total) else 1e10

    limits = np.log(np.array([[1 / 20, 20]] * curve + LEVEL_BOUNDS.get(case.noise, [])))
    found = np.zeros(len(truth))
    for tolerance in (1e-7, 1e-8):
        options = {"xatol": tolerance, "fatol": 1e-2 * tolerance, "maxiter": 6000, "maxfev": 6000}
        found = minimize(cost, found, method="Nelder-Mead", bounds=limits, options=options).x
    values, held = truth * np.exp(found), (found <= limits[:, 0] + 1e-5) | (found >= limits[:, 1] - 1e-5)
    matrix, errors = information(case, sampled, values, curve), np.full(len(truth), np.nan)
    errors[~held] = np.sqrt(np.diag(np.linalg.inv(matrix[np.ix_(~held, ~held)])))
    return values, errors * factor(case, sampled, values, curve)


def factor(case, sampled, values, curve):
    """Without a noise model the variance comes from the residuals."""
    if case.noise != "none":
        return 1.0
    t0, times, data = sampled
    there = np.isfinite(data)
    residuals = (data - curves(case, values, t0, times))[there] / (0.05 * case.unit)
    return np.sqrt(np.sum(residuals**2) / (there.sum() - curve))


def information(case, sampled, values, curve):
    """Expected information, by central differences of location and scale."""
    t0, times, data = sampled
    there = np.isfinite(data)

    def location_and_scale(v):
        g = curves(case, v, t0, times)
        s = scale_of(case, g, v[curve:])
        return (np.log(g) if case.noise == "lognormal" else g)[there], s[there]

    _, s = location_and_scale(values)
    columns = []
    for k, v in enumerate(values):
        step = np.zeros(len(values))
        step[k] = 1e-4 * abs(v)
        up, down = location_and_scale(values + step), location_and_scale(values - step)
        columns.append([(a - b) / (2 * step[k]) for a, b in zip(up, down, strict=True)])
    j = np.array(columns)  # (unknowns, 2, measurements)
    one, two = constants(case, values[curve:])
    found = one * (j[:, 0] / s) @ (j[:, 0] / s).T + two * (j[:, 1] / s) @ (j[:, 1] / s).T
    if case.noise == "degrees":
        n, v, level = there.sum(), values[-1], values[-2]
        own = 0.25 * (polygamma(1, v / 2) - polygamma(1, (v + 1) / 2)) - (v + 5) / (2 * v * (v + 1) * (v + 3))
        found[-1, :] = found[:, -1] = 0.0
        found[-1, -1] = n * own
        found[-1, -2] = found[-2, -1] = -2 * n / (level * (v + 1) * (v + 3))
    if case.prior:
        found[0, 0] += 1 / (0.05 * truth_of(case)) ** 2
    return found


def truth_of(case):
    _, _, parameters, _, powers = MODELS[case.model]
    return next(iter(parameters.values())) * case.unit ** powers[0]


SMALL, PATTERNS = ("decay", "chain", "source"), ("late", "replicates", "missing")
CASES = [
    *(Case(model, noise) for model, noise in product(MODELS, NOISES)),
    *(Case(m, "additive", unit) for m, unit in product(MODELS, (1e-12, 1e-6, 1e6, 1e12))),
    *(Case(m, n, pattern=p) for m, n, p in product(SMALL, ("none", "both", "student"), PATTERNS)),
    *(Case(m, n, prior=True) for m, n in product(("decay", "growth", "step"), ("additive", "lognormal"))),
    *(Case("decay", n, seed=s) for n, s in product(("student", "degrees"), (1, 2, 3))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_success_is_the_optimum_with_its_standard_errors(case):
    problem, sampled, truth = posed(case)
    fit = pf.fit(problem)
    assert fit.success, fit.message
    values, errors = answer(case, sampled, truth)
    names = [*MODELS[case.model][2], *(f"{s}(0)" for s in problem.model.states)]
    names += {"level": ["noise.additive"], "shared": ["noise.additive", "noise.proportional"]}.get(
        case.noise, []
    )
    names += ["noise.additive", "noise.degrees"] if case.noise == "degrees" else []
    found = {**fit.parameters, **{f"{s}(0)": v for s, v in fit.initial_states[problem.names[0]].items()}}
    loose = 0.2 if case.noise == "laplace" else 0.02  # the minimum of |y - g| has kinks, where searches end
    for name, value, error in zip(names, values, errors, strict=True):
        if name in fit.certificate.at_bound:
            continue
        assert found[name] == pytest.approx(value, abs=loose * error), name
        assert fit.standard_errors[name] == pytest.approx(error, rel=0.05), name


def test_there_are_a_hundred_cases():
    assert len(set(map(str, CASES))) >= 100


# ---- what no data can tell -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, lost", [("x' = -a*b*x", {"a", "b"}), ("x' = -(a - b)*x", {"a", "b"}), ("x' = -a*x/b", {"a", "b"})]
)
def test_parameters_that_cancel_have_no_finite_error(text, lost):
    times = np.linspace(0.2, 4, 20)
    data = 2 * np.exp(-0.5 * times) + 0.02 * np.cos(17 * times)
    fit = pf.fit(
        pf.Problem(pf.Model(text), pf.Experiment(times, {"x": data}), {"a": (0.1, 5), "b": (0.1, 5)})
    )
    assert set(fit.certificate.undetermined or ()) >= lost or fit.certificate.at_bound
    for name in lost - set(fit.certificate.at_bound):
        assert not np.isfinite(fit.standard_errors.get(name, np.inf)) or fit.certificate.at_bound


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_constant_outputs(unit):
    """x' = 0 k: the data say nothing of k, and the mean of x(0)."""
    data = unit * (1 + 0.01 * np.random.default_rng(0).standard_normal(12))
    model = pf.Model("x' = k*0*x + k - k")
    problem = pf.Problem(
        model, pf.Experiment(np.arange(12.0), {"x": data}), {"k": (0, 1)} if model.parameters else {}
    )
    fit = pf.fit(problem)
    assert fit.initial_states[problem.names[0]]["x"] == pytest.approx(data.mean(), rel=1e-9)
    assert fit.standard_errors["x(0)"] == pytest.approx(data.std(ddof=1) / np.sqrt(12), rel=0.05)


@pytest.mark.parametrize("high", [0.2, 0.4])
def test_a_bound_holds_and_the_rest_is_right(high):
    """With k held at its bound the initial state is a linear least-squares estimate."""
    times = np.linspace(0, 3, 16)
    data = 2 * np.exp(-times) + 0.02 * np.random.default_rng(1).standard_normal(16)
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x"), pf.Experiment(times, {"x": data}), {"k": (0.01, high)}))
    basis = np.exp(-high * times)
    start = basis @ data / (basis @ basis)
    assert fit.success
    assert fit.certificate.at_bound == ("k",)
    assert fit.initial_states[fit.problem.names[0]]["x"] == pytest.approx(start, rel=1e-6)
