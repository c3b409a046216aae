"""picardfit: parameters of nonlinear ODE models from poor data, by Gauss-Newton on the Picard operator."""

from picardfit import problems
from picardfit.analysis import Analysis, analyse
from picardfit.certificate import Certificate
from picardfit.combinations import Combination
from picardfit.data import Experiment, Rest, plan
from picardfit.errors import InputError, Status
from picardfit.estimate import fit
from picardfit.experiment_design import Design, design, design_times
from picardfit.identifiability import Identifiability, Verdict
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
from picardfit.structure import Structure, structural

__version__ = "0.1.0"
__all__ = [
    "Analysis",
    "Ball",
    "Box",
    "Certificate",
    "Combination",
    "Design",
    "Experiment",
    "ExtendedGradientContractMultiplier",
    "Fit",
    "GradientContractMultiplier",
    "GradientContractive",
    "GradientDescent",
    "HalfSpace",
    "Identifiability",
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
    "Rest",
    "Signal",
    "Simplex",
    "Simulation",
    "Status",
    "Structure",
    "StudentT",
    "Table",
    "Uniform",
    "Verdict",
    "analyse",
    "design",
    "design_times",
    "fit",
    "load",
    "plan",
    "problems",
    "read_table",
    "simulate",
    "structural",
]
