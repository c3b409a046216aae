"""picardfit: parameters of nonlinear ODE models from poor data, by Gauss-Newton on the Picard operator."""

from picardfit import problems
from picardfit.analysis import Analysis, analyse
from picardfit.certificate import Certificate
from picardfit.data import Experiment
from picardfit.errors import InputError, Status
from picardfit.estimate import fit
from picardfit.inputs import Signal, Table
from picardfit.mesh import Nodes
from picardfit.model import Model
from picardfit.noise_models import Laplace, LogNormal, Noise, StudentT
from picardfit.parameters import Parameter
from picardfit.priors import LaplacePrior, LogLaplacePrior, LogNormalPrior, Normal, Uniform
from picardfit.problem import Problem
from picardfit.reading import read_table
from picardfit.result import Fit
from picardfit.sets import Ball, Box, HalfSpace, Product, Simplex
from picardfit.simulation import Simulation, simulate
from picardfit.solvers.contractive import (
    ExtendedGradientContractMultiplier,
    GradientContractive,
    GradientContractMultiplier,
    GradientDescent,
)
from picardfit.solvers.gauss_newton import LiftedGaussNewton
from picardfit.solvers.iterate import Progress
from picardfit.storage import load

__version__ = "0.1.0"
__all__ = [
    "Analysis",
    "Ball",
    "Box",
    "Certificate",
    "Experiment",
    "ExtendedGradientContractMultiplier",
    "Fit",
    "GradientContractMultiplier",
    "GradientContractive",
    "GradientDescent",
    "HalfSpace",
    "InputError",
    "Laplace",
    "LaplacePrior",
    "LiftedGaussNewton",
    "LogLaplacePrior",
    "LogNormal",
    "LogNormalPrior",
    "Model",
    "Nodes",
    "Noise",
    "Normal",
    "Parameter",
    "Problem",
    "Product",
    "Progress",
    "Signal",
    "Simplex",
    "Simulation",
    "Status",
    "StudentT",
    "Table",
    "Uniform",
    "analyse",
    "fit",
    "load",
    "problems",
    "read_table",
    "simulate",
]
