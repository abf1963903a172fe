"""Pack the original o200k_base file into the one that ships with the server.

    python tools/build_vocabulary.py o200k_base.tiktoken

The original is the text file of that name that tiktoken downloads at run time; several wheels on
PyPI carry it too. It lists `base64(token) rank` a line. What ships is the tokens alone, in rank
order, each after a byte with its length, compressed with xz.
"""

from __future__ import annotations

import base64
import hashlib
import lzma
import sys
from pathlib import Path

from paceline.runtime.vocabulary import ORIGINAL_SHA256

TARGET = Path(__file__).parent.parent / "server/paceline/runtime/data/o200k_base.xz"

FILTERS = [
    {
        "id": lzma.FILTER_LZMA2,
        "preset": 9 | lzma.PRESET_EXTREME,
        # A reader allocates the whole dictionary; the data is 1.6 MB.
        "dict_size": 1 << 21,
        # Chosen by trial: the smallest file.
        "lc": 4,
        "lp": 0,
        "pb": 0,
    }
]


def main() -> None:
    """Check the original, then write the packed file and print the SHA-256 of its content."""
    original = Path(sys.argv[1]).read_bytes()
    if hashlib.sha256(original).hexdigest() != ORIGINAL_SHA256:
        sys.exit("not the original o200k_base file: its SHA-256 differs")
    packed = bytearray()
    for expected, line in enumerate(original.splitlines()):
        token64, rank = line.split()
        token = base64.b64decode(token64)
        if int(rank) != expected or not 0 < len(token) < 256:
            sys.exit(f"line {expected + 1}: out of rank order, or a token too long")
        packed.append(len(token))
        packed += token
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(lzma.compress(bytes(packed), lzma.FORMAT_XZ, filters=FILTERS))
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes")
    print(f"content SHA-256 {hashlib.sha256(packed).hexdigest()}")


if __name__ == "__main__":
    main()
