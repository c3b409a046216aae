"""Results of many data sets, seed by seed, which a file keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Seeds:
    """Which data sets, the file that keeps their results, and who computes them."""

    first: int = 0
    keep: Path | None = None
    executor: Executor | None = None

    def results(self, name: str, task: Callable[[int], object], count: int) -> list:
        """task(seed) of every seed, in order, as JSON can hold it; those in the file are not computed again."""
        known = self._known(name)
        seeds = range(self.first, self.first + count)
        missing = [seed for seed in seeds if seed not in known]
        every = (map if self.executor is None else self.executor.map)(task, missing)
        for seed, result in zip(missing, every, strict=True):
            known[seed] = result
            if self.keep is not None:
                with self.keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"name": name, "seed": seed, "result": result}) + "\n")
        return [known[seed] for seed in seeds]

    def _known(self, name: str) -> dict[int, object]:
        if self.keep is None or not self.keep.exists():
            return {}
        lines = map(json.loads, self.keep.read_text(encoding="utf-8").splitlines())
        return {line["seed"]: line["result"] for line in lines if line["name"] == name}
