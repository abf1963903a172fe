"""From a deployment's points to its profile, and how well profiles do on points held out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from paceline.core.profile import Profile
from paceline.fit.document import Document, document_of
from paceline.fit.points import Point, quantile
from paceline.fit.predict import predict
from paceline.fit.search import Fitted, Known, Search, factor_of
from paceline.fit.surface import sites_of


@dataclass(frozen=True, slots=True)
class FittedProfile:
    """A fit and the profile that it makes."""

    fitted: Fitted
    document: Document
    profile: Profile

    def predict(self, point: Point) -> tuple[float, float]:
        """Mean TTFT and TPOT (ms) that the profile gives in a point's closed loop."""
        return predict(self.profile, point, self.fitted.spare_users)


@dataclass(slots=True)
class Errors:
    """Relative errors |predicted / measured - 1| of points."""

    tpot: list[float] = field(default_factory=list)
    ttft: list[float] = field(default_factory=list)

    def add(self, fit: FittedProfile, points: Iterable[Point]) -> None:
        """Predict points, and note how far off each is."""
        for point in points:
            ttft_ms, tpot_ms = fit.predict(point)
            if point.tpot_ms:
                self.tpot.append(abs(tpot_ms / point.tpot_ms - 1.0))
            if point.ttft_ms:
                self.ttft.append(abs(ttft_ms / point.ttft_ms - 1.0))

    def merge(self, other: Errors) -> None:
        """Take in another's errors."""
        self.tpot += other.tpot
        self.ttft += other.ttft

    def to_json(self) -> dict[str, float | None]:
        """Medians and 90th percentiles, as fractions; None where nothing was measured."""
        return {
            "tpot_median": quantile(self.tpot, 0.5),
            "tpot_p90": quantile(self.tpot, 0.9),
            "ttft_median": quantile(self.ttft, 0.5),
            "ttft_p90": quantile(self.ttft, 0.9),
        }


def fit_points(
    points: list[Point],
    known: Known | None = None,
    *,
    name: str = "fitted",
    title: str = "",
    origin: str = "measured points",
    accuracy: dict[str, str] | None = None,
) -> FittedProfile:
    """Fit at least one point. `origin` says in the profile's sources what the points are.

    The surface is laid through the overheads that the points ask for, the profile played back,
    and the surface moved by what its TTFTs are off: at the start of a loop fewer requests are in
    flight than there are users, which the first surface doesn't know.
    """
    known = known or Known()
    search = Search(points, known)
    fitted = search.run()
    factors = search.factors(fitted)
    timed = [i for i, point in enumerate(points) if point.ttft_ms]
    count = f"{len(points)} point{'s' if len(points) > 1 else ''}"

    def with_surface() -> FittedProfile:
        document = document_of(
            fitted,
            sites_of([points[i] for i in timed], [factors[i] for i in timed]),
            points,
            known,
            name=name,
            title=title or f"{name}, fitted",
            fitted_on=f"fitted on {count} of {origin}",
            accuracy=accuracy,
        )
        return FittedProfile(fitted, document, document.profile())

    first = with_surface()
    for i in timed:
        missing_ms = points[i].ttft_ms - first.predict(points[i])[0]
        factors[i] = factor_of(fitted.overhead_ms * math.exp(factors[i]) + missing_ms, fitted)
    return with_surface()


def held_out(points: list[Point], known: Known | None = None, *, first: int = 0) -> Errors:
    """Fit every second point from `first` on, and test on the others."""
    errors = Errors()
    train = points[first::2]
    if train:
        errors.add(fit_points(train, known), points[1 - first :: 2])
    return errors
