"""TOML files of numbers, those that ship and others: found, read, and refused with a reason."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parent.parent
_CHECKOUT = Path(__file__).parents[3]


class FileError(ValueError):
    """A file that can't be used: which file, which key, and why."""

    def __init__(self, path: Path | None, key: str, reason: str) -> None:
        where = f"{path}: " if path is not None else ""
        super().__init__(f"{where}{key}: {reason}" if key else f"{where}{reason}")
        self.path = path
        self.key = key
        self.reason = reason


def read_toml(
    path: Path, refused: type[FileError], *, parse_float: Callable[[str], Any] = float
) -> dict[str, Any]:
    """A file's document. Raises `refused`."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"), parse_float=parse_float)
    except OSError as error:
        raise refused(path, "", error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise refused(path, "", "is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise refused(path, "", f"is not TOML: {error}") from error


def files_of(path: Path, refused: type[FileError]) -> list[Path]:
    """The file itself, or every `*.toml` of a folder in order of name; raises for an empty one."""
    files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
    if not files:
        raise refused(path, "", "the folder holds no .toml file")
    return files


def shipped(name: str) -> Path:
    """Where what comes with this program lies: in the package (`_name`), or beside a checkout's."""
    packaged = _PACKAGE / f"_{name}"
    return packaged if packaged.is_dir() else _CHECKOUT / name
