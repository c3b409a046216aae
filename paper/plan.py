"""How much is run: everything, or enough of it for ten minutes on two cores."""

from __future__ import annotations

from dataclasses import dataclass

READINGS = ("std", "variance")  # what the paper's eps may measure
READ = {"std": "eps is the standard deviation", "variance": "eps is the variance"}


@dataclass(frozen=True)
class Plan:
    """`seed`: of the first data set, the others follow it."""

    quick: bool = False
    seed: int = 0

    @property
    def steps(self) -> int:
        """Gradient steps of Algorithm 4, at most."""
        return 3000 if self.quick else 10_000

    @property
    def budget(self) -> float:
        """Processor seconds of another tool for one data set; the paper gave its genetic algorithm 300."""
        return 3.0 if self.quick else 10.0

    def seeds(self, full: int, quick: int) -> list[int]:
        """Seeds of so many data sets."""
        return list(range(self.seed, self.seed + (quick if self.quick else full)))

    def some(self, every: tuple, quick: tuple) -> tuple:
        """All values, or those of a quick run."""
        return quick if self.quick else every
