"""Times on the command line: a list, or a range with how many of them or the step between two."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from picardfit.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from picardfit.problem.calendar import Calendar
    from picardfit.problem.experiment import Experiment

DATE = r"\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
OTHER_DATE = r"\d+[./]\d+[./]\d+|\d{4}[./]\d{1,2}$"  # 1.7.2022, 7/1/2022: which is the month?
MOST = 1_000_000  # times of a range: more is a typing error


@dataclass(frozen=True)
class TimesText:
    """`0:10:41` (41 times), `0:20:0.5` (a step of 0.5), `0,1,2`; dates may stand for numbers."""

    text: str

    @property
    def ends(self) -> tuple[str, str, str] | None:
        """From, to, and the number or step of a range; None for a list."""
        if ":" not in re.sub(DATE, "", self.text):
            return None
        found = re.fullmatch(rf"\s*({DATE}|[^:]*):({DATE}|[^:]*):([^:]*)", self.text)
        if found is None:
            raise InputError("cli.times", self.text)
        first, last, step = found.groups()
        return first, last, step

    def of(self, one: Experiment | Calendar | None = None) -> np.ndarray:
        """The times, for an experiment or its calendar also from dates; InputError for what is neither."""
        import numpy as np

        if self.ends is None:
            return self._numbers(self.text.split(","), one)
        *ends, third = self.ends
        first, last = self._numbers(ends, one).tolist()
        try:
            if re.fullmatch(r"\s*\d+\s*", third):
                if not 1 <= int(third) <= MOST:
                    raise ValueError(third)
                return np.linspace(first, last, int(third))
            step = float(third)
            count = (last - first) / step
        except (ValueError, ZeroDivisionError):
            raise InputError("cli.times", self.text) from None
        if not np.isfinite(step):
            raise InputError("cli.times_not_finite", self.text)
        if not 0 <= count <= MOST:
            raise InputError("cli.times", self.text)
        return first + step * np.arange(np.floor(count * (1 + 1e-12)) + 1)

    def _numbers(self, texts: list[str], one: Experiment | Calendar | None) -> np.ndarray:
        """(n,): numbers, or dates as times of the experiment."""
        import numpy as np

        from picardfit.problem.calendar import Calendar

        texts = [text.strip() for text in texts]
        try:
            times = np.array([float(text) for text in texts])
        except ValueError:
            if one is None or not all(re.fullmatch(DATE, text) for text in texts):
                if any(re.search(OTHER_DATE, text) for text in texts):
                    raise InputError("cli.times_date", self.text) from None
                raise InputError("cli.times", self.text) from None
            return np.asarray(one.times(texts) if isinstance(one, Calendar) else one.times_at(texts), float)
        if not np.isfinite(times).all():
            raise InputError("cli.times_not_finite", self.text)
        return times
