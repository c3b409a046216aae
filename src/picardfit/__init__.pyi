"""The public names, for editors and type checkers; the program reads __init__.py."""

from picardfit import examples as examples
from picardfit.collocation.mesh import Nodes as Nodes
from picardfit.errors import InputError as InputError
from picardfit.errors import Status as Status
from picardfit.evidence.certificate import Certificate as Certificate
from picardfit.evidence.optima import Optimum as Optimum
from picardfit.files.fit_file import load as load
from picardfit.files.nonmem import read_nonmem as read_nonmem
from picardfit.files.problem_file import read_problem as read_problem
from picardfit.files.tables import read_table as read_table
from picardfit.fit import Fit as Fit
from picardfit.fit import fit as fit
from picardfit.inference.analysis import Analysis as Analysis
from picardfit.inference.analysis import analyse as analyse
from picardfit.inference.bands import Band as Band
from picardfit.inference.bands import Bands as Bands
from picardfit.inference.bootstrap import Bootstrap as Bootstrap
from picardfit.inference.combinations import Combination as Combination
from picardfit.inference.design import Design as Design
from picardfit.inference.design import design as design
from picardfit.inference.design import design_times as design_times
from picardfit.inference.identifiability import Identifiability as Identifiability
from picardfit.inference.identifiability import Verdict as Verdict
from picardfit.inference.model_comparison import ModelComparison as ModelComparison
from picardfit.inference.model_comparison import compare_models as compare_models
from picardfit.inference.population.answer import PopulationFit as PopulationFit
from picardfit.inference.population.distribution import Population as Population
from picardfit.inference.population.marginals import FO as FO
from picardfit.inference.population.marginals import FOCE as FOCE
from picardfit.inference.population.marginals import FOCEI as FOCEI
from picardfit.inference.population.marginals import MarginalLaplace as MarginalLaplace
from picardfit.inference.population.marginals import Quadrature as Quadrature
from picardfit.inference.posterior.methods import NUTS as NUTS
from picardfit.inference.posterior.methods import Emcee as Emcee
from picardfit.inference.posterior.methods import LaplaceDraws as LaplaceDraws
from picardfit.inference.posterior.methods import Nutpie as Nutpie
from picardfit.inference.posterior.posterior import Posterior as Posterior
from picardfit.inference.posterior.predictive import prior_predictive as prior_predictive
from picardfit.inference.profile import Profile as Profile
from picardfit.inference.structural import Structure as Structure
from picardfit.inference.structural import structural as structural
from picardfit.inference.validation import Validation as Validation
from picardfit.model import priors as priors
from picardfit.model.derived import Derived as Derived
from picardfit.model.doses import Doses as Doses
from picardfit.model.inputs import Signal as Signal
from picardfit.model.inputs import Table as Table
from picardfit.model.model import Model as Model
from picardfit.model.noise_models import Binomial as Binomial
from picardfit.model.noise_models import Laplace as Laplace
from picardfit.model.noise_models import LogNormal as LogNormal
from picardfit.model.noise_models import NegativeBinomial as NegativeBinomial
from picardfit.model.noise_models import Noise as Noise
from picardfit.model.noise_models import Poisson as Poisson
from picardfit.model.noise_models import StudentT as StudentT
from picardfit.model.parameters import Parameter as Parameter
from picardfit.model.random_effects import RandomEffects as RandomEffects
from picardfit.problem.calendar import Calendar as Calendar
from picardfit.problem.experiment import Experiment as Experiment
from picardfit.problem.experiment import plan as plan
from picardfit.problem.problem import Problem as Problem
from picardfit.problem.rest import Rest as Rest
from picardfit.search.policy import SearchPolicy as SearchPolicy
from picardfit.search.rescue.settings import Rescue as Rescue
from picardfit.simulation.cvode import CVODE as CVODE
from picardfit.simulation.simulate import Simulation as Simulation
from picardfit.simulation.simulate import simulate as simulate
from picardfit.solvers.gauss_newton.method import LiftedGaussNewton as LiftedGaussNewton
from picardfit.solvers.loop import Progress as Progress
from picardfit.solvers.picard_gradient.algorithms import (
    ExtendedGradientContractMultiplier as ExtendedGradientContractMultiplier,
)
from picardfit.solvers.picard_gradient.algorithms import GradientContractive as GradientContractive
from picardfit.solvers.picard_gradient.algorithms import (
    GradientContractMultiplier as GradientContractMultiplier,
)
from picardfit.solvers.picard_gradient.algorithms import GradientDescent as GradientDescent
from picardfit.solvers.picard_gradient.sets import Ball as Ball
from picardfit.solvers.picard_gradient.sets import Box as Box
from picardfit.solvers.picard_gradient.sets import HalfSpace as HalfSpace
from picardfit.solvers.picard_gradient.sets import Product as Product
from picardfit.solvers.picard_gradient.sets import Simplex as Simplex

__version__: str
__all__: list[str]
