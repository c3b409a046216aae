"""Files, written whole or not at all, and paths that a system can hold.

Every writer of picardfit ends here. The content goes into a temporary file in the folder of the target, which then
takes the target's place: a full disk, a signal or a power cut leaves the earlier file as it was. A symbolic link is
followed to what it names, and what is not a regular file (a device, a pipe, a socket) is refused, because a
replacement would destroy it.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from pathlib import Path

from picardfit.errors import InputError

NAME_BYTES = (
    200  # of a target's name in that of its temporary file: systems allow 255, and an ending is added
)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text as UTF-8; what UTF-8 cannot hold (half of a surrogate pair) becomes an escape."""
    return write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_bytes(path: str | Path, content: bytes) -> Path:
    """Write a whole file or nothing, and return its path as it was given."""
    target = regular_target(path)
    try:
        _replace(target, content)
    except OSError as error:
        raise InputError("files.not_writable", str(path), reason=error.strerror) from None
    return Path(path)


def make_folder(path: str | Path) -> Path:
    """The folder, created with those above it where they are missing."""
    try:
        sound_path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("files.folder", str(path), reason=error.strerror) from None
    return Path(path)


def regular_target(path: str | Path) -> Path:
    """The file that a path leads to through all links: one that exists and is regular, or a new one in a folder."""
    try:
        target = sound_path(path).resolve()
        kind = _kind(target)
        if kind is None:
            if not target.parent.is_dir():
                raise InputError("files.no_folder", _parent(path, target))
        elif stat.S_ISDIR(kind):
            raise InputError("files.is_a_folder", str(path))
        elif not stat.S_ISREG(kind):
            raise InputError("files.not_regular", str(path), kind=kind_words(kind))
        elif not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (OSError, RuntimeError) as error:  # pathlib raises a RuntimeError for links that lead in a circle
        reason = getattr(error, "strerror", None) or "its links lead in a circle"
        raise InputError("files.not_writable", str(path), reason=reason) from None
    return target


def readable_path(path: str | Path) -> Path:
    """A path to read from: InputError for a device, pipe or socket, which may have no end or never begin."""
    path = sound_path(path)
    try:
        kind = os.stat(path).st_mode
    except OSError:  # the reader says what is wrong
        return path
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise InputError("files.endless", printable(path), kind=kind_words(kind))
    return path


def sound_path(path: str | Path) -> Path:
    """The path, unless no file can have it: InputError for a null character and for names that are too long."""
    path = Path(path)
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except ValueError:  # a null character, or half of a surrogate pair
        raise InputError("files.impossible_name", printable(path)) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError("files.long_name", printable(path)) from None
    return path


def printable(path: str | Path, longest: int = 80) -> str:
    """A path for a message: without control characters and surrogates, and at most `longest` characters."""
    text = "".join(one if one.isprintable() else "?" for one in str(path))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def kind_words(mode: int) -> str:
    """What a file that is not regular is, in words."""
    kinds = {
        stat.S_ISCHR: "a device",
        stat.S_ISBLK: "a device",
        stat.S_ISFIFO: "a pipe",
        stat.S_ISSOCK: "a socket",
    }
    return next((words for is_kind, words in kinds.items() if is_kind(mode)), "not a regular file")


def _kind(target: Path) -> int | None:
    """The mode of a file; None if there is none."""
    try:
        return os.lstat(target).st_mode
    except FileNotFoundError:
        return None


def _parent(path: str | Path, target: Path) -> str:
    """The folder that is missing, as it was written; behind a link, the folder that the link leads to."""
    return str(target.parent if os.path.islink(path) else Path(path).parent)


def _replace(target: Path, content: bytes) -> None:
    """Write a temporary file beside the target, wait for the disk, and let it take the target's place.

    An existing file keeps its permissions; a new one gets those of the process.
    """
    stem = os.fsdecode(os.fsencode(target.name)[:NAME_BYTES])
    temporary = target.with_name(f".{stem}.{uuid.uuid4().hex[:12]}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if (mode := _kind(target)) is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
