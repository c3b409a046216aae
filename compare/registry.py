"""Which tools there are: one module each, with the same interface, imported only where it runs.

A module `tool_*.py` offers `solve(task: Task) -> Answer`. It raises Unable with a sentence when the tool cannot treat
the problem at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from compare.usage import UsageError
from picardfit.errors import closest, listing

REMEDY = "not installed: pip install 'picardfit[compare]'"


@dataclass(frozen=True)
class Tool:
    """One row of a comparison. `packages`: distributions it needs, the first gives the version that is shown."""

    name: str
    packages: tuple[str, ...]
    what: str
    module: str

    def versions(self) -> str | None:
        """Names and versions of the packages; None if one is missing."""
        try:
            return ", ".join(f"{name} {version(name)}" for name in self.packages)
        except PackageNotFoundError:
            return None

    def load(self) -> ModuleType:
        return import_module(f"compare.{self.module}")


_EVERY = (
    Tool("picardfit", ("picardfit",), "Gauss-Newton on the Picard operator", "tool_picardfit"),
    Tool("casadi", ("casadi",), "direct collocation, IPOPT", "tool_casadi"),
    Tool("shooting", ("scipy",), "least_squares (trf) over simulation with sensitivities", "tool_shooting"),
    Tool(
        "fmincon",
        ("scipy",),
        "constrained NLP (SLSQP) over simulation: the role of nlgreyest",
        "tool_fmincon",
    ),
    Tool(
        "diffrax",
        ("diffrax", "optimistix", "jax"),
        "Levenberg-Marquardt through the ODE solver",
        "tool_diffrax",
    ),
    Tool(
        "adam-bfgs",
        ("diffrax", "optax", "jax"),
        "Adam, then BFGS, through the ODE solver: the role of SciMLSensitivity",
        "tool_adam",
    ),
    Tool("scatter", ("pypesto",), "enhanced scatter search: the role of AMIGO2", "tool_scatter"),
    Tool("genetic", ("pygad",), "genetic algorithm over simulation: the role of ga", "tool_genetic"),
    Tool("evolution", ("scipy",), "differential evolution over simulation", "tool_evolution"),
    Tool("sindy", ("pysindy",), "sparse regression on first differences, as in the paper", "tool_sindy"),
    Tool(
        "sindy-smooth",
        ("pysindy",),
        "sparse regression on smoothed differences, known structure",
        "tool_sindy_smooth",
    ),
)
TOOLS: dict[str, Tool] = {tool.name: tool for tool in _EVERY}


def chosen(names: Iterable[str] | None) -> tuple[Tool, ...]:
    """The tools of these names, all of them for None."""
    if names is None:
        return tuple(TOOLS.values())
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if name not in TOOLS:
            close = closest(str(name), TOOLS)
            hint = f" Did you mean `{close}`?" if close else ""
            raise UsageError(f"There is no tool `{name}` (there are {listing(TOOLS)}).{hint}")
    if not names:
        raise UsageError("No tool is named: leave `tools` out for all of them.")
    return tuple(TOOLS[name] for name in dict.fromkeys(names))
