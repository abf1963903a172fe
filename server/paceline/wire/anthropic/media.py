"""What images and documents cost in prompt tokens, as Anthropic counts them."""

from __future__ import annotations

from math import ceil

from paceline.wire.media import FILE_TOKENS, UNKNOWN_IMAGE, image_size

LONGEST_EDGE = 1568
PIXELS_PER_TOKEN = 750
MOST_IMAGE_TOKENS = 1600
"""Anthropic's vision guide: an image is scaled to fit 1,568 pixels and about 1,600 tokens, and
costs width x height / 750."""

PDF_TOKENS = FILE_TOKENS


def image_tokens(media_type: str, data: str) -> int:
    """Prompt tokens of a base64 image; one that can't be measured counts as 1024 x 1024."""
    size = image_size(f"data:{media_type};base64,{data}") if data else None
    width, height = size or UNKNOWN_IMAGE
    scale = min(1.0, LONGEST_EDGE / max(width, height))
    tokens = ceil(width * scale * height * scale / PIXELS_PER_TOKEN)
    return min(max(tokens, 1), MOST_IMAGE_TOKENS)
