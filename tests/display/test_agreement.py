"""How many searches agree, and what that says of optima which no search has found."""

from types import SimpleNamespace

import pytest

from picardfit.display.text import agreement


@pytest.mark.parametrize(
    ("hits", "share", "words"),
    [
        (4, 0.0, "4 of 5 searches agree on this optimum"),
        (4, 0.2, "about 20 % of the starting points may lead to others not found yet"),
        (1, 1.0, "1 of 5 searches found this optimum; no optimum was found twice"),
    ],
)
def test_what_searches_say_of_optima_not_found(hits, share, words):
    text = agreement(SimpleNamespace(hits=hits, searches=[None] * 5, unseen_share=share))
    assert words in text
    assert "100 %" not in text
