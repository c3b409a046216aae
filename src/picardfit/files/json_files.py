"""JSON files: written whole or not at all, with lists of numbers on one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

from picardfit.errors import InputError, did_you_mean_file


def write_text(path: str | Path, text: str) -> Path:
    """Write a whole file or nothing: into a temporary file beside it, which then takes its place."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"`{path}` is a folder: give the name of a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"The folder `{path.parent}` does not exist: create it first.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"`{path}` cannot be written ({error.strerror}): choose another place.") from None
    finally:
        temporary.unlink(missing_ok=True)
    return path


def read_json(path: Path) -> object:
    """What stands in the file; bare NaN and Infinity are not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except FileNotFoundError:
        raise InputError(
            f"There is no file `{path}`: check the name and the folder.{did_you_mean_file(path)}"
        ) from None
    except OSError as error:
        raise InputError(
            f"`{path}` cannot be read ({error.strerror}): check the name and its rights."
        ) from None
    except (ValueError, RecursionError):
        raise InputError(f"`{path}` is not valid JSON: give a file that fit.save wrote.") from None


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
