"""The tokens that the model sees, and their positions in the texts."""

from __future__ import annotations

import tensorflow as tf

from contracts.packing import Packing
from modules.data import preprocessing
from modules.data.tokenization import BertTokenizer

TOKEN = "token"
COLUMN = "column"
START = "start"
END = "end"
CUT = "cut"

_NOWHERE = -1  # the column and position of special tokens and padding


def find_tokens(
    texts: list[tf.Tensor], vocab_file: str, packing: Packing
) -> dict[str, tf.Tensor]:
    """Tokenizes, truncates and packs texts as the model does, and locates the tokens.

    A text that the model reads in windows is packed as a whole: each token is there
    once, however many windows have it.

    Args:
      texts: One text, or the two of a pair, each string[batch].
      vocab_file: One token a line. Its encoder's settings are next to it.
      packing: The longest sequence, and the part that is kept.

    Returns:
      `token` string[batch, tokens], with special tokens; padding is empty. Of each
      token: `column` int64[batch, tokens], the index of its text, and `start` and
      `end` int64[batch, tokens], its bytes in that text; all three are -1 for special
      tokens and padding. `cut` int64[batch, texts], the tokens that each text lost.
    """
    # One call for all texts: every call embeds the vocabulary in the graph.
    tokens, starts, ends = BertTokenizer(vocab_file, tf.string).tokenize_with_offsets(
        tf.concat(texts, 0)
    )
    # Packed are the indices of the tokens, once. Ragged operations are large graphs,
    # which every load of the model reads.
    count = tf.size(tokens.flat_values, tf.int64)
    indices = tokens.with_flat_values(tf.range(count))
    batch = tf.shape(texts[0])[0]
    segments = [indices[i * batch : (i + 1) * batch] for i in range(len(texts))]
    first, last, padding = -1, -2, -3
    packed = preprocessing.pack_segments(
        segments,
        packing.whole,
        special_token_ids=(first, last),
    )[preprocessing.INPUT_WORD_IDS].to_tensor(default_value=padding)
    # The values of special tokens and padding follow those of the tokens.
    index = tf.where(packed < 0, count - 1 - packed, packed)

    def pack(values: tf.Tensor, *special: str | int) -> tf.Tensor:
        return tf.gather(
            tf.concat([values, tf.constant(special, values.dtype)], 0), index
        )

    nowhere = [_NOWHERE] * 3
    # The tokens of the second text follow those of the first.
    is_second = tf.range(count) >= tokens.row_splits[batch]
    columns = pack(tf.cast(is_second, tf.int64), *nowhere)
    kept = [
        tf.math.count_nonzero(columns == column, axis=1) for column in range(len(texts))
    ]
    cut = [
        segment.row_lengths() - rows
        for segment, rows in zip(segments, kept, strict=True)
    ]
    return {
        TOKEN: pack(tokens.flat_values, "[CLS]", "[SEP]", ""),
        COLUMN: columns,
        START: pack(starts.flat_values, *nowhere),
        END: pack(ends.flat_values, *nowhere),
        CUT: tf.stack(cut, axis=1),
    }
