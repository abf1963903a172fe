from __future__ import annotations

import base64
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.wire.media import audio_tokens, image_size, image_tokens


def url(data: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def png(width: int, height: int) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))


def jpeg(width: int, height: int, metadata: int = 20) -> bytes:
    left, segments = metadata, b""
    while left > 0:
        size = min(left, 60_000)
        segments += b"\xff\xe1" + struct.pack(">H", size + 2) + b"\xff" * size
        left -= size
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3)
    return b"\xff\xd8" + segments + b"\xff\xff\xdb" + struct.pack(">H", 3) + b"q" + frame + b"zz"


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + struct.pack("<I", len(body)) + body + bytes(16)


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (png(640, 480), (640, 480)),
        (b"GIF89a" + struct.pack("<HH", 320, 200) + b"\0" * 9, (320, 200)),
        (jpeg(800, 600), (800, 600)),
        (jpeg(800, 600, metadata=150_000), (800, 600)),
        (webp(b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", 550, 368)), (550, 368)),
        (webp(b"VP8L", b"\x2f" + struct.pack("<I", 399 | 299 << 14)), (400, 300)),
        (
            webp(b"VP8X", bytes(4) + (1919).to_bytes(3, "little") + (1079).to_bytes(3, "little")),
            (1920, 1080),
        ),
        (png(0, 5), None),
        (b"BM" + bytes(60), None),
        (b"", None),
        (b"\xff\xd8\xff", None),
    ],
)
def test_the_size_is_read_from_the_file(data: bytes, size: tuple[int, int] | None) -> None:
    assert image_size(url(data)) == size


def test_what_cannot_be_measured_counts_as_the_guides_example() -> None:
    for other in ("https://x/y.png", "data:image/png,raw", "data:image/png;base64,%%%%", "data:"):
        assert image_size(other) is None
        assert image_tokens(other, None) == 765


@pytest.mark.parametrize(
    ("width", "height", "detail", "tokens"),
    [
        # The first three are worked examples of OpenAI's vision guide.
        (1024, 1024, "high", 765),
        (2048, 4096, "high", 1105),
        (4096, 8192, "low", 85),
        (512, 512, "auto", 255),
        (513, 512, None, 425),
        (1, 1, "original", 255),
        (768, 2048, "high", 85 + 170 * 8),
    ],
)
def test_tiles(width: int, height: int, detail: str | None, tokens: int) -> None:
    assert image_tokens(url(png(width, height)), detail) == tokens


def test_audio_is_ten_tokens_a_second() -> None:
    head = b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16_000, 2, 16)
    clip = base64.b64encode(head + bytes(32_000 - len(head))).decode()
    assert audio_tokens(clip, "wav") == 20
    assert audio_tokens(base64.b64encode(bytes(96_000)).decode(), "wav") == 20
    assert audio_tokens(base64.b64encode(bytes(16_000)).decode(), "mp3") == 10
    assert audio_tokens("", "mp3") == 1


@given(st.binary(max_size=80), st.sampled_from([b"", b"\xff\xd8", b"RIFF", b"\x89PNG\r\n\x1a\n"]))
def test_no_file_breaks_the_reader(data: bytes, magic: bytes) -> None:
    assert image_tokens(url(magic + data), "high") >= 255


@given(st.text(max_size=60))
def test_no_url_breaks_the_reader(rest: str) -> None:
    assert image_tokens("data:" + rest, "high") >= 255
    assert image_tokens("data:x;base64," + rest, "high") >= 255
    assert audio_tokens(rest, "wav") >= 1
