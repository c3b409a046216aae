"""Executes the search policy: runs searches, carries points on, checks optima, tries the rescue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from picardfit.errors import InputError, Notice, Status
from picardfit.evidence.certificate import Certificate, misfit, path_value
from picardfit.evidence.optima import SameOptimum, Vicinity, clusters, same_value
from picardfit.parallel.ledger import Ledger
from picardfit.parallel.ordered_map import Failure, attempt, single_threaded
from picardfit.problem.problem import Start
from picardfit.search.certifying import certify_outcome
from picardfit.search.ending_record import decoded, encoded
from picardfit.search.exchange import exchanged_start, has_hidden_rates
from picardfit.search.nonfinite_start import never_finite
from picardfit.search.policy import Action, Evidence, Next, SearchFacts, SearchPolicy, decide
from picardfit.search.rescue.relay import Candidates, find_candidates, polished
from picardfit.search.rescue.settings import Rescue
from picardfit.search.searches import (
    BROKEN,
    Ending,
    QuickIntegration,
    Request,
    Searches,
    begin,
    ending_after,
    interrupted_at,
    outcome_of,
    parts_of,
    path_of,
    reporter,
    search_along,
    start_at,
    value_at,
    with_arrivals,
)
from picardfit.search.story import Story
from picardfit.solvers.loop import IterationState, News, Outcome, Progress, Run, StepCost, iterate


@dataclass(frozen=True)
class Found:
    """What a fit found: its searches, and the best of them with its certificate."""

    searches: Searches
    best: int
    outcome: Outcome
    certificate: Certificate


def run_policy(
    request: Request,
    book: Ledger | None,
    progress: Callable[[Progress], None] | None,
    before: Searches | None = None,
) -> Found:
    """Do what the policy decides until it stops; `before`: searches that were done already."""
    driver = _Driver(request, book, progress, before)
    with single_threaded():
        driver.run()
        return driver.found()


class _Driver:
    """The searches of one fit as they go on."""

    def __init__(
        self,
        request: Request,
        book: Ledger | None,
        progress: Callable[[Progress], None] | None,
        before: Searches | None,
    ) -> None:
        self.request, self.book, self.progress = request, book, progress
        self.policy: SearchPolicy = request.policy
        if not request.method.exact:
            self.policy = replace(self.policy, most=1)
        elif request.starts > 1:
            self.policy = replace(self.policy, most=request.starts)
        if request.problem.timed is not None:  # candidates are simulated without events
            self.policy = replace(self.policy, rescue=None)
        self.endings: dict[int, Ending] = dict(before.endings) if before else {}
        self.failures: dict[int, Notice] = dict(before.failures) if before else {}
        self.interrupted = bool(before and before.interrupted)
        self.story = Story(request, self.policy, self.endings)
        self.waiting: dict[int, Run] = {}
        self.spent: dict[int, float] = {}  # work of searches that wait
        self.simulated: dict[tuple[int, float], float] = {}  # (search, work) -> what its unknowns are worth
        self.grouped: dict[int, int] = {}  # search -> number of its optimum
        self.carried, self.rescues, self.exchanged = 0, 0, False
        self.simulating = 0.0  # work of simulated candidates
        self.candidates: dict[int, np.ndarray] = {}  # search -> the simulated candidate from which it begins
        self.finalists = np.zeros((0, *request.given.shape))  # all of them, the best first
        self.vicinities: dict[int, Vicinity] = {}  # search -> that of the optimum it found
        self.checked: dict[int, tuple[Outcome, Certificate]] = {}

    def run(self) -> None:
        while not self.interrupted:
            evidence = self.evidence()
            action = decide(evidence, self.policy)
            self.story.decided(evidence, action, self.endings)
            if action.what is Next.STOP:
                return
            with self._interruptible():
                self._do(action)

    def _do(self, action: Action) -> None:
        if action.what is Next.SEARCH and action.index in self.candidates:
            unknowns = self.candidates.pop(action.index)
            self._add(action.index, lambda: self._search_along(action.index, unknowns))
        elif action.what is Next.SEARCH:
            self._search(action.index, action.work)
        elif action.what is Next.CERTIFY:
            self._checked(self.best())
        elif action.what is Next.EXCHANGE:
            self.exchanged = True
            index = self._next_index()
            self._add(index, lambda: self._exchange(index, action.work))
        elif action.what is Next.CARRY_ON:
            self.carried += 1
            index = self._next_index()
            self._add(index, lambda: self._carry_on(action.index, index))
        else:
            self.rescues += 1
            self._rescue(action.work)

    # ---- what is known ---------------------------------------------------------------------------------------------

    def evidence(self) -> Evidence:
        """What the searches have shown so far."""
        best, optima = self.best() if self.endings else -1, self.optima()
        quick = self.request.method.max_iterations < self.policy.slice
        ranks = {k: 0 if self._ties(optimum) else optimum for k, optimum in optima.items()}
        facts = {
            k: SearchFacts(
                one.work / self.unit,
                optimum=ranks.get(k),
                arrived=self._came_to_another(k),
                limited=quick and one.status is Status.ITERATION_LIMIT,
                begun=one.status is not Status.NOT_FINITE or one.unknowns is not None,
            )
            for k, one in self.endings.items()
        }
        facts |= {k: SearchFacts(work / self.unit, ended=False) for k, work in self.spent.items()}
        return Evidence(
            searches=facts,
            better_point=self._better_point(best),
            carried=self.carried,
            certified=best in self.checked,
            contradicted=bool(optima) and self._contradicted(best),
            plateau=bool(optima) and self._is_on_plateau(best),
            at_bound=bool(optima) and self._touches_bound(best),
            hidden=bool(optima) and self._hides_rates(best),
            exchanged=self.exchanged or len({o for k, o in optima.items() if ranks[k] == 0}) > 1,
            rescues=self.rescues,
            simulated=self.simulating / self.unit,
            candidates=tuple(self.candidates),
            asked=self.request.starts > 1,
            hopeless=self.hopeless,
            jumps=not optima and bool(self.request.problem.model.as_written.state_jumps),
        )

    @cached_property
    def first(self) -> Run:
        """The first search at its start."""
        return begin(self.request, self.first_start)

    @cached_property
    def first_start(self) -> Start:
        return start_at(self.request, (0, None))

    @cached_property
    def unit(self) -> float:
        """The unit of work in the evidence: the first step of the first search; of none that was done before.

        On a mesh that a poor start has made much finer than the data are, it counts as on one of `policy.fine`.
        """
        if self.request.starts > 1:
            return 1.0
        cost, state = StepCost(), self.first.state
        enough = self.policy.fine * sum(len(one.times) for one in self.request.problem.experiments)
        return cost.fixed + (cost.of(state) - cost.fixed) * min(1.0, enough / max(state.segments, 1))

    def best(self) -> int:
        """The search with the best optimum, the first of those that agree on it; without one, the best point."""
        optima = self.optima()
        agreed = {k: self.endings[k].value for k in optima if optima[k] == 0 and self._is_optimum(k)}
        if not agreed:
            own = [k for k, one in self.endings.items() if one.arrived_at is None]
            return min(own or self.endings, key=lambda k: (self._value(k), k))
        least = min(agreed.values())
        return min(k for k, value in agreed.items() if value <= least + SameOptimum().rounding * abs(least))

    def _value(self, index: int) -> float:
        """The objective at an optimum, or of the unknowns where a search has ended or waits without one."""
        if index < 0:
            return self.value_of_given
        if self._is_optimum(index):
            return self.endings[index].value
        work, unknowns = self.spent.get(index, np.inf), self._unknowns(index)
        if (index, work) not in self.simulated:
            value = np.inf if unknowns is None else value_at(self.request.problem, unknowns)
            self.simulated[index, work] = value
        return self.simulated[index, work]

    def _came_to_another(self, index: int) -> bool:
        """Whether a search ended where another one had been, before its own end."""
        return index in self.endings and self.endings[index].arrived_at is not None

    def _is_optimum(self, index: int) -> bool:
        """Whether a search converged, and no independent integration contradicts it (inexact methods may differ)."""
        if index not in self.endings or not self.endings[index].status.success:
            return False
        checked = self.checked.get(index)
        return checked is None or checked[1].agrees or not self.request.method.exact

    def _unknowns(self, index: int) -> np.ndarray | None:
        """(experiments, width): where a search has ended or waits; those of the given start for -1."""
        if index < 0:
            return self.given
        if index in self.waiting:
            solution = self.request.method.solution(self.waiting[index].state)
            return None if solution is None else solution.unknowns
        return self.endings[index].unknowns if index in self.endings else None

    def optima(self) -> dict[int, int]:
        """Which optimum each search that converged ended in, 0 is the best."""
        found = {
            k: (one.value, one.unknowns)
            for k, one in self.endings.items()
            if one.unknowns is not None and self._is_optimum(k)
        }
        if len(found) < 2:
            self.grouped = dict.fromkeys(found, 0)
        elif found.keys() != self.grouped.keys():
            lowest = min(found, key=lambda k: found[k][0])
            solution = outcome_of(self.request, lowest, self.endings[lowest]).solution
            self.grouped = {} if solution is None else clusters(solution, found[lowest][0], found)
        return with_arrivals(self.grouped, self.endings)

    def _ties(self, optimum: int) -> bool:
        """Whether an optimum is as low as the best one, as are those of models in which two unknowns may swap."""
        lowest = [
            min(self.endings[k].value for k in self.grouped if self.grouped[k] == n) for n in (0, optimum)
        ]
        return lowest[1] - lowest[0] <= same_value(self.request.problem, lowest[0])

    def _better_point(self, best: int) -> int | None:
        """A search that ended below the best optimum, but not at an optimum; -1: the given start lies below it."""
        if not self._is_optimum(best):
            return None
        value = self.endings[best].value
        limit = value - same_value(self.request.problem, value)
        others = {k: one for k, one in self.endings.items() if one.arrived_at is None}
        below = [k for k, one in others.items() if one.value < limit and not self._is_optimum(k)]
        below += [k for k, run in self.waiting.items() if run.state.value < limit]
        if self.request.has_given and not self.carried:
            below.append(-1)
        lowest = min(below, key=self._value, default=best)
        return lowest if self._value(lowest) < limit else None

    @cached_property
    def given(self) -> np.ndarray:
        """(experiments, width): the values that the user gave, completed."""
        return self.first_start.unknowns

    @cached_property
    def value_of_given(self) -> float:
        return value_at(self.request.problem, self.given, QuickIntegration())

    def _contradicted(self, best: int) -> bool:
        """Whether residuals of the best optimum are larger than a known noise level makes probable."""
        problem = self.request.problem
        if problem.noise is None or problem.layout.noise_columns.any():
            return False
        solution = path_of(self.request, self.endings[best])
        return solution is not None and misfit(solution).probability < self.policy.improbable

    def _is_on_plateau(self, best: int) -> bool:
        """Whether the data determine no parameter at the best optimum, which is asked where others may follow."""
        if self.policy.most == 1 or self.request.starts > 1:
            return False
        there = self._vicinity(best)
        return there is not None and there.is_plateau

    def _touches_bound(self, best: int) -> bool:
        """Whether an unknown of the best optimum is at its bound."""
        layout, unknowns = self.request.problem.layout, self.endings[best].unknowns
        return unknowns is not None and bool((layout.at_bounds(unknowns) & layout.exists).any())

    def _hides_rates(self, best: int) -> bool:
        """Whether other rates may fit as well, which is asked where another search may follow."""
        if self.policy.most == 1 or self.request.starts > 1 or self.exchanged:
            return False
        found = path_of(self.request, self.endings[best])
        return found is not None and has_hidden_rates(found)

    @property
    def hopeless(self) -> bool:
        """Whether no path could be found because the equations are infinite whatever the unknowns are."""
        if not self.endings or any(one.unknowns is not None for one in self.endings.values()):
            return False
        return self.never_finite

    @cached_property
    def never_finite(self) -> bool:
        return never_finite(self.request.problem) is not None

    # ---- what is done ----------------------------------------------------------------------------------------------

    def _search(self, index: int, work: float) -> None:
        """Run one of the sequence of searches until it ends or has done this much work."""
        if self.book is not None and index in self.book.done:
            ending = self.book.result(index, decoded)
            if ending.work > work * self.unit:
                self.spent[index] = work * self.unit
            else:
                self._end(index, ending)
            return

        def advance(_: None) -> Run:
            begun = self.waiting.get(index)
            if begun is None:
                task = (index, parts_of(request, index + 1)[index])
                begun = begin(request, start_at(request, task)) if index else self.first
            news = self._news(index)
            with np.errstate(all="ignore"):
                return iterate(request.method, begun, news, work * self.unit, self._has_arrived)

        request = self.request
        ran = advance(None) if self.policy.most == 1 or index == 0 else attempt(advance, None)
        if isinstance(ran, Failure):
            self._fail(index, ran.reason)
        elif ran.status is None and len(ran.trace) < request.method.max_iterations:
            self.waiting[index], self.spent[index] = ran, ran.work
        else:
            self._end(index, ending_after(request, ran))
            self._write(index)

    def _news(self, index: int, candidates: bool = False) -> News:
        return reporter(self.request, index, self.progress, len(self.endings), candidates)

    def _end(self, index: int, ending: Ending) -> None:
        self.waiting.pop(index, None)
        self.spent.pop(index, None)
        if ending.status is Status.ARRIVED and ending.arrived_at is None:
            ending = replace(ending, arrived_at=self.best())
        self.endings[index] = ending
        self.interrupted |= ending.status is Status.INTERRUPTED

    def _write(self, index: int) -> None:
        """Keep an ending in the ledger, unless it says nothing to a fit with other searches: where it was stopped."""
        ending = self.endings[index]
        stopped = ending.status in (Status.INTERRUPTED, Status.ARRIVED)
        if self.book is not None and not stopped:
            self.book.append(index, encoded(ending))

    def _fail(self, index: int, reason: Notice) -> None:
        self._end(index, BROKEN)
        self.failures[index] = reason
        if self.book is not None:
            self.book.fail(index, str(reason))

    def _has_arrived(self, state: IterationState) -> bool:
        """Whether a search has come to the best optimum so far, which is checked where its path is nearly closed."""
        method, same = self.request.method, SameOptimum()
        if not method.exact or not state.jump < same.nearly_closed or not self.endings:
            return False
        best = self.best()
        there = self._vicinity(best) if self._is_optimum(best) else None
        here = method.solution(state)
        if there is None or here is None:
            return False
        return there.is_near(here.unknowns) and there.is_as_good(path_value(here))

    def _vicinity(self, best: int) -> Vicinity | None:
        """The neighbourhood of an optimum; None if its path was lost."""
        if best not in self.vicinities:
            found = path_of(self.request, self.endings[best])
            if found is None:
                return None
            self.vicinities[best] = Vicinity(found, self.endings[best].value)
        return self.vicinities[best]

    def _next_index(self) -> int:
        """The index of a search that is none of the sequence."""
        return max((self.policy.most - 1, *self.endings, *self.candidates)) + 1

    def _add(self, index: int, work: Callable[[], Ending | None]) -> None:
        """Add a search that is none of the sequence, if the work leads to one."""
        began = time.perf_counter()
        with np.errstate(all="ignore"):
            try:
                ending = attempt(lambda _: work(), None)  # a user's function need not bear other values
            except InputError as error:
                ending = Failure.of(error)
        if isinstance(ending, Failure):
            self._fail(index, ending.reason)
        elif ending is not None:
            self._end(index, replace(ending, seconds=time.perf_counter() - began))

    def _search_along(self, index: int, unknowns: np.ndarray) -> Ending | None:
        """A search on the simulated path of these unknowns."""
        return search_along(self.request, unknowns, self._news(index), self._has_arrived)

    def _exchange(self, index: int, work: float) -> Ending | None:
        """A search from where fast and slow states of the best optimum have changed places; None without a start."""
        request, best = self.request, path_of(self.request, self.endings[self.best()])
        start = None if best is None else exchanged_start(best, request.seed)
        if start is None:
            return None
        begun = begin(request, start)
        ran = iterate(request.method, begun, self._news(index), work * self.unit, self._has_arrived)
        return ending_after(request, replace(ran, status=ran.status or Status.SET_ASIDE))

    def _carry_on(self, source: int, index: int) -> Ending | None:
        """A search from a point that is better than the best optimum: downhill by shooting, then along its path."""
        unknowns = self._unknowns(source)
        if unknowns is None:
            return None
        if self.request.problem.timed is not None:
            return self._search_along(index, unknowns)
        shot = polished(self.request.problem, unknowns[None], self.policy.rescue or Rescue())
        return self._search_along(index, shot.many_unknowns[0] if len(shot.values) else unknowns)

    def _rescue(self, work: float) -> None:
        """Simulate candidates, from which searches may begin; the second time, polish those there were."""
        first = self._next_index()
        news = self._news(first, candidates=True)
        with np.errstate(all="ignore"):
            found = attempt(lambda news: self._find_candidates(work * self.unit, news), news)
        if isinstance(found, Failure):
            self._fail(first, found.reason)
            return
        self.finalists = found.many_unknowns
        self.simulating += found.work
        if found.interrupted:
            self.interrupted = True
            self._add(first, lambda: interrupted_at(self.request, found.many_unknowns[0]))
        else:
            self.candidates = dict(enumerate(found.many_unknowns, first))

    def _find_candidates(self, work: float, news: News) -> Candidates:
        request, settings = self.request, self.policy.rescue or Rescue()
        settings = replace(settings, work=min(settings.work, work))
        if self.rescues > 1:
            return polished(request.problem, self.finalists, settings)
        ends = [self._unknowns(k) for k in sorted({*self.endings, *self.waiting} - self.optima().keys())]
        further = np.array([b for b in ends if b is not None and np.isfinite(b).all()])
        further = further.reshape(-1, *request.given.shape)
        if self.optima() and not self._is_on_plateau(
            self.best()
        ):  # only whether there is a better one is open
            settings = replace(settings, vain=0.0, lead=None)
        return find_candidates(request.problem, request.given, request.seed, further, settings, news)

    def _checked(self, index: int) -> tuple[Outcome, Certificate]:
        if index not in self.checked:
            outcome = outcome_of(self.request, index, self.endings[index])
            self.checked[index] = certify_outcome(self.request.method, self.request.problem, outcome)
        return self.checked[index]

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True

    def found(self) -> Found:
        """The result. Searches that still wait are listed as set aside."""
        for index in list(self.spent):
            run = self.waiting.get(index)
            if run is None:
                self._end(index, replace(BROKEN, status=Status.SET_ASIDE, work=self.spent[index]))
            else:
                self._end(index, ending_after(self.request, replace(run, status=Status.SET_ASIDE)))
        if not self.endings:
            raise KeyboardInterrupt
        best = self._lowest()
        if self.request.starts == 1:  # what those are worth that did not converge
            for k in self.endings.keys() - {best}:
                self.endings[k] = replace(self.endings[k], value=self._value(k))
        searches = Searches(dict(sorted(self.endings.items())), self.failures, self.interrupted)
        return Found(searches, best, *self._checked(best))

    def _lowest(self) -> int:
        """The best optimum, unless a point that is not an optimum is better: then that one, with its honest status."""
        best = self.best()
        better = self._better_point(best)
        return best if better is None or better < 0 else better
