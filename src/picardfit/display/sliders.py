"""The sliders of an explorer as widgets of a notebook."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from math import log10
from typing import TYPE_CHECKING, Any

from picardfit.errors import InputError

if TYPE_CHECKING:
    from picardfit.display.explore import Explorer
    from picardfit.display.sliding import Handle


def check_widgets() -> None:
    """InputError unless the widgets of notebooks are installed."""
    if find_spec("ipywidgets") is None:
        raise InputError("display.no_widgets")


def panel(explorer: Explorer) -> Any:
    """A box of widgets: the picture, the loss, a slider for each unknown, and a button back to the fit."""
    import ipywidgets

    image = ipywidgets.Image(
        format="png", layout=ipywidgets.Layout(width=f"{explorer.width}px", max_width="100%")
    )
    words, column = ipywidgets.Label(), ipywidgets.VBox()
    back = ipywidgets.Button(description="Back to the fit")
    names = explorer.fit.problem.names
    chosen = ipywidgets.Dropdown(options=list(names), value=explorer.experiment, description="experiment")

    def draw() -> None:
        image.value, words.value = explorer.png(), explorer.words()

    def follow(label: str, change: Any) -> None:
        explorer.move({label: change.new})
        draw()

    def fill() -> None:
        sliders = []
        for label, one in explorer.handles.items():
            sliders.append(_slider(ipywidgets, one, explorer.values[label], explorer.settings.steps))
            sliders[-1].observe(partial(follow, label), "value")
        column.children = sliders
        draw()

    def choose(change: Any) -> None:
        explorer.show_experiment(change.new)
        fill()

    def restore(_: Any) -> None:
        explorer.reset()
        fill()

    chosen.observe(choose, "value")
    back.on_click(restore)
    fill()
    top = [chosen] if len(names) > 1 else []
    controls = ipywidgets.VBox([*top, column, ipywidgets.HBox([back, words])])
    return ipywidgets.VBox([image, controls])


def _slider(ipywidgets: Any, one: Handle, value: float, steps: int) -> Any:
    """A slider with the label of its unknown; logarithmic where the unknown is."""
    shown = {
        "description": f"{one.label} ({one.unit})" if one.unit else one.label,
        "readout_format": ".4g",
        "layout": ipywidgets.Layout(width="42em", max_width="100%"),
        "style": {"description_width": "14em"},
    }
    value = min(max(value, one.low), one.high)
    if one.log:
        low, high = log10(one.low), log10(one.high)
        return ipywidgets.FloatLogSlider(value, min=low, max=high, step=(high - low) / steps, **shown)
    step = (one.high - one.low) / steps
    return ipywidgets.FloatSlider(value, min=one.low, max=one.high, step=step, **shown)
