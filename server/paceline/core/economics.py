"""How many subscribers a contract for compute takes: an article's back-of-envelope, as a model.

    users = (contract * share in service - other revenue * margin * months)
            / (price * months * margin * share of the route)

Every assumption is a named parameter with its class. By default they are the article's, which are
also its mistakes: all revenue is profit, all of a subscription pays for one route, nobody else
pays, and the whole contract is due on the first day. Decimals throughout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_DOWN, Context, Decimal, InvalidOperation, localcontext

from paceline.core.sources import Source

_ARTICLE = "as the article has it"
_WIDE = Context(prec=28)
_SIX = Decimal("0.000001")


class EconomicsError(ValueError):
    """An assumption that can't be used."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One assumption: its value, range (`above` excludes the lower end), unit and source."""

    name: str
    default: Decimal
    unit: str
    source: Source
    low: Decimal = Decimal(0)
    high: Decimal = Decimal(10) ** 15
    above: bool = False


def _share(name: str, default: str, unit: str, source: Source, *, above: bool) -> Parameter:
    return Parameter(name, Decimal(default), unit, source, high=Decimal(1), above=above)


def _estimate(text: str) -> Source:
    return Source("estimate", text)


YEARS = ("2026", "2027", "2028")
"""The years in which the contract's capacity comes into service."""

