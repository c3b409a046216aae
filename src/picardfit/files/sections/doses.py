"""Doses and covariates in a problem file."""

from __future__ import annotations

from collections.abc import Mapping

from picardfit.checks import as_number
from picardfit.errors import Key
from picardfit.files.toml_source import Source, kind_of, schema
from picardfit.model.doses import Doses
from picardfit.problem.calendar import Calendar, number_of, times_of


def read_doses(source: Source, key: Key, given: object, calendar: Calendar | None) -> tuple[Doses, ...]:
    """One table or several with `into`, `times`, `amounts` and perhaps `duration`.

    `calendar`: that of a date as the origin, in which dates of the file count.
    """
    if given is None:
        return ()
    several = given if isinstance(given, list) else [given]
    found = []
    for k, one in enumerate(several):
        here: Key = (*key, k) if isinstance(given, list) else key
        table = source.known(here, one, schema()["definitions"]["doses"]["properties"])
        lacking = [name for name in ("into", "times", "amounts") if name not in table]
        if lacking:
            source.fault(here, "files.doses_incomplete", lacking[0])
            continue
        values = table["amounts"], table["into"], table.get("duration", 0.0)
        times = source.attempt((*here, "times"), _times, table["times"], calendar)
        doses = None if times is None else source.attempt(here, Doses, times, *values)
        found += [] if doses is None else [doses]
    return tuple(found)


def read_dose(source: Source, key: Key, given: object) -> tuple[str, str] | None:
    """`{ column = "Dose (mg)", into = "gut" }` of a data file: the column of amounts, and the state they go into."""
    if given is None:
        return None
    table = source.known(key, given, ("column", "into"))
    found = [source.text((*key, name), table.get(name)) for name in ("column", "into")]
    if isinstance(given, dict) and not all(found):
        source.fault(key, "files.dose_column")
    return (found[0], found[1]) if found[0] and found[1] else None


def _times(given: object, calendar: Calendar | None) -> object:
    """Times of doses, with numbers in place of dates where the calendar is known before the data are read."""
    if calendar is None:
        return given
    one = number_of(given, calendar)
    return times_of(given, calendar) if one is given else one


def read_covariates(source: Source, key: Key, given: object) -> dict[str, float]:
    """name -> number, the constants of an experiment."""
    values = {
        name: source.attempt((*key, name), as_number, value, "covariate", name)
        for name, value in source.table(key, given).items()
    }
    return {name: value for name, value in values.items() if value is not None}


def covariate_names(source: Source, content: Mapping[str, object]) -> tuple[str, ...]:
    """All covariates of a file: columns of its data, and what single experiments give."""
    found = list(source.texts(("covariates",), content.get("covariates")) or ())
    many = content.get("data")
    for one in many if isinstance(many, list) else [many]:
        columns = one.get("covariates") if isinstance(one, dict) else None
        found += [name for name in columns if isinstance(name, str)] if isinstance(columns, list) else []
    for section in ("experiments", "candidates"):
        tables = content.get(section)
        for table in tables.values() if isinstance(tables, dict) else ():
            own = table.get("covariates") if isinstance(table, dict) else None
            found += list(own) if isinstance(own, dict) else []
    return tuple(dict.fromkeys(found))


def given_by_experiments(content: Mapping[str, object]) -> set[str]:
    """The covariates that single experiments give, which need no column of the data."""
    tables = content.get("experiments")
    inside = tables.values() if isinstance(tables, dict) else ()
    return {n for one in inside if isinstance(one, dict) for n in _names(one.get("covariates"))}


def _names(value: object) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def names_by_cell(source: Source, key: Key, given: object) -> dict[str, str] | str | None:
    """`{ 1 = "gut" }` or "gut", for compartments and observables of NONMEM's tables; 1 may be a name too."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], str):
        return given[0]
    table = given if isinstance(given, dict) else {}
    if not table or not all(isinstance(one, str) for one in table.values()):
        source.fault(key, "files.nonmem_names", str(key[-1]), value=given, kind=kind_of(given))
        return None
    return table
