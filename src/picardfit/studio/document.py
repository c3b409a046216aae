"""Changes of a problem file that keep what a person wrote there: comments, order, spelling of numbers.

Every function takes the text of the file and returns the changed text. Nothing is checked here: what is wrong with a
file is said when it is read.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Item

from picardfit.errors import InputError
from picardfit.studio.settings import DEFAULT, StudioSettings

Path = tuple[str, ...]


def new(title: str) -> str:
    """A problem file in which nothing has been said yet."""
    return tomlkit.dumps({"title": title}) + '\nequations = """\n"""\n'


def parsed(text: str) -> tomlkit.TOMLDocument:
    """The document; InputError where the text is not TOML, which only the text itself can mend."""
    try:
        return tomlkit.parse(text)
    except (TOMLKitError, ValueError) as error:
        raise InputError("studio.not_toml", reason=str(error)) from None


def plain(text: str) -> dict[str, Any]:
    """The content of the file as plain values; empty where it is not TOML."""
    try:
        return tomllib.loads(text)
    except ValueError:
        return {}


def value_at(text: str, *path: str) -> Any:
    """A value of the file; None where there is none."""
    found: Any = plain(text)
    for name in path:
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found


def with_value(text: str, path: Path, value: object) -> str:
    """Set an entry, or remove it with None; tables on the way are made, and those left empty go."""
    document = parsed(text)
    if value is None:
        _remove(document, path)
    else:
        _set(document, path, value)
    return tomlkit.dumps(document)


def _set(holder: Any, path: Path, value: object) -> None:
    *way, last = path
    for name in way:
        if not isinstance(holder.get(name), Mapping):
            holder[name] = tomlkit.table()
        holder = holder[name]
    if holder.get(last) != value or type(holder.get(last)) is bool:
        holder[last] = _item(value)


def _remove(holder: Any, path: Path) -> None:
    name, *rest = path
    if not hasattr(holder, "keys") or name not in holder:
        return
    if rest:
        _remove(holder[name], tuple(rest))
    if not rest or (isinstance(holder[name], Mapping) and not holder[name]):
        del holder[name]


def _item(value: object) -> Item:
    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        for name, one in value.items():
            table.append(name, _item(one))
        return table
    if isinstance(value, list | tuple):
        inside = ", ".join(_item(one).as_string() for one in value)
        # items put in one by one would take the square of their number
        return cast(Item, tomlkit.parse(f"it = [{inside}]").item("it"))
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return tomlkit.item(int(value))
    return tomlkit.item(value)


# ---- equations -----------------------------------------------------------------------------------------------------


def equations_of(text: str) -> str:
    """The equations as they are edited: without the line break at their end."""
    found = value_at(text, "equations")
    return found.removesuffix("\n") if isinstance(found, str) else ""


def with_equations(text: str, equations: str) -> str:
    """Set the equations, a text of several lines."""
    inside = equations.replace("\r", "").replace("\\", "\\\\").replace('"', '\\"')
    inside = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", inside)
    document = parsed(text)
    document["equations"] = tomlkit.parse(f'it = """\n{inside}\n"""')["it"]
    return tomlkit.dumps(document)


def with_parameters(text: str, needed: Sequence[str], settings: StudioSettings = DEFAULT) -> str:
    """Give every parameter without an entry wide bounds, and drop such entries where nothing needs them any more."""
    given = value_at(text, "parameters") or {}
    if not isinstance(given, Mapping):
        return text
    wide = wide_bounds(settings)
    for name in [one for one, value in given.items() if value == wide and one not in needed]:
        text = with_value(text, ("parameters", name), None)
    for name in needed:
        if name not in given:
            text = with_value(text, ("parameters", name), wide)
    return text


def wide_bounds(settings: StudioSettings = DEFAULT) -> dict[str, object]:
    """What a parameter gets of which nothing is known but that it is positive."""
    return {"lower": settings.lower, "upper": settings.upper, "log": True}


# ---- beliefs about single numbers ----------------------------------------------------------------------------------


def belief_of(value: object) -> dict[str, Any]:
    """An entry of [parameters] or [initial] as a table: a number is fixed, a pair are bounds, a text is a formula."""
    if isinstance(value, Mapping):
        found = dict(value)
        bounds = found.pop("bounds", None)
        if isinstance(bounds, list) and len(bounds) == 2:
            found |= {"lower": bounds[0], "upper": bounds[1]}
        return found
    if isinstance(value, list) and len(value) == 2:
        return {"lower": value[0], "upper": value[1]}
    if isinstance(value, str):
        return {"formula": value}
    return {} if value is None else {"fixed": value}


def with_belief(text: str, path: Path, **changes: object) -> str:
    """Change fields of an entry of [parameters] or [initial]; None removes a field.

    A table stays a table, so that its comments and order are kept; a bare number or pair becomes a table only where a
    field needs one.
    """
    now = value_at(text, *path)
    wanted = {**belief_of(now), **changes}
    wanted = {name: one for name, one in wanted.items() if one is not None}
    if isinstance(now, Mapping) and "formula" not in wanted:
        if "bounds" in now and ("lower" in changes or "upper" in changes):
            text = with_value(text, (*path, "bounds"), None)
            changes = {"lower": wanted.get("lower"), "upper": wanted.get("upper"), **changes}
        for name, value in changes.items():
            text = with_value(text, (*path, name), value)
        return text if wanted else with_value(text, path, None)
    if set(wanted) == {"fixed"}:
        return with_value(text, path, wanted["fixed"])
    if set(wanted) == {"lower", "upper"}:
        return with_value(text, path, [wanted["lower"], wanted["upper"]])
    if "formula" in wanted:
        return with_value(text, path, wanted["formula"])
    return with_value(text, path, wanted or None)


# ---- data ----------------------------------------------------------------------------------------------------------


def data_files(text: str) -> list[dict[str, Any]]:
    """The settings of every data file."""
    given = value_at(text, "data")
    listed = given if isinstance(given, list) else [] if given is None else [given]
    return [
        {"file": one} if isinstance(one, str) else dict(one) if isinstance(one, Mapping) else {}
        for one in listed
    ]


def data_of(text: str, number: int = 0) -> dict[str, Any]:
    """The settings of a data file; empty without one."""
    listed = data_files(text)
    return listed[number] if number < len(listed) else {}


def with_data(text: str, number: int = 0, **changes: object) -> str:
    """Change settings of a data file; None removes one."""
    given = value_at(text, "data")
    several = isinstance(given, list)
    if not several and isinstance(given, Mapping):
        for name, value in changes.items():
            text = with_value(text, ("data", name), value)
        return text
    spec = {name: one for name, one in {**data_of(text, number), **changes}.items() if one is not None}
    value = spec["file"] if set(spec) == {"file"} else spec or None
    if not several:
        return with_value(text, ("data",), value)
    return _with_listed(text, number, value)


def _with_listed(text: str, number: int, value: Any) -> str:
    """Put a data file into the list, at its end or in the place of another; None takes that out."""
    document = parsed(text)
    array: Any = document["data"]
    if isinstance(array, AoT):
        if value is None:
            del array[number]
        else:
            table = tomlkit.table()
            table.update({"file": value} if isinstance(value, str) else value)
            if number < len(array):
                array[number] = table
            else:
                array.append(table)
    elif value is None:
        del array[number]
    elif number < len(array):
        array[number] = _item(value)
    else:
        array.append(_item(value))
    return tomlkit.dumps(document)


def with_another_file(text: str, file: str) -> str:
    """Add a data file, unless it is one already."""
    listed = data_files(text)
    if any(one.get("file") == file for one in listed):
        return text
    if not listed:
        return with_value(text, ("data",), file)
    if isinstance(value_at(text, "data"), list):
        return _with_listed(text, len(listed), file)
    first = listed[0]["file"] if set(listed[0]) == {"file"} else listed[0]
    text = with_value(text, ("data",), None)
    return with_value(text, ("data",), [first, file])


def without_file(text: str, number: int) -> str:
    """Take a data file out; the file itself stays in the folder."""
    if len(data_files(text)) < 2 or not isinstance(value_at(text, "data"), list):
        return with_value(text, ("data",), None)
    return _with_listed(text, number, None)


def with_inputs(text: str, columns: Iterable[str], header: Collection[str]) -> str:
    """Make exactly these columns of a table with this header inputs, called like them; other inputs stay."""
    given = value_at(text, "inputs")
    if isinstance(given, list):
        return with_value(text, ("inputs",), [*(one for one in given if one not in header), *columns] or None)
    wanted = dict.fromkeys(columns)
    for name, one in (given or {}).items():
        column = one.get("column") if isinstance(one, Mapping) else None
        if column in header and column not in wanted:
            text = with_value(text, ("inputs", name), None)
        wanted.pop(str(column), None)
    for column in wanted:
        text = with_value(text, ("inputs", identifier(column)), {"column": column})
    return text


def identifier(column: str) -> str:
    """A name for formulas made of the header of a column: `body_weight` of `Body weight (kg)`."""
    bare = re.sub(r"\s*[(\[].*[)\]]\s*$", "", column.strip())
    name = re.sub(r"\W+", "_", bare).strip("_") or "input"
    return f"x{name}" if name[0].isdigit() else name


def dose_of(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The column of a data file that holds doses, and the state they go into; empty without one."""
    found = spec.get("dose")
    return found if isinstance(found, Mapping) else {}


def without_doses(text: str, among: Collection[str]) -> str:
    """Take the doses of these experiments out."""
    given = value_at(text, "experiments")
    for name, one in (given if isinstance(given, Mapping) else {}).items():
        if isinstance(one, Mapping) and "doses" in one and name in among:
            text = with_value(text, ("experiments", name, "doses"), None)
    return text
