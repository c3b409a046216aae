"""Sliders over parameters and initial states, and the curves that they give: what notebooks and the studio share.

A slider is followed while it moves, so that every move must be answered in less than a tenth of a second: the curve
comes from a quick integration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.plots.curves import grid
from picardfit.errors import InputError
from picardfit.problem.named_values import experiment_index, parameters_of, units_of
from picardfit.search.searches import QuickIntegration, value_at
from picardfit.simulation.trajectories import Run, observed, trajectories

if TYPE_CHECKING:
    from picardfit.collocation.mesh import Mesh
    from picardfit.problem.experiment import Experiment
    from picardfit.problem.problem import Problem


@dataclass(frozen=True)
class ExploreSettings:
    """Sizes and limits of the explorer. All are choices."""

    points: int = 201  # times of a curve
    quantities: int = 4  # panels below each other, so that sliders and curves fit on one screen
    panel: float = 1.6  # height of one, in inches
    dots: int = 100  # per inch
    decades: float = 2.0  # how far a logarithmic slider without bounds reaches, to each side
    widths: float = 3.0  # and a linear one, in sizes of its value
    room: float = 0.15  # of the height of a panel that is free above and below data and fit
    reach: tuple[float, ...] = (
        0.0,
        1.0,
        3.0,
    )  # heights by which a panel grows to show a curve that leaves it
    kept: int = 24  # backgrounds, with other limits of the panels each: 1 MB
    experiments: int = 12  # up to which the loss is shown: that of more takes too long
    samples: int = 5000  # and of all of them
    steps: int = 100_000  # of a slider: browsers round its value to them, and the fit is its first value


DEFAULT = ExploreSettings()
NO_SOLUTION = "The equations have no solution at these values."


@dataclass(frozen=True)
class Handle:
    """One slider: an unknown with its ends, in natural units."""

    label: str
    place: tuple[int, int]  # experiment and column of the unknown
    low: float
    high: float
    log: bool
    value: float  # at which it begins
    unit: str = ""


class Sliding:
    """The curves of a problem at any values of its unknowns, one experiment at a time.

    `unknowns` (experiments, width), internal: where the sliders begin. `mesh`: that of a fit, whose curves have the
    same times.
    """

    def __init__(
        self,
        problem: Problem,
        unknowns: np.ndarray,
        experiment: str | None = None,
        settings: ExploreSettings = DEFAULT,
        mesh: Mesh | None = None,
    ) -> None:
        self.problem, self.settings, self._mesh = problem, settings, mesh
        self._layout, self._first = problem.layout, unknowns
        self._natural = self._layout.natural(unknowns).copy()
        self.show_experiment(problem.names[0] if experiment is None else experiment)

    # ---- values ----------------------------------------------------------------------------------------------------

    def show_experiment(self, name: str) -> None:
        """Show another experiment from now on, with the sliders of its own unknowns."""
        self._e = experiment_index(self.problem, name)
        self.handles = {one.label: one for one in self._handles()}

    @property
    def experiment(self) -> str:
        return self.problem.names[self._e]

    @property
    def values(self) -> dict[str, float]:
        """What the sliders of this experiment say."""
        return {label: float(self._natural[one.place]) for label, one in self.handles.items()}

    @property
    def parameters(self) -> dict[str, float]:
        """All parameters at the values of the sliders, as `fit.parameters` has them."""
        return parameters_of(self.problem, self.unknowns)

    def move(self, values: Mapping[str, float]) -> None:
        """Move sliders, by the labels of their unknowns."""
        for label, value in values.items():
            if label not in self.handles:
                known = list(self.handles)
                raise InputError("display.no_slider", label, experiment=self.experiment, known=known)
            e, column = self.handles[label].place
            rows = slice(None) if column >= self._layout.local else e
            self._natural[rows, column] = value

    def reset(self) -> None:
        """Move all sliders back to where they began."""
        self._natural = self._layout.natural(self._first).copy()

    @property
    def unknowns(self) -> np.ndarray:
        """(experiments, width): the unknowns in internal coordinates."""
        with np.errstate(divide="ignore"):
            return self._layout.internal(self._natural)

    def _handles(self) -> list[Handle]:
        """The unknowns on which the curves of this experiment depend: its initial states last."""
        layout, units = self._layout, units_of(self.problem)
        with np.errstate(over="ignore"):
            low, high = layout.natural(layout.lower), layout.natural(layout.upper)
        fitted = layout.natural(self._first)
        initial = len(layout.initial_states)
        columns = [
            c for c in range(layout.width) if layout.exists[self._e, c] and not layout.noise_columns[c]
        ]
        found = []
        for c in sorted(columns, key=lambda c: (c < initial, c)):
            place = (self._e, c)
            label, log, value = layout.label(*place), bool(layout.log[place]), float(fitted[place])
            ends = self._ends(float(low[place]), float(high[place]), value, log)
            found.append(Handle(label, place, *ends, log, value, units.get(label, "")))
        return found

    def _ends(self, low: float, high: float, value: float, log: bool) -> tuple[float, float]:
        """Where a slider begins and ends: at the bounds, or around the estimate where there are none."""
        size = self.settings.widths * (abs(value) or 1.0)
        far = 10**self.settings.decades
        if not np.isfinite(low) or (log and low <= 0):
            low = value / far if log else value - size
        if not np.isfinite(high):
            high = value * far if log else value + size
        return low, high

    # ---- curves ----------------------------------------------------------------------------------------------------

    def curves(self) -> dict[str, tuple[np.ndarray, np.ndarray]] | None:
        """Times and values of each quantity at the values of the sliders; None where there is no solution."""
        model, one = self.problem.model, self.shown
        states = self._states(self._grid)
        if states is None:
            return None
        run = self._run(self._grid)
        outputs = observed(model, run, states)
        found = {name: (self._grid, states[:, k]) for k, name in enumerate(model.states)}
        found |= {name: (self._grid, outputs[:, k]) for k, name in enumerate(model.observables)}
        for name in set(model.increments) & set(
            one.observables
        ):  # between other times they are other numbers
            times = one.count_times(name)
            states = self._states(times)
            if states is None:
                return None
            k = model.observables.index(name)
            found[name] = (times, observed(model, self._run(times), states)[:, k])
        return found

    def _states(self, times: np.ndarray) -> np.ndarray | None:
        quick = QuickIntegration()
        model = self.problem.model
        with np.errstate(all="ignore"):
            found = trajectories(model, [self._run(times)], quick.tolerance, None, quick.integration)[0]
        return None if found is None or not np.isfinite(found).all() else found

    def _run(self, times: np.ndarray) -> Run:
        problem, layout, own = self.problem, self._layout, len(self.problem.model.states)
        unknowns, one = self.unknowns, self.shown
        breaks, jumps = problem.events(self._e)
        return Run(
            one.t0,
            layout.initial(unknowns)[0][self._e, :own],
            layout.model_values(unknowns)[self._e],
            one.signals,
            times,
            breaks,
            None if jumps is None else jumps.of_first(own),
        )

    @property
    def shown(self) -> Experiment:
        """The experiment that is shown."""
        return self.problem.experiments[self._e]

    @property
    def _grid(self) -> np.ndarray:
        """Times of the curves: those of the pictures of the fit, with both sides of every dose."""
        one = self.shown
        knots = np.array([one.t0, one.times[-1]]) if self._mesh is None else self._mesh.knots[self._e]
        return grid(one, knots, logarithmic=False, points=self.settings.points)

    def loss(self) -> float | None:
        """The objective at the values of the sliders, as `fit.objective`; None where that would take too long."""
        problem, limits = self.problem, self.settings
        if len(problem.experiments) > limits.experiments or len(problem.samples.experiment) > limits.samples:
            return None
        return problem.mean_loss(value_at(problem, self.unknowns, QuickIntegration()))
