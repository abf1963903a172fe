"""What the parts of a message that aren't text cost, in prompt tokens.

Nothing is fetched and nothing is decoded beyond a header: an image given as a data URL is measured
by the first bytes of the file, any other one counts as `UNKNOWN_IMAGE`.
"""

from __future__ import annotations

import base64
import binascii
from math import ceil

IMAGE_BASE_TOKENS = 85
IMAGE_TILE_TOKENS = 170
"""OpenAI's vision guide, the tile recipe: 85 tokens for an image, and with high detail 170 for
each tile of 512 x 512 pixels after it was scaled to fit 2048 x 2048 and then to a shortest side
of at most 768."""

UNKNOWN_IMAGE = (1024, 1024)
"""Pixels assumed of an image that isn't in the request itself: the guide's own example, 765
tokens with high detail."""

FILE_TOKENS = 1_000
"""A file part: its pages are unknown here, so a constant stands for them."""

AUDIO_TOKENS_PER_S = 10.0
"""OpenAI counts one token for 100 ms of input audio."""

_WAV_BYTES_PER_S = 48_000  # 24 kHz, 16 bits, one channel: used where the header doesn't say
_SLOWEST_WAV_BYTES_PER_S = 1_000  # below, the header is taken for broken
_MP3_BYTES_PER_S = 16_000  # 128 kbit/s
_HEAD_CHARS = 1 << 19  # of base64: enough to pass over the metadata in front of a JPEG's frame


def image_tokens(url: str, detail: str | None) -> int:
    """Prompt tokens of an image; `detail` None or auto counts as high."""
    if detail == "low":
        return IMAGE_BASE_TOKENS
    width, height = image_size(url) or UNKNOWN_IMAGE
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / (min(width, height) * scale))
    tiles = ceil(round(width * scale, 6) / 512) * ceil(round(height * scale, 6) / 512)
    return IMAGE_BASE_TOKENS + IMAGE_TILE_TOKENS * tiles


def image_size(url: str) -> tuple[int, int] | None:
    """Width and height in pixels of a PNG, JPEG, GIF or WebP in a data URL, None if unknown."""
    data = _data_url_head(url)
    size = None
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        size = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    elif data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        size = int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    elif data.startswith(b"\xff\xd8"):
        size = _jpeg_size(data)
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP" and len(data) >= 30:
        size = _webp_size(data)
    return size if size is not None and min(size) > 0 else None


def audio_tokens(data: str, audio_format: str) -> int:
    """Prompt tokens of a base64 audio clip, from its length and what its header says."""
    size = len(data) * 3 // 4 - data[-2:].count("=")
    rate = _MP3_BYTES_PER_S
    if audio_format == "wav":
        head = _decode(data[:64])
        given = int.from_bytes(head[28:32], "little") if head.startswith(b"RIFF") else 0
        rate = given if given >= _SLOWEST_WAV_BYTES_PER_S else _WAV_BYTES_PER_S
    return max(1, ceil(size / rate * AUDIO_TOKENS_PER_S))


def _data_url_head(url: str) -> bytes:
    """The first bytes of what a base64 data URL holds; empty for anything else."""
    if url[:5].lower() != "data:":
        return b""
    comma = url.find(",", 0, 256)
    if comma < 0 or not url[:comma].lower().endswith(";base64"):
        return b""
    head = _decode(url[comma + 1 : comma + 65])
    # Only a JPEG keeps its size deep inside the file.
    return _decode(url[comma + 1 : comma + 1 + _HEAD_CHARS]) if head[:2] == b"\xff\xd8" else head


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text[: len(text) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Walk the segments to the frame header (SOF0 to SOF15 without DHT, JPG and DAC)."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return (
                int.from_bytes(data[at + 7 : at + 9], "big"),
                int.from_bytes(data[at + 5 : at + 7], "big"),
            )
        at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """The three kinds of WebP (RFC 9649): lossy, lossless, extended."""
    chunk = data[12:16]
    if chunk == b"VP8 ":
        return (
            int.from_bytes(data[26:28], "little") & 0x3FFF,
            int.from_bytes(data[28:30], "little") & 0x3FFF,
        )
    if chunk == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8X":
        return (
            int.from_bytes(data[24:27], "little") + 1,
            int.from_bytes(data[27:30], "little") + 1,
        )
    return None
