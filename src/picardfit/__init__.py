"""picardfit: parameters of nonlinear ODE models from poor data, by Gauss-Newton on the Picard operator.

The public names are imported when they are first used, so that the command line answers at once. A new one gets its
place in _HOMES, and a line in __init__.pyi for editors.
"""

import sys as _sys
from importlib import import_module as _import

from picardfit.hooks import register as _register

__version__ = "0.1.0"

_HOMES = {  # module -> the public names that live in it
    "inference.analysis": ("Analysis", "analyse"),
    "problem.calendar": ("Calendar",),
    "evidence.certificate": ("Certificate",),
    "inference.combinations": ("Combination",),
    "problem.experiment": ("Experiment", "plan"),
    "problem.rest": ("Rest",),
    "errors": ("InputError", "Status"),
    "inference.design": ("Design", "design", "design_times"),
    "inference.identifiability": ("Identifiability", "Verdict"),
    "model.derived": ("Derived",),
    "model.doses": ("Doses",),
    "model.inputs": ("Signal", "Table"),
    "collocation.mesh": ("Nodes",),
    "model.model": ("Model",),
    "model.noise_models": (
        "Binomial",
        "Laplace",
        "LogNormal",
        "NegativeBinomial",
        "Noise",
        "Poisson",
        "StudentT",
    ),
    "evidence.optima": ("Optimum",),
    "model.parameters": ("Parameter",),
    "model.priors": ("priors",),
    "problem.problem": ("Problem",),
    "files.problem_file": ("read_problem",),
    "examples": ("examples",),
    "files.nonmem": ("read_nonmem",),
    "files.tables": ("read_table",),
    "fit": ("Fit", "fit"),
    "solvers.picard_gradient.sets": ("Ball", "Box", "HalfSpace", "Product", "Simplex"),
    "search.policy": ("SearchPolicy",),
    "search.rescue.settings": ("Rescue",),
    "simulation.cvode": ("CVODE",),
    "simulation.simulate": ("Simulation", "simulate"),
    "solvers.picard_gradient.algorithms": (
        "ExtendedGradientContractMultiplier",
        "GradientContractMultiplier",
        "GradientContractive",
        "GradientDescent",
    ),
    "solvers.gauss_newton.method": ("LiftedGaussNewton",),
    "solvers.loop": ("Progress",),
    "files.fit_file": ("load",),
    "inference.structural": ("Structure", "structural"),
    "inference.bands": ("Band", "Bands"),
    "inference.bootstrap": ("Bootstrap",),
    "inference.model_comparison": ("ModelComparison", "compare_models"),
    "inference.profile": ("Profile",),
    "inference.posterior.predictive": ("prior_predictive",),
    "inference.posterior.methods": ("Emcee", "LaplaceDraws", "NUTS", "Nutpie"),
    "inference.posterior.posterior": ("Posterior",),
    "inference.population.marginals": ("FO", "FOCE", "FOCEI", "MarginalLaplace", "Quadrature"),
    "inference.population.distribution": ("Population",),
    "inference.population.answer": ("PopulationFit",),
    "model.random_effects": ("RandomEffects",),
    "inference.validation": ("Validation",),
}
_register(  # methods of a problem or a population fit that functions of higher rooms carry out
    {
        "marginal_objective": "picardfit.inference.population.at_values:marginal_objective",
        "write_petab": "picardfit.exporters.petab:write_petab",
        "plot_individuals": "picardfit.display.plots.population:plot_individuals",
        "draw": "picardfit.display.gallery:draw",
        "write_plots": "picardfit.display.plots:write_plots",
        "write_population_report": "picardfit.display.population_report:write_population_report",
        "population_line": "picardfit.display.population_text:population_line",
        "save_population": "picardfit.files.population_file:save_population",
    }
)
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"picardfit has no `{name}`; its public names are in picardfit.__all__.")
    home = _import(f"picardfit.{_HOME_OF[name]}")
    value = home if name in ("examples", "priors") else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


class _Package(type(_sys)):
    """This package as a module whose `fit` is always the function.

    Python binds a submodule to its package when it is first imported, so the module fit.py, where `Fit` lives, would
    otherwise take the place of `pf.fit`.
    """

    @property
    def fit(self) -> object:
        return _import(f"picardfit.{_HOME_OF['fit']}").fit

    @fit.setter
    def fit(self, module: object) -> None:
        pass


_sys.modules[__name__].__class__ = _Package
