"""Profiles on disk, and the registry that finds one by any of its names.

Shipped profiles lie in the package (`_profiles`) or, in a checkout, in the repository's
`profiles/`. People add their own by file or folder. Beside the files there are two families
without one: `flat-RATE`, which ticks at that rate and knows no load, and `instant`.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Container, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from paceline.core.profile import Engine, Limits, PrefixCache, Profile, ProfileError
from paceline.core.profile_document import parse_profile
from paceline.core.sources import Source
from paceline.runtime.toml_files import FileError, files_of, read_toml, shipped

MAX_FLAT_RATE = 1e6
"""Fastest `flat-RATE`, in tokens a second."""

_FLAT = re.compile(r"flat-([0-9]{1,7}(?:\.[0-9]{1,6})?)")
_FLAT_KEPT = 256
_AS_ASKED = Source("hypothesis", "as the caller asked; it stands for no hardware")
_VIRTUAL_LIMITS = Limits(context_tokens=10_485_760, max_output_tokens=1_048_576)


class ProfileFileError(FileError):
    """A profile file that can't be used: which file, which key, and why."""


def load_profile_file(path: Path) -> Profile:
    """Read one profile. Raises ProfileFileError."""
    data = read_toml(path, ProfileFileError)
    try:
        profile = parse_profile(data)
    except ProfileError as error:
        raise ProfileFileError(path, error.key, error.reason) from error
    for name in (profile.name, *profile.models):
        if is_virtual(name):
            raise ProfileFileError(path, "name", f"{name!r} is a name that needs no file")
    return profile


def load_profiles(paths: Iterable[Path]) -> list[Profile]:
    """Read files, and every `*.toml` of folders, in order of name. Raises ProfileFileError."""
    found: list[Profile] = []
    origin: dict[str, Path] = {}
    for path in paths:
        for file in files_of(path, ProfileFileError):
            profile = load_profile_file(file)
            for name in (profile.name, *profile.models):
                if name in origin:
                    raise ProfileFileError(file, "name", f"{name!r} is taken by {origin[name]}")
            origin.update(dict.fromkeys((profile.name, *profile.models), file))
            found.append(profile)
    return found


def shipped_folder() -> Path:
    """Where the profiles that come with this program lie."""
    return shipped("profiles")


def is_virtual(name: str) -> bool:
    """Whether the name needs no file: `flat-RATE` or `instant`."""
    return virtual_profile(name) is not None


def virtual_profile(name: str) -> Profile | None:
    """The profile of a name that needs no file; None for any other name.

    `flat-RATE` takes a rate above 0 and up to a million tokens a second, in plain decimals
    (`flat-40`, `flat-1250.5`); its first token comes at once unless the request asks otherwise.
    """
    if name == "instant":
        return Profile(
            name=name,
            title="No delay at all",
            engine=Engine(step_ms=0.001),
            limits=_VIRTUAL_LIMITS,
            prefix_cache=PrefixCache(enabled=False),
            notes="Every token is due at once.",
            sources={"engine": _AS_ASKED, "limits": _AS_ASKED, "prefix_cache": _AS_ASKED},
            kind="instant",
        )
    match = _FLAT.fullmatch(name)
    if match is None:
        return None
    rate = float(match[1])
    if not 0.0 < rate <= MAX_FLAT_RATE or not math.isfinite(1000.0 / rate):
        return None
    canonical = f"flat-{int(rate) if rate.is_integer() else rate!r}"
    return Profile(
        name=canonical,
        title=f"A steady {canonical.removeprefix('flat-')} tokens a second, whatever the load",
        engine=Engine(step_ms=1000.0 / rate),
        limits=_VIRTUAL_LIMITS,
        prefix_cache=PrefixCache(enabled=False),
        notes="No queue, no prefill, no limit to how many run at once.",
        sources={"engine": _AS_ASKED, "limits": _AS_ASKED, "prefix_cache": _AS_ASKED},
        kind="flat",
    )


class ProfileRegistry:
    """Every profile that the server can take, by name and by alias.

    Names are case-sensitive. A user's profile replaces a shipped one of the same name, and takes
    a name from a shipped one that only had it as an alias.
    """

    def __init__(self, shipped: Iterable[Profile], user: Iterable[Profile] = ()) -> None:
        self._shipped = tuple(shipped)
        self._flat: OrderedDict[str, Profile] = OrderedDict()
        self._profiles: dict[str, Profile] = {}
        self._names: dict[str, Profile] = {}
        self.replace(user)

    @classmethod
    def load(cls, paths: Sequence[Path] = ()) -> ProfileRegistry:
        """The shipped profiles and those of the given files and folders.

        Raises ProfileFileError.
        """
        return cls(load_profiles([shipped_folder()]), load_profiles(paths))

    def replace(self, user: Iterable[Profile]) -> None:
        """Put other user profiles in place of the present ones, all or nothing.

        Raises ProfileFileError, and then changes nothing, when two profiles claim one name or a
        tier is to be served by a profile that isn't there.
        """
        own = tuple(user)
        taken = _by_name(own)
        profiles = {p.name: p for p in self._shipped if p.name not in {q.name for q in own}}
        names = _by_name(profiles.values())
        names.update(taken)
        profiles.update({p.name: p for p in own})
        _check_tiers(profiles.values(), names)
        self._profiles = dict(sorted(profiles.items()))
        self._names = names

    def reload(self, paths: Sequence[Path]) -> None:
        """Read the user's files again, all or nothing. Raises ProfileFileError."""
        self.replace(load_profiles(paths))

    def get(self, name: str) -> Profile | None:
        """The profile of a name, an alias or a virtual name; None when there is none."""
        found = self._names.get(name) or self._flat.get(name)
        if found is None:
            found = virtual_profile(name)
            if found is not None:
                self._flat[name] = found
                # A client can invent flat rates without end.
                if len(self._flat) > _FLAT_KEPT:
                    self._flat.popitem(last=False)
        return found

    def profiles(self) -> tuple[Profile, ...]:
        """The profiles that have a file, by name."""
        return tuple(self._profiles.values())

    def names(self) -> dict[str, Profile]:
        """Every name that is served, aliases included, with the profile it leads to."""
        return dict(sorted(self._names.items()))

    def close_names(self, name: str, count: int = 3) -> list[str]:
        """Served names that look like `name`, for an error message."""
        return get_close_matches(name, self._names, n=count, cutoff=0.6)


def _check_tiers(profiles: Iterable[Profile], names: Container[str]) -> None:
    for profile in profiles:
        for tier, name in profile.tiers.items():
            if name not in names and not is_virtual(name):
                raise ProfileFileError(
                    None, f"{profile.name}: tiers.{tier}", f"there is no profile {name!r}"
                )


def _by_name(profiles: Iterable[Profile]) -> dict[str, Profile]:
    found: dict[str, Profile] = {}
    for profile in profiles:
        for name in (profile.name, *profile.models):
            other = found.setdefault(name, profile)
            if other is not profile:
                raise ProfileFileError(
                    None, "models", f"{name!r} is claimed by {other.name} and by {profile.name}"
                )
    return found
