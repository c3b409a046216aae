"""Segments, nodes and integration weights: the grid on which the Picard operator acts.

Each experiment's time span is cut into segments; on a segment the path is given by its values at the nodes c_i of a
`Rule`.
Axis order: (segments, nodes, states).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from picardfit.errors import InputError
from picardfit.formulas.kernels import Array
from picardfit.problem.experiment import runs
from picardfit.problem.problem import Schedule
from picardfit.problem.unknowns import compact

TINY = float(np.finfo(float).tiny)  # keeps denominators from being zero
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]
QuickIndex = slice | Indices  # a slice where the indices are consecutive: NumPy then makes views, not copies


class Nodes(Enum):
    """Families of nodes on a segment."""

    RADAU = "radau"  # last node is the end point: stiffly accurate
    LOBATTO = "lobatto"  # both end points
    CHEBYSHEV = "chebyshev"  # interior points


@dataclass(frozen=True, eq=False)
class Rule:
    """Nodes c on [0, 1] with the integrals of their Lagrange polynomials; made and cached by `rule`."""

    nodes: Array  # (nodes,)

    @cached_property
    def modes(self) -> Array:
        """(nodes, nodes): values at the nodes -> Legendre coefficients."""
        return _inverse(legendre.legvander(2 * self.nodes - 1, len(self.nodes) - 1))

    @cached_property
    def weights(self) -> Array:
        """(nodes, nodes): A[i, k], the integral of the k-th Lagrange polynomial from 0 to c_i."""
        return self.integrals(self.nodes)

    @cached_property
    def end(self) -> Array:
        """(nodes,): the integrals of the Lagrange polynomials from 0 to 1."""
        row: Array = self.integrals(np.ones(1))[0]
        return row

    def integrals(self, fractions: Array) -> Array:
        """(points, nodes): integrals of the Lagrange polynomials from 0 to each fraction."""
        s = 2 * np.asarray(fractions, float) - 1
        count = len(self.nodes)
        values = legendre.legvander(s, count)
        per_mode = np.empty((*s.shape, count))  # integral of P_k from -1: (P_(k+1) - P_(k-1)) / (2 k + 1)
        per_mode[..., 0] = s + 1
        orders = np.arange(1, count)
        per_mode[..., 1:] = (values[..., 2:] - values[..., :-2]) / (2 * orders + 1)
        return 0.5 * per_mode @ self.modes

    def interpolation(self, fractions: Array) -> Array:
        """(points, nodes): the Lagrange polynomials themselves at each fraction."""
        s = 2 * np.asarray(fractions, float) - 1
        return legendre.legvander(s, len(self.nodes) - 1) @ self.modes

    def along(self, fractions: Array) -> Array:
        """(points, 1 + nodes): the path at each fraction from the start state and the values at the nodes.

        For u = P u this polynomial is the solution x + h sum_k w_k f(u_k) itself; for stiff equations this form is more
        accurate, because an error of u is not multiplied by h f_x.
        """
        s = 2 * np.asarray(fractions, float) - 1
        return legendre.legvander(s, len(self._path_modes) - 1) @ self._path_modes

    @cached_property
    def _slope_modes(self) -> Array:
        """(modes - 1, 1 + nodes): start state and nodes -> Legendre coefficients of d path / d fraction."""
        return np.asarray(2 * legendre.legder(self._path_modes, axis=0), float)

    def slope_along(self, fractions: Array) -> Array:
        """(points, 1 + nodes): the derivative of `along` by the fraction."""
        s = 2 * np.asarray(fractions, float) - 1
        return legendre.legvander(s, len(self._slope_modes) - 1) @ self._slope_modes

    @cached_property
    def _path_modes(self) -> Array:
        """(modes, 1 + nodes): start state and values at the nodes -> Legendre coefficients of the path."""
        if self.nodes[0] == 0:  # the start is a node already
            return np.concatenate([np.zeros((len(self.nodes), 1)), self.modes], axis=1)
        points = np.concatenate([[0.0], self.nodes])
        return _inverse(legendre.legvander(2 * points - 1, len(self.nodes)))

    @cached_property
    def tail(self) -> Array:
        """(2, 1 + nodes): the last two Legendre coefficients of the path, scaled to the size of those of h f."""
        return 2 * (2 * len(self.nodes) - 1) * self._path_modes[-2:]


def _inverse(matrix: NDArray[np.floating]) -> Array:
    return np.asarray(np.linalg.inv(matrix), float)


@lru_cache
def rule(count: int, family: Nodes = Nodes.RADAU) -> Rule:
    """The rule with `count` nodes of a family."""
    from scipy.special import roots_jacobi

    fewest = 2 if family is Nodes.LOBATTO else 1
    if count < fewest:
        raise InputError(
            "collocation.too_few_nodes", "nodes", count=count, family=family.value, fewest=fewest
        )
    if family is Nodes.RADAU:
        inner = (roots_jacobi(count - 1, 1, 0)[0] + 1) / 2 if count > 1 else []
        nodes = np.append(inner, 1.0)
    elif family is Nodes.LOBATTO:
        inner = (roots_jacobi(count - 2, 1, 1)[0] + 1) / 2 if count > 2 else []
        nodes = np.concatenate([[0.0], inner, [1.0]])
    else:
        nodes = (1 - np.cos((np.arange(count) + 0.5) * np.pi / count)) / 2
    nodes = np.sort(nodes)
    nodes.setflags(write=False)
    return Rule(nodes)


@dataclass(frozen=True)
class Segments:
    """Some segments of a mesh, with what the Picard operator needs; a Mesh has the same attributes."""

    rule: Rule
    length: Array  # (segments,)
    node_times: Array  # (segments, nodes)
    integral: Array  # (segments, nodes, nodes): h A, from values at the nodes to integrals up to them


@dataclass(frozen=True)
class Mesh:
    """All segments of all experiments, experiment after experiment, in order of time.

    Where a schedule is given, the lengths of segments may differ from those between the knots: an event moves the knot
    after a segment, and the clock among the states tells the time.
    """

    rule: Rule
    knots: tuple[Array, ...] = field(repr=False)  # per experiment: segments + 1 increasing times
    schedule: Schedule = ()
    lengths: Array | None = field(default=None, repr=False)  # (segments,); None: those between the knots
    clock: Array | None = field(default=None, repr=False)  # (segments,): when they begin; None: at the knots

    @cached_property
    def counts(self) -> Indices:
        """(experiments,): segments of each experiment."""
        return np.array([len(k) - 1 for k in self.knots])

    @cached_property
    def first(self) -> Indices:
        """(experiments,): index of each experiment's first segment."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def experiment(self) -> Indices:
        """(segments,): the experiment a segment belongs to."""
        return np.repeat(np.arange(len(self.knots)), self.counts)

    @cached_property
    def start(self) -> Array:
        return np.concatenate([k[:-1] for k in self.knots])

    @cached_property
    def length(self) -> Array:
        return self.between_knots if self.lengths is None else self.lengths

    @cached_property
    def between_knots(self) -> Array:
        return np.concatenate([np.diff(k) for k in self.knots])

    @cached_property
    def integral(self) -> Array:
        """(segments, nodes, nodes): h A, from values at the nodes to integrals up to them."""
        return self.length[:, None, None] * self.rule.weights

    @cached_property
    def linked(self) -> Indices:
        """Indices of segments that have a successor in the same experiment."""
        if len(self.knots) == 1:
            return np.arange(len(self) - 1)
        return np.delete(np.arange(len(self)), self.first + self.counts - 1)

    @cached_property
    def first_links(self) -> tuple[QuickIndex, QuickIndex]:
        """Links that begin in the first segment of an experiment, and those experiments."""
        owner = np.flatnonzero(self.counts > 1)
        return compact(np.searchsorted(self.linked, self.first[owner])), compact(owner)

    @cached_property
    def node_times(self) -> Array:
        """(segments, nodes): times of the nodes, moved inside the segment by one ulp at its ends.

        Inputs may jump at knots, and a node on a knot must see the value inside its own segment.
        """
        start = self.start[:, None]
        stop = np.concatenate([k[1:] for k in self.knots])[:, None]
        times = start + self.between_knots[:, None] * self.rule.nodes
        inside: Array = np.minimum(np.maximum(times, np.nextafter(start, stop)), np.nextafter(stop, start))
        return inside

    @cached_property
    def inner(self) -> Indices:
        """Indices of segments that are not the first of their experiment; linked[i] precedes inner[i]."""
        return self.linked + 1

    @cached_property
    def linked_rows(self) -> QuickIndex:
        """`linked` as a slice where possible."""
        return compact(self.linked)

    @cached_property
    def inner_rows(self) -> QuickIndex:
        """`inner` as a slice where possible."""
        return compact(self.inner)

    @cached_property
    def inner_ranges(self) -> list[tuple[int, int]]:
        """Per experiment: where its inner segments begin and end among all inner segments."""
        stops = np.cumsum(self.counts - 1)
        return list(zip(stops - (self.counts - 1), stops, strict=True))

    @cached_property
    def between(self) -> tuple[QuickIndex, QuickIndex]:
        """Links between two inner segments, and the number of the first of the two among the inner segments."""
        links = np.delete(np.arange(len(self.linked)), self.first_links[0])
        return compact(links), compact(links - 1)

    def __len__(self) -> int:
        return len(self.experiment)

    def columns(self, states: Array, parameters: Array) -> Array:
        """(segments, states + parameters) from states (segments, states) and parameters (experiments, parameters)."""
        count = states.shape[1]
        result = np.empty((len(states), count + parameters.shape[1]))
        result[:, :count] = states
        result[:, count:] = parameters if len(parameters) == 1 else parameters[self.experiment]
        return result

    def locate(
        self, times: Array, experiment: Indices, earlier: Flags | None = None, rounding: float = 1e-12
    ) -> tuple[Indices, Array]:
        """Segment index and fraction in [0, 1] of each time; a time on a knot belongs to the later segment.

        Those in `earlier` (times,) belong to the earlier one, also if they are later within `rounding` of the span.

        The paper's floor(t/T) + 1 overruns at the last knot: that time belongs to the last segment.
        """
        segment = np.empty(len(times), int)
        for e, mine in runs(experiment):
            knots = self.knots[e]
            if self.clock is not None:
                begin = np.maximum.accumulate(self.clock[self.first[e] : self.first[e] + self.counts[e]])
                knots = np.append(begin, max(knots[-1], begin[-1]))
            inside = np.searchsorted(knots, times[mine], side="right") - 1
            if earlier is not None:
                slack = rounding * (knots[-1] - knots[0])
                before = np.searchsorted(knots, times[mine] - slack, side="left") - 1
                inside = np.where(earlier[mine], before, inside)
            segment[mine] = self.first[e] + np.clip(inside, 0, len(knots) - 2)
        fraction = (times - self.start[segment]) / self.between_knots[segment]
        return segment, np.clip(fraction, 0.0, 1.0)


AnySegments = Segments | Mesh


def uniform_knots(span: tuple[float, float], length: float, breaks: Sequence[float] = ()) -> Array:
    """Knots over a span with segments of at most `length`, and one knot at every break inside."""
    inside = [b for b in breaks if span[0] < b < span[1]]
    pieces = np.unique(np.array([span[0], *inside, span[1]], float))
    counts = [max(1, int(np.ceil((b - a) / length - 1e-9))) for a, b in pairwise(pieces)]
    cut = [np.linspace(a, b, n + 1)[:-1] for (a, b), n in zip(pairwise(pieces), counts, strict=True)]
    return np.append(np.concatenate(cut), pieces[-1])
