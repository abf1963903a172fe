"""Which metrics a PromQL expression reads. Enough of the grammar for our own dashboards."""

from __future__ import annotations

import re

# Longest first: quoted text and what stands in braces or brackets can hold anything.
_NOT_NAMES = (
    re.compile(r'"(?:[^"\\]|\\.)*"'),
    re.compile(r"\{[^}]*\}"),
    re.compile(r"\[[^\]]*\]"),
    re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)"),
    re.compile(r"\$\w+"),
    re.compile(r"\b\d+(?:\.\d+)?(?:e[+-]?\d+|ms|[smhdwy])?\b"),
)
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?!\w)(?!\s*\()")
_OPERATORS = frozenset({"and", "or", "unless", "bool", "offset", "inf", "nan"})


def metric_names(expression: str) -> set[str]:
    """The names of the series that ``expression`` selects."""
    for pattern in _NOT_NAMES:
        expression = pattern.sub(" ", expression)
    return {name for name in _NAME.findall(expression) if name.lower() not in _OPERATORS}


def label_names(expression: str) -> set[str]:
    """The labels that ``expression`` matches on or groups by."""
    names: set[str] = set()
    for matchers in re.findall(r"\{([^}]*)\}", expression):
        names.update(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', matchers))
    for grouped in re.findall(r"\b(?:by|without|on)\s*\(([^)]*)\)", expression):
        names.update(re.findall(r"\w+", grouped))
    return names
