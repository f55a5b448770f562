"""Long texts whose class only the last 20 tokens show."""

import numpy as np

from tests import tiny

TOKENS = 2000
SIGNAL = 20
FILLERS = ["the", "a", "house", "tree", "river", "road", "big", "small", "red", "blue"]
WORDS = ["dog", "cat"]  # by label


def rows(count: int, seed: int = 0, tokens: int = TOKENS) -> list[tuple[str, int]]:
    """Returns texts of so many tokens and their labels, 0 or 1."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count).tolist()
    return [
        (
            " ".join(
                [*random.choice(FILLERS, tokens - SIGNAL), *[WORDS[label]] * SIGNAL]
            ),
            label,
        )
        for label in labels
    ]


def write_encoder(directory):  # type: ignore[no-untyped-def]
    """Writes the tiny encoder with scales of 1, so that a word changes its outputs."""
    ones = {
        name: np.ones_like(tensor)
        for name, tensor in tiny.hugging_face_tensors().items()
        if name.endswith("LayerNorm.weight")
    }
    return tiny.write_encoder(directory, **ones)
