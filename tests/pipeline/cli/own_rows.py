"""Rows of a user's own, for the commands that look at them."""

import random

import pandas as pd

ANIMALS = ("cat", "dog", "bird", "fish")


def make_rows(count, seed=0):
    """Returns rows of a text, which differs from all others, and its class."""
    chance = random.Random(seed)
    return [
        {
            "Nachricht": f"The {chance.choice(ANIMALS)} number {n} sees a small tree.",
            "Art": "spam" if n % 4 == 0 else "ham",
            "Autor": f"a{n // 4}",
        }
        for n in range(count)
    ]


def write(path, rows, **options):
    path.parent.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(path, index=False, **options)
    return path


def write_splits(folder, **splits):
    """Writes a file for each split; returns their directory."""
    for split, rows in splits.items():
        write(folder / f"{split}.csv", rows)
    return folder
