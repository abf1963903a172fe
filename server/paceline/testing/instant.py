"""Profiles without their waiting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from paceline.core.profile import Profile
from paceline.runtime.profile_files import ProfileRegistry


class InstantRegistry(ProfileRegistry):
    """The profiles of another registry, each answering at once; names and limits stay."""

    def __init__(self, registry: ProfileRegistry) -> None:
        self._made: dict[str, Profile] = {}
        self._of = registry

    def get(self, name: str) -> Profile | None:
        """The profile of a name, an alias or a virtual name; None when there is none."""
        found = self._of.get(name)
        return None if found is None else self._instant(found)

    def profiles(self) -> tuple[Profile, ...]:
        """The profiles that have a file, by name."""
        return tuple(map(self._instant, self._of.profiles()))

    def names(self) -> dict[str, Profile]:
        """Every name that is served, aliases included, with the profile it leads to."""
        return {name: self._instant(found) for name, found in self._of.names().items()}

    def close_names(self, name: str, count: int = 3) -> list[str]:
        """Served names that look like `name`."""
        return self._of.close_names(name, count)

    def replace(self, user: Iterable[Profile]) -> None:
        """Put other user profiles in place of the present ones."""
        self._of.replace(user)
        self._made.clear()

    def reload(self, paths: Sequence[Path]) -> None:
        """Read the user's files again."""
        self._of.reload(paths)
        self._made.clear()

    def _instant(self, profile: Profile) -> Profile:
        made = self._made.get(profile.name)
        if made is None:
            made = self._made[profile.name] = replace(profile, kind="instant")
        return made
