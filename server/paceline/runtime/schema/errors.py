"""What is wrong with a schema."""

from __future__ import annotations


class SchemaError(ValueError):
    """A schema that is malformed, that nothing satisfies, or that is beyond this generator.

    `pointer` is a JSON Pointer to the part at fault, empty for the whole.
    """

    def __init__(self, message: str, pointer: str = "") -> None:
        shown = pointer if len(pointer) <= 120 else f"{pointer[:60]}…{pointer[-59:]}"
        super().__init__(f"{message} (at {shown})" if pointer else message)
        self.pointer = pointer
