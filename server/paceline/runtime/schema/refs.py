"""`$ref` and its kin, within one document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from paceline.runtime.schema.errors import SchemaError
from paceline.runtime.schema.jsontypes import canonical

_LONG_ENUM = 16
_ENUMS_KEPT = 256

WORK = 40_000
"""Steps that one value may take to make and to check: some 40 ms. A few lines of references to
one another ask for more steps than there are atoms."""

# Draft 7 and before: whatever stands beside a `$ref` does not count.
_LEGACY = ("draft-03", "draft-04", "draft-05", "draft-06", "draft-07")

# Keywords whose value is data, in which nothing is a schema.
_DATA = frozenset({"const", "enum", "default", "examples", "example"})


class Document:
    """A schema and every place in it that something can refer to."""

    def __init__(self, root: Any) -> None:
        self.root = root
        declared = root.get("$schema", "") if isinstance(root, Mapping) else ""
        self.legacy = isinstance(declared, str) and any(name in declared for name in _LEGACY)
        self._places: dict[str, Any] = {}
        self._bases: dict[int, str] = {}
        self._resolved: dict[tuple[str, str], Any] = {}
        self._allowed: dict[int, tuple[list[Any], frozenset[Any]]] = {}
        self._left: int | None = None
        self._index(root, "")

    def begin(self) -> None:
        """From now on WORK steps may be taken, and no more, until this is called again."""
        self._left = WORK

    def spend(self, steps: int = 1) -> None:
        """Take steps. Raises SchemaError where too many were taken."""
        if self._left is not None:
            self._left -= steps
            if self._left < 0:
                raise SchemaError("the schema is too complex to make a value for")

    def allowed(self, values: list[Any]) -> frozenset[Any]:
        """What an `enum` allows, in canonical form; of a long one it is remembered."""
        if len(values) < _LONG_ENUM:
            return frozenset(map(canonical, values))
        held = self._allowed.get(id(values))
        if held is None:
            if len(self._allowed) >= _ENUMS_KEPT:
                self._allowed.clear()
            # With the list itself, so that no other one comes to have its id.
            held = self._allowed[id(values)] = (values, frozenset(map(canonical, values)))
        return held[1]

    def _index(self, root: Any, base: str) -> None:
        """Note ids and anchors. Done with a list, as a schema may be deeper than the stack."""
        waiting: list[tuple[Any, str, bool]] = [(root, base, True)]
        while waiting:
            node, base, is_schema = waiting.pop()
            if isinstance(node, list):
                waiting += [(item, base, is_schema) for item in node]
            elif isinstance(node, Mapping):
                if is_schema:
                    base = self._name(node, base)
                    self._bases[id(node)] = base
                for key, item in node.items():
                    if key not in _DATA or not is_schema:
                        inner = is_schema is False or key not in _NAMED
                        waiting.append((item, base, inner))

    def _name(self, node: Mapping[str, Any], base: str) -> str:
        own = node.get("$id", node.get("id"))
        if isinstance(own, str):
            if own.startswith("#"):
                self._places[base + own] = node
            else:
                base = _join(base, own)
                self._places[base] = node
        for word in ("$anchor", "$dynamicAnchor"):
            anchor = node.get(word)
            if isinstance(anchor, str):
                self._places.setdefault(f"{base}#{anchor}", node)
        return base

    def resolve(self, ref: str, holder: Mapping[str, Any]) -> Any:
        """What a reference in `holder` leads to. Raises SchemaError where that is nowhere here."""
        base = self._bases.get(id(holder), "")
        key = (base, ref)
        if key not in self._resolved:
            self._resolved[key] = self._find(ref, base)
        return self._resolved[key]

    def _find(self, ref: str, base: str) -> Any:
        whole = _join(base, ref) if not ref.startswith("#") else base + ref
        if whole in self._places:
            return self._places[whole]
        address, fragment = urldefrag(whole)
        start = self._places.get(address, self._places.get(address + "#"))
        if start is None:
            if address and address != base and ref.partition("#")[0]:
                raise SchemaError(f"$ref leads outside of the schema: {ref!r}")
            start = self.root
        if fragment and not fragment.startswith("/"):
            raise SchemaError(f"$ref leads nowhere: {ref!r}")
        return _walk(start, fragment, ref)


# Their values are maps from names to schemas, not schemas.
_NAMED = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)


def _join(base: str, ref: str) -> str:
    try:
        return urljoin(base, ref)
    except ValueError:
        raise SchemaError(f"$ref or $id is no address: {ref!r}") from None


def _walk(start: Any, fragment: str, ref: str) -> Any:
    node = start
    for part in _parts(fragment):
        if isinstance(node, Mapping) and part in node:
            node = node[part]
        elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            raise SchemaError(f"$ref leads nowhere: {ref!r}")
    if not isinstance(node, bool | Mapping):
        raise SchemaError(f"$ref leads to something that is no schema: {ref!r}")
    return node


def _parts(fragment: str) -> Iterator[str]:
    for part in fragment.split("/")[1:]:
        yield unquote(part).replace("~1", "/").replace("~0", "~")
