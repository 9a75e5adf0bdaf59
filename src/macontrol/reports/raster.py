"""A heat map as a PNG image, with a palette from dark to bright, without a drawing library."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Brightness rises steadily, so the order is clear in grey and to the colour-blind.
ANCHORS = (
    (17, 26, 66),
    (31, 74, 120),
    (62, 122, 132),
    (118, 163, 118),
    (197, 199, 92),
    (253, 238, 150),
)
_COLOURS = 255
_NOTHING = 255
"""The palette entry of a point without a value: transparent."""


def heat_map(values: Floats, low: float, high: float) -> str:
    """A data URI of an image: one pixel per value, row 0 at the top; NaN is transparent."""
    span = max(high - low, 1e-12)
    with np.errstate(invalid="ignore"):
        level = np.clip((values - low) / span, 0.0, 1.0) * (_COLOURS - 1)
    pixels = np.where(np.isfinite(values), np.rint(np.nan_to_num(level)), _NOTHING).astype(np.uint8)
    return f"data:image/png;base64,{base64.b64encode(_png(pixels)).decode('ascii')}"


def gradient() -> str:
    """The colours of a heat map from low to high, as CSS."""
    stops = ", ".join(f"rgb({red} {green} {blue})" for red, green, blue in ANCHORS)
    return f"linear-gradient(to right, {stops})"


def _palette() -> bytes:
    anchors = np.array(ANCHORS, float)
    at = np.linspace(0, len(anchors) - 1, _COLOURS)
    places = np.arange(len(anchors))
    colours = np.stack([np.interp(at, places, anchors[:, part]) for part in range(3)], axis=1)
    return np.vstack([np.rint(colours), [0, 0, 0]]).astype(np.uint8).tobytes()


def _png(pixels: NDArray[np.uint8]) -> bytes:
    height, width = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)  # 8 bits, with a palette
    rows = np.hstack([np.zeros((height, 1), np.uint8), pixels]).tobytes()  # rows without a filter
    opacity = b"\xff" * _COLOURS + b"\0"
    chunks = (
        (b"IHDR", header),
        (b"PLTE", _palette()),
        (b"tRNS", opacity),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
