"""Script files: TOML always, YAML where PyYAML is installed, and those that ship."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from paceline.runtime.scripts.document import Script, ScriptError, read_script

_SHIPPED = Path(__file__).parent / "shipped"
_YAML = frozenset({".yaml", ".yml"})
_ENDINGS = _YAML | {".toml"}


def shipped_scripts() -> dict[str, Path]:
    """The scripts that come with Paceline, by name."""
    return {path.stem: path for path in sorted(_SHIPPED.glob("*.toml"))}


def load_scripts(paths: Iterable[Path]) -> list[Script]:
    """The scripts of files and folders, and of names that ship, in their order.

    Raises ScriptError, naming file, key and reason.
    """
    found: list[Script] = []
    for path in paths:
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.suffix in _ENDINGS)
            if not files:
                raise ScriptError(f"{path}: no script in this folder")
            found += [_load(file) for file in files]
        else:
            found.append(_load(path))
    return found


def _load(path: Path) -> Script:
    shipped = shipped_scripts()
    if not path.exists() and str(path) in shipped:
        path = shipped[str(path)]
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        known = ", ".join(shipped)
        raise ScriptError(f"{path}: {error.strerror or error}; shipped are {known}") from None
    except UnicodeDecodeError as error:
        raise ScriptError(f"{path}: is not UTF-8: {error}") from None
    return read_script(_parse(path, text), str(path), path.stem)


def _parse(path: Path, text: str) -> Any:
    if path.suffix not in _YAML:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ScriptError(f"{path}: is not TOML: {error}") from None
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise ScriptError(f"{path}: reading YAML needs PyYAML: install paceline[yaml]") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ScriptError(f"{path}: is not YAML: {error}") from None
