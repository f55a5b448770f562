"""Packs tokens as the exported graph does: `modules.data.preprocessing`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from contracts.packing import Keep, LongTextConfig, Packing


class Packed(NamedTuple):
    """A packed text or pair, or a window of a text.

    Attributes:
      ids: The tokens.
      types: The type of each token.
    """

    ids: list[int]
    types: list[int]


def pack(
    segments: Sequence[list[int]],
    packing: Packing,
    *,
    special_token_ids: tuple[int, int],
    type_vocab_size: int,
) -> list[Packed]:
    """Packs `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, truncating the longest first.

    Args:
      segments: The token ids of one text, or of the two of a pair.
      packing: The longest sequence, the part that is kept, and the windows.
      special_token_ids: The ids of `[CLS]` and `[SEP]`.
      type_vocab_size: The encoder's number of token types. If it is 1, both texts of a
        pair have type 0.

    Returns:
      The packed row, or its windows.
    """
    start, end = special_token_ids
    segments = trim(segments, packing)
    if packing.long_text is not None:
        (text,) = segments
        windows = _split(text, packing.long_text)
        return [
            Packed([start, *tokens, end], [0] * (len(tokens) + 2)) for tokens in windows
        ]
    ids, types = [start], [0]
    for index, tokens in enumerate(segments):
        ids += [*tokens, end]
        types += [min(index, type_vocab_size - 1)] * (len(tokens) + 1)
    return [Packed(ids, types)]


def trim(segments: Sequence[list[int]], packing: Packing) -> list[list[int]]:
    """Cuts one or two texts to the lengths of a `RoundRobinTrimmer`."""
    budget = packing.max_seq_length - 1 - len(segments)  # [CLS], a [SEP] a segment
    first, *others = segments
    if not others:
        return [_cut(first, budget, packing.keep)]
    (second,) = others
    count = min(len(first), max((budget + 1) // 2, budget - len(second)))
    return [
        _cut(first, count, packing.keep),
        _cut(second, budget - count, packing.keep),
    ]


def pad(rows: Sequence[Packed]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pads rows to the longest.

    Returns:
      Ids, mask and types, each int64[rows, longest]. Padding is 0, whatever the id of
      `[PAD]` is: the mask hides it.
    """
    shape = (len(rows), max(len(row.ids) for row in rows))
    ids, mask, types = (np.zeros(shape, np.int64) for _ in range(3))
    for index, row in enumerate(rows):
        length = len(row.ids)
        ids[index, :length] = row.ids
        mask[index, :length] = 1
        types[index, :length] = row.types
    return ids, mask, types


def _cut(tokens: list[int], count: int, keep: Keep) -> list[int]:
    """Keeps a number of tokens at the head, tail or both ends."""
    if len(tokens) <= count:
        return tokens
    first = {"head": count, "tail": 0, "ends": (count + 1) // 2}[keep]
    return tokens[:first] + tokens[len(tokens) - (count - first) :]


def _split(tokens: list[int], settings: LongTextConfig) -> list[list[int]]:
    """Returns the windows of a text."""
    others = max(0, -((settings.content - len(tokens)) // settings.stride))
    starts = (index * settings.stride for index in range(1 + others))
    return [tokens[start : start + settings.content] for start in starts]
