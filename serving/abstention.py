"""Abstaining: a row of a request gets no class if its class is too improbable."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from contracts.task.abstention import abstains
from serving.errors import invalid
from serving.signatures import Signature, Tensors

MIN_PROBABILITY = "min_probability"  # field of a request
CLASS_OUTPUTS = ("class", "class_id")
_PROBABILITIES = "probabilities"
_RANKS = {"class": 1, "class_id": 1, _PROBABILITIES: 2}


def can_abstain(signature: Signature) -> bool:
    """Returns whether a signature predicts classes with their probabilities."""
    ranks = {
        name: len(spec.shape or ())
        for name, spec in signature.outputs.items()
        if name in _RANKS
    }
    return ranks == _RANKS


def read_min_probability(
    document: dict[str, Any], signature: Signature
) -> float | None:
    """Returns the least probability of a request; None if it has none.

    Raises:
      RequestError: It is not a number above 0 and up to 1, or the signature predicts no
        classes.
    """
    value = document.get(MIN_PROBABILITY)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= 1:  # also NaN
        raise invalid(
            MIN_PROBABILITY,
            reprlib.repr(value),
            "a number above 0 and up to 1",
            "leave it out to get a class for every row",
        )
    if not can_abstain(signature):
        raise invalid(
            MIN_PROBABILITY,
            f'signature "{signature.name}" has {", ".join(signature.outputs)}',
            "a signature with class, class_id and probabilities",
        )
    return float(value)


def abstain(outputs: Tensors, min_probability: float) -> tuple[Tensors, int]:
    """Masks the class of each row that is less probable.

    Returns:
      The outputs, and the number of rows without a class.
    """
    is_abstained = abstains(
        outputs[_PROBABILITIES], outputs["class_id"], min_probability
    )
    masked: dict[str, np.ndarray] = {
        name: np.ma.masked_array(outputs[name], is_abstained) for name in CLASS_OUTPUTS
    }
    return {**outputs, **masked}, int(is_abstained.sum())
