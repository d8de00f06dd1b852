"""Ink bright on a dark ground, whatever the images were. Without torch."""

from __future__ import annotations

from typing import Literal

import numpy as np

Ink = Literal["auto", "detect", "bright", "dark"]


def with_bright_ink(images: np.ndarray, ink: Ink) -> np.ndarray:
    """Ink bright on a dark ground: as it is, inverted, or whichever the images themselves look like, each by itself."""
    if ink == "bright":
        return images
    if ink == "dark":
        return 255 - images
    return np.where(has_dark_ink(images)[:, None, None, None], 255 - images, images)


def has_dark_ink(images: np.ndarray) -> np.ndarray:
    """(N,): whether the ground, which is the median of an image's border, is brighter than the image is on average."""
    grey = images.mean(axis=1)  # (N, H, W), float64
    border = np.concatenate([grey[:, 0], grey[:, -1], grey[:, 1:-1, 0], grey[:, 1:-1, -1]], axis=1)
    dark: np.ndarray = np.median(border, axis=1) > grey.mean(axis=(1, 2)) + 1e-9  # a blank image has neither
    return dark
