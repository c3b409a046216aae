"""Columns of tables and the observables that they hold: names are compared without case, blanks and units."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from picardfit.errors import InputError, Notice, closest
from picardfit.problem.experiment import Experiment

_IGNORED = ("problem.column_ignored", "problem.columns_ignored")  # of one column, of several
_UNREAD = ("problem.column_unread", "problem.columns_unread")
_UNIT = re.compile(r"(?<=.)\s*[(\[]([^(\[]*)[)\]]$")  # at the end of a header: theta [rad], time (h)


def without_unit(header: str) -> str:
    """`theta` of `theta [rad]`."""
    return _UNIT.sub("", header.strip())


def unit_in(header: str) -> str:
    """`rad` of `theta [rad]`; an empty text without a unit."""
    found = _UNIT.search(header.strip())
    return found.group(1).strip() if found else ""


def plain_name(name: str) -> str:
    """A name for comparisons: without regard to case, blanks, underscores, hyphens and a unit at its end."""
    return re.sub(r"[\s_-]", "", without_unit(name)).lower()


def find_name(names: Iterable[str], name: str) -> str | None:
    """The exact name, or else the only one that differs from it in case, blanks or a unit alone."""
    if name in (names := list(names)):
        return name
    for spelled in (str.casefold, plain_name):
        same = [one for one in names if spelled(one) == spelled(str(name).strip())]
        if same:
            return same[0] if len(same) == 1 else None
    return None


def observed(columns: Sequence[str], observables: Sequence[str]) -> dict[str, str]:
    """column -> the observable that it holds, for the columns that hold one.

    A column has the name of an observable, or is the only one that differs from it in case, blanks or a unit alone.
    """
    found = {column: column for column in columns if column in observables}
    known = [plain_name(name) for name in observables]
    for name, plain in zip(observables, known, strict=True):
        alike = [column for column in columns if column not in found and plain_name(column) == plain]
        if name in found or known.count(plain) > 1 or not alike:
            continue
        if len(alike) > 1:
            raise InputError("problem.columns_alike", name, key=("data",), columns=alike)
        found[alike[0]] = name
    return {column: found[column] for column in columns if column in found}


def columns_ignored(columns: Sequence[str], table: str, observables: Sequence[str] = ()) -> Notice:
    """The remark that nothing uses these columns; `table`: the name of its file, or empty.

    `observables` that no column holds: if one has a similar name, it may have been meant.
    """
    close = next(filter(None, (closest(column, observables) for column in columns)), "")
    return Notice(_IGNORED[len(columns) > 1], table, {"columns": list(columns), "close": close})


def columns_unread(columns: Sequence[str], table: str) -> Notice:
    """The remark that these columns are not read because not all of their cells are numbers."""
    return Notice(_UNREAD[len(columns) > 1], table, {"columns": list(columns)})


def used_columns(experiments: Sequence[Experiment], observables: Sequence[str]) -> tuple[Experiment, ...]:
    """The experiments with columns that the model and its noise use only, where they were read from tables.

    Other columns go, with one remark for a table; so do experiments in which nothing else was measured. A table
    without a single observable stays as it is, for the check that follows. InputError, with the cell, for a column
    that is used and could not be read.
    """
    tables = dict.fromkeys(one.table for one in experiments if one.table is not None)
    for table in tables:
        experiments = _used_columns(experiments, table, observables)
    return tuple(experiments)


def _used_columns(
    experiments: Sequence[Experiment], table: str, observables: Sequence[str]
) -> Sequence[Experiment]:
    members = [one for one in experiments if one.table == table]
    columns = list(dict.fromkeys(name for one in members for name in one.observables))
    unread = {name: why for one in members if one.lines is not None for name, why in one.lines.unread.items()}
    found = observed([*columns, *unread], observables)
    for column in unread:
        if column in found:
            raise unread[column]
    if not found:
        return experiments
    kept, gone = [], []
    for one in members:
        own = {found[column]: values for column, values in one.observations.items() if column in found}
        if np.isfinite(one.values[:, [column in found for column in one.observables]]).any():
            lines = None if one.lines is None else one.lines.renamed(found)
            kept.append(replace(one, observations=own, table=None, remarks=(), lines=lines))
        else:
            gone.append(one.name)
    missing = [name for name in observables if name not in found.values()]
    remarks = _joined_remarks(members, table, [column for column in columns if column not in found], missing)
    if gone:
        remarks.append(Notice("problem.experiments_ignored", table, {"experiments": gone}))
    kept[0] = replace(kept[0], remarks=tuple(remarks))
    made = {one.name: one for one in kept}
    return [made.get(one.name, one) for one in experiments if one.name not in gone]


def _joined_remarks(
    members: Sequence[Experiment], table: str, ignored: Sequence[str], missing: Sequence[str]
) -> list[Notice]:
    """The remarks of the experiments of a table, with a single one about columns that are ignored, these among them."""
    remarks = [remark for one in members for remark in one.remarks]
    before = [remark for remark in remarks if remark.code in (*_IGNORED, *_UNREAD)]
    every = [str(name) for remark in before for name in cast(list[object], remark.values["columns"])]
    every += ignored
    others = [remark for remark in remarks if remark not in before]
    return [columns_ignored(every, table, missing), *others] if every else others
