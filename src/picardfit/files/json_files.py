"""JSON files, with lists of numbers on one line."""

from __future__ import annotations

import json
from pathlib import Path

from picardfit.errors import InputError, closest_file
from picardfit.whole_files import readable_path


def read_json(path: Path) -> object:
    """The content of a JSON file; bare NaN and Infinity are not JSON."""
    path = readable_path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except FileNotFoundError:
        raise InputError("files.no_fit_file", str(path), close=closest_file(path)) from None
    except OSError as error:
        raise InputError("files.unreadable_fit", str(path), reason=error.strerror) from None
    except (ValueError, RecursionError):
        raise InputError("files.not_json", str(path)) from None


def _refuse(word: str) -> None:
    raise ValueError(word)


def layout(value: object, indent: str = "") -> str:
    """JSON with one line for each entry of a dictionary and lists of numbers on one line."""
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        lines = [f"{deeper}{json.dumps(k)}: {layout(v, deeper)}" for k, v in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return "[\n" + ",\n".join(deeper + layout(one, deeper) for one in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)