PARAMETERS: Mapping[str, Parameter] = {
    p.name: p
    for p in (
        Parameter(
            "contract_usd",
            Decimal(10_000_000_000),
            "US$",
            _estimate("$10 billion, in a video; a filing of April 2026 says more than $20 billion"),
        ),
        Parameter(
            "subscription_usd_month",
            Decimal(200),
            "US$ a month",
            _estimate("a Pro subscription, in the article"),
            above=True,
        ),
        Parameter(
            "months",
            Decimal(30),
            "months",
            _estimate("how long a user stays, in the article"),
            high=Decimal(1200),
            above=True,
        ),
        Parameter(
            "monthly_users",
            Decimal(1_000_000_000),
            "users",
            _estimate("a billion monthly users, in the article"),
            above=True,
        ),
        _share(
            "margin_share",
            "1",
            "of revenue",
            Source("hypothesis", f"all revenue is left for the contract, {_ARTICLE}"),
            above=True,
        ),
        _share(
            "route_share",
            "1",
            "of a subscription",
            Source("hypothesis", f"all of it pays for the fast route, {_ARTICLE}"),
            above=True,
        ),
        Parameter(
            "other_revenue_usd_month",
            Decimal(0),
            "US$ a month",
            Source("hypothesis", f"no API, Business or Enterprise on the route, {_ARTICLE}"),
        ),
        Parameter(
            "contract_mw",
            Decimal(750),
            "MW",
            Source("official", "750 MW in phases through 2028, as the article quotes the contract"),
            high=Decimal(1_000_000),
        ),
        *(
            _share(
                f"capacity_{year}",
                "1" if year == YEARS[0] else "0",
                "of the contract, new in service",
                Source("hypothesis", f"all of it from the first day, {_ARTICLE}"),
                above=False,
            )
            for year in YEARS
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Objection:
    """What is said against the article, as numbers, and how certain they are."""

    text: str
    numbers: Mapping[str, Decimal]
    source: Source


_ONLY_DIRECTION = Source("hypothesis", "a number that only shows the direction")

OBJECTIONS = (
    Objection(
        "the filing's contract, not the video's",
        {"contract_usd": Decimal(20_000_000_000)},
        Source("official", "a filing of April 2026, as the article quotes it: more than this"),
    ),
    Objection(
        "revenue isn't profit: half is left", {"margin_share": Decimal("0.5")}, _ONLY_DIRECTION
    ),
    Objection(
        "the route gets a quarter of a subscription",
        {"route_share": Decimal("0.25")},
        _ONLY_DIRECTION,
    ),
    Objection("a user stays 12 months", {"months": Decimal(12)}, _ONLY_DIRECTION),
    Objection(
        "API, Business and Enterprise pay 200 million a month",
        {"other_revenue_usd_month": Decimal(200_000_000)},
        _ONLY_DIRECTION,
    ),
    Objection(
        "capacity comes in phases: a fifth, two, two",
        {
            "capacity_2026": Decimal("0.2"),
            "capacity_2027": Decimal("0.4"),
            "capacity_2028": Decimal("0.4"),
        },
        _ONLY_DIRECTION,
    ),
)


@dataclass(frozen=True, slots=True)
class Phase:
    """What is in service by the end of a year, and the subscribers that it takes."""

    year: str
    share: Decimal
    mw: Decimal
    contract_usd: Decimal
    users: Decimal


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the assumptions come to. Users are not rounded; `users_whole` is rounded up."""

    values: Mapping[str, Decimal]
    usd_a_user: Decimal
    """All that a user pays."""
    contribution_usd: Decimal
    """What of it is left for the contract."""
    users: Decimal
    share_of_users: Decimal
    phases: tuple[Phase, ...]

    @property
    def users_whole(self) -> Decimal:
        """The least whole number of users that is enough."""
        return self.users.to_integral_value(ROUND_CEILING)

    @property
    def first_year(self) -> Phase:
        """The contract as far as it is in service in its first year."""
        return self.phases[0]


def assume(changes: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """The article's assumptions with some of them changed.

    Raises EconomicsError for an unknown name, a value out of range, or phases whose shares don't
    add up to the whole contract.
    """
    values = {name: parameter.default for name, parameter in PARAMETERS.items()}
    for name, value in changes.items():
        if name not in PARAMETERS:
            raise EconomicsError(f"{name}: unknown; there are {', '.join(PARAMETERS)}")
        parameter = PARAMETERS[name]
        low, high = parameter.low, parameter.high
        if not value.is_finite() or not low <= value <= high or (parameter.above and value == low):
            span = f"above {low}" if parameter.above else f"at least {low}"
            raise EconomicsError(f"{name}: must be {span} and at most {high:f}, not {value}")
        values[name] = value
    if sum(values[f"capacity_{year}"] for year in YEARS) != 1:
        names = ", ".join(f"capacity_{year}" for year in YEARS)
        raise EconomicsError(f"{names}: must add up to 1")
    return values


def work_out(values: Mapping[str, Decimal]) -> Outcome:
    """Subscribers by the formula above, for values that `assume` has made."""
    with localcontext(_WIDE):
        months, margin = values["months"], values["margin_share"]
        paid = values["subscription_usd_month"] * months
        left = paid * margin * values["route_share"]
        others = values["other_revenue_usd_month"] * margin * months
        phases, share = [], Decimal(0)
        for year in YEARS:
            share += values[f"capacity_{year}"]
            due = values["contract_usd"] * share
            users = max(due - others, Decimal(0)) / left
            phases.append(Phase(year, share, values["contract_mw"] * share, due, users))
        users = phases[-1].users
        return Outcome(values, paid, left, users, users / values["monthly_users"], tuple(phases))


def parse_assumption(text: str) -> tuple[str, Decimal]:
    """Read `name=value`; the value may be written 20e9 or 20_000_000_000. Raises EconomicsError."""
    name, equals, value = text.partition("=")
    try:
        number = Decimal(value.strip())
    except InvalidOperation:
        equals = ""
        number = Decimal(0)
    if not equals:
        raise EconomicsError(f"say name=value, with a number, not {text!r}")
    return name.strip(), number


def cut(value: Decimal, digits: int = 2) -> Decimal:
    """A figure cut, not rounded, to so many digits: the article says 1.6 for 1.67."""
    if not value:
        return value
    return value.quantize(Decimal(1).scaleb(value.adjusted() - digits + 1), ROUND_DOWN)


def written(value: Decimal) -> str:
    """A figure in plain digits, rounded to six behind the point."""
    whole = value if value == value.to_integral_value() else value.quantize(_SIX)
    return f"{whole.normalize():f}"
