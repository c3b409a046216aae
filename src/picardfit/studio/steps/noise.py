"""The table of noise: one model for all observables, or one for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from picardfit.files.sections.beliefs import NOISES
from picardfit.studio import document, parts
from picardfit.studio.fields import level_of, words_of_level

if TYPE_CHECKING:
    from picardfit.studio.steps.play import View

EVERY = ""  # the entry of a noise model for all observables
LEAD = (
    "A number is a known level; “0.01 to 1” is estimated between these; a formula may stand too. "
    "Without noise: least squares."
)
FIRST: dict[str, dict[str, object]] = {  # levels that a kind begins with; the wide ones are estimated
    "normal": {"additive": [0.001, 1000]},
    "log-normal": {"sigma": [0.001, 10]},
    "student-t": {"additive": [0.001, 1000]},
    "laplace": {"scale": [0.001, 1000]},
    "negative-binomial": {"dispersion": [0.01, 1000]},
}


def entries(text: str, observables: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """observable -> its noise model, or one for all under the blank name; levels by observable are taken apart."""
    given = document.value_at(text, "noise")
    now = dict(given) if isinstance(given, Mapping) else {}
    if now and "type" not in now and set(now) <= set(observables):
        return {name: dict(one) if isinstance(one, Mapping) else {} for name, one in now.items()}
    if not any(isinstance(level, Mapping) for level in now.values()):
        return {EVERY: {"type": "normal", **now} if now else {}}
    return {name: _of_one(now, name) for name in observables}


def _of_one(noise: Mapping[str, Any], observable: str) -> dict[str, Any]:
    """The noise model of one observable, of a model for all whose levels may be given by observable."""
    levels = {
        key: level.get(observable) if isinstance(level, Mapping) else level for key, level in noise.items()
    }
    return {"type": "normal", **{key: level for key, level in levels.items() if level is not None}}


def with_entries(text: str, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Set the noise models; none at all means least squares."""
    if EVERY in found:
        return document.with_value(text, ("noise",), dict(found[EVERY]) or None)
    text = document.with_value(text, ("noise",), None)
    for name, one in found.items():
        text = document.with_value(text, ("noise", name), dict(one))
    return text


def build(view: View, observables: tuple[str, ...]) -> None:
    """Draw the card."""
    found = entries(view.desk.text, observables)

    def put(name: str, **levels: object) -> None:
        """Change levels of a noise model, or its kind and with it all levels."""
        now = entries(view.desk.text, observables)
        noise = levels if "type" in levels else {**now.get(name, {}), **levels}
        now[name] = {} if noise.get("type") == "" else {k: v for k, v in noise.items() if v is not None}
        label = f"noise of {name}" if name else "noise"
        view.edit(lambda text: with_entries(text, now), label, None if "type" in levels else view)

    with parts.card("Noise", LEAD):
        if len(observables) > 1:
            _sharing(view, found, observables)
        with parts.tag("div", "scroll"), parts.tag("table", "t"), parts.tag("tbody"):
            for name, noise in found.items():
                with parts.tag("tr"):
                    _row(name, noise, put)


def _sharing(view: View, found: Mapping[str, Mapping[str, Any]], observables: tuple[str, ...]) -> None:
    """Whether there is one noise model for all observables."""

    def choose(how: str) -> None:
        first = dict(next(iter(found.values())))
        changed = dict.fromkeys(observables, first or {"type": "normal", **FIRST["normal"]})
        view.edit(lambda text: with_entries(text, changed if how else {EVERY: first}), "noise")

    with parts.tag("div", "row").style("margin-bottom: 8px"):
        options = {"": "one for all", "each": "one for each"}
        parts.choice(options, "" if EVERY in found else "each", choose, "Whose noise", "noise-sharing")


def _row(name: str, noise: Mapping[str, Any], put: Any) -> None:
    """The kind of noise of an observable and its levels."""
    kind, whose = str(noise.get("type", "")), f" of {name}" if name else ""
    kinds = dict(zip(NOISES, NOISES, strict=True))

    def choose(new: str) -> None:
        put(name, type=new, **FIRST.get(new, {}))

    if name:
        parts.text("td", name, "name")
    with parts.tag("td"):
        options = kinds if name else {"": "least squares", **kinds}
        parts.choice(options, kind, choose, f"Kind of noise{whose}", "noise-kind")
    with parts.tag("td"), parts.tag("div", "row"):
        for one in fields(NOISES[kind]) if kind in NOISES else ():
            if one.init and one.name not in ("common", "base"):
                with parts.tag("label", "field"):
                    parts.text("span", one.name)
                    shown = words_of_level(noise.get(one.name))
                    made = parts.field(
                        shown,
                        lambda v, k=one.name: put(name, **{k: level_of(v)}),
                        f"{one.name} of the noise{whose}",
                        "num",
                    )
                    made.style("width: 128px")
