"""Arrowhead matrices for tests."""

from __future__ import annotations

import numpy as np

from picardfit.collocation.arrow import Arrow, arrow_of


def whole(matrix: np.ndarray) -> Arrow:
    """A matrix without structure: that of a single experiment."""
    return arrow_of(matrix[None], 0, np.ones((1, len(matrix)), bool))
