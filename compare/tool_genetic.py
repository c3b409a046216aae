"""A genetic algorithm over simulation: PyGAD until the budget is used up, or 50 generations bring nothing."""

from __future__ import annotations

import numpy as np
import pygad

from compare.task import Answer, Task, Watch, until_over

RTOL = 1e-7
POPULATION = 50  # MATLAB's ga takes 50 up to five unknowns and 200 beyond; 50 makes more of a short budget
PATIENCE = 50  # generations without a better loss, as MATLAB's ga


def solve(task: Task) -> Answer:
    watch = Watch(task.budget)
    low, high = task.box
    rng = np.random.default_rng(task.seed)
    population = low + (high - low) * rng.uniform(size=(POPULATION, len(low)))
    population[0] = np.clip(task.first, low, high)

    def fitness(_: object, genes: np.ndarray, __: int) -> float:
        return -watch.tick(genes, task.loss(genes, RTOL))

    def search() -> Answer:
        search = pygad.GA(
            num_generations=100_000,
            num_parents_mating=POPULATION // 2,
            fitness_func=fitness,
            initial_population=population,
            gene_space=[{"low": a, "high": b} for a, b in zip(low, high, strict=True)],
            parent_selection_type="tournament",
            crossover_type="scattered",
            mutation_type="random",
            mutation_probability=max(0.1, 1 / len(low)),
            keep_elitism=2,
            stop_criteria=f"saturate_{PATIENCE}",
            random_seed=task.seed,
            suppress_warnings=True,
        )
        search.run()
        generations = search.generations_completed
        return Answer(watch.best, True, f"no better loss in {PATIENCE} of {generations} generations")

    return until_over(watch, task, search)
