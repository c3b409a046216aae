"""What an equation may hold: examples beside the editor."""

from __future__ import annotations

from picardfit.formulas.functions import FUNCTIONS
from picardfit.studio import parts

EXAMPLES = {  # lines of equations -> what they say
    "x' = -k*x": "the rate of change of x; dx/dt = … says the same",
    "rate = k*x^2/(K^2 + x^2)": "a name for a formula, above the lines that use it",
    "x' = supply*(1 + cos(2*pi*t)) - k*x": "t is the time, pi a number; a product needs its *",
    "x' = a if t < 5 else b": "a condition; also with and, or, not",
    "when x > top: x = 0": "an event: what jumps, and when",
}


def build() -> None:
    """Draw the help, folded."""
    with parts.tag("details", "help"):
        parts.text("summary", "What an equation may hold")
        with parts.tag("div", "scroll"), parts.tag("table", "t"), parts.tag("tbody"):
            for line, words in EXAMPLES.items():
                with parts.tag("tr"):
                    parts.text("td", line, "name")
                    parts.text("td", words)
        with parts.tag("div", "chips"):
            for name in FUNCTIONS:
                parts.text("span", name, "chip")
