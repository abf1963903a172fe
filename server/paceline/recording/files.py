"""Recordings on disk: a folder with a file an exchange, or one file with a line an exchange.

What is there is whole: a file appears under its name when it is complete, and of a file of lines a
last one that a crash cut short is passed over in reading and cut off in writing.
"""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path
from typing import BinaryIO, Protocol

from paceline.recording.document import DocumentError, Exchange, from_json, to_line, to_page
from paceline.runtime.toml_files import FileError

LINES_SUFFIX = ".jsonl"

log = logging.getLogger("paceline")


class RecordingError(FileError):
    """A recording that can't be read or written; `key` is the line, where there are lines."""


class Writer(Protocol):
    """Where exchanges go. Not thread-safe: one thread at a time."""

    def write(self, exchange: Exchange) -> Path:
        """Keep an exchange, on the disk when this returns; says where. Raises OSError."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


def open_writer(path: Path) -> Writer:
    """A writer for a folder, or for a file of lines where the name ends with `.jsonl`.

    Adds to what is there. Raises RecordingError.
    """
    try:
        if path.suffix == LINES_SUFFIX:
            return _Lines(path)
        return _Folder(path)
    except FileExistsError:
        reason = f"is a file, and its name doesn't end with {LINES_SUFFIX}: name a folder"
        raise RecordingError(path, "", reason) from None
    except OSError as error:
        raise RecordingError(path, "", error.strerror or str(error)) from None


def load(path: Path) -> list[Exchange]:
    """Every exchange of a folder or a file, in the order of recording.

    Raises RecordingError, also where there is none.
    """
    try:
        if path.is_dir():
            files = sorted(p for p in path.iterdir() if p.suffix in (".json", LINES_SUFFIX))
        else:
            files = [path]
        found = [exchange for file in files for exchange in _read(file)]
    except OSError as error:
        raise RecordingError(
            Path(error.filename or path), "", error.strerror or str(error)
        ) from None
    if not found:
        raise RecordingError(path, "", "there is no recorded exchange")
    return found


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(parents=True, exist_ok=True)
        numbers = (re.match(r"\d+", file.name) for file in path.glob("*.json"))
        self._count = max((int(found[0]) for found in numbers if found), default=0)

    def write(self, exchange: Exchange) -> Path:
        self._count += 1
        request = exchange.request
        slug = re.sub(r"[^a-z0-9]+", "-", f"{request.method}{request.path}".lower()).strip("-")
        final = self._path / f"{self._count:05d}-{slug[:60]}.json"
        partial = final.with_suffix(".partial")
        with partial.open("wb") as file:
            file.write(to_page(exchange).encode())
            file.flush()
            os.fsync(file.fileno())
        partial.rename(final)
        return final

    def close(self) -> None:
        pass


class _Lines:
    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _cut_torn_end(path)
        self._file: BinaryIO = path.open("ab")

    def write(self, exchange: Exchange) -> Path:
        self._file.write(to_line(exchange).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._path

    def close(self) -> None:
        self._file.close()


def _cut_torn_end(path: Path) -> None:
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        log.warning("%s: the last line was cut short and goes", path)
        os.truncate(path, whole)


def _read(path: Path) -> list[Exchange]:
    data = path.read_bytes()
    if path.suffix != LINES_SUFFIX:
        return [_parse(data, path, "")]
    *lines, rest = data.split(b"\n")
    if rest:
        log.warning("%s: the last line was cut short and is passed over", path)
    return [
        _parse(line, path, f"line {number}") for number, line in enumerate(lines, 1) if line.strip()
    ]


def _parse(data: bytes, path: Path, line: str) -> Exchange:
    name = f"{path.name} {line}".strip()
    try:
        return from_json(json.loads(data), name)
    except DocumentError as error:
        raise RecordingError(path, line, str(error)) from None
    except (ValueError, RecursionError) as error:
        raise RecordingError(path, line, f"is not JSON: {error}") from None
