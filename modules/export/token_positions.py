"""The tokens that the model sees, and their positions in the texts."""

from __future__ import annotations

import tensorflow as tf

from modules.data import preprocessing

TOKEN = "token"
COLUMN = "column"
START = "start"
END = "end"
CUT = "cut"

_NOWHERE = -1  # the column and position of special tokens and padding


def find_tokens(
    texts: list[tf.Tensor], vocab_file: str, max_seq_length: int
) -> dict[str, tf.Tensor]:
    """Tokenizes, truncates and packs texts as the model does, and locates the tokens.

    Args:
      texts: One text, or the two of a pair, each string[batch].
      vocab_file: One token a line. Its encoder's settings are next to it.
      max_seq_length: Longest packed example in tokens, special tokens included.

    Returns:
      `token` string[batch, tokens], with special tokens; padding is empty. Of each
      token: `column` int64[batch, tokens], the index of its text, and `start` and
      `end` int64[batch, tokens], its bytes in that text; all three are -1 for special
      tokens and padding. `cut` int64[batch, texts], the tokens that each text lost.
    """
    # One call for all texts: every call embeds the vocabulary in the graph.
    located = preprocessing.build_tokenizer(
        vocab_file, tf.string
    ).tokenize_with_offsets(
        tf.strings.unicode_transcode(tf.concat(texts, 0), "UTF-8", "UTF-8")
    )
    batch = tf.shape(texts[0])[0]
    whole = [
        [values[i * batch : (i + 1) * batch] for i in range(len(texts))]
        for values in located
    ]
    tokens, starts, ends = (
        preprocessing.trim(values, max_seq_length) for values in whole
    )
    columns = [tf.ones_like(start) * index for index, start in enumerate(starts)]
    cut = [
        before.row_lengths() - after.row_lengths()
        for before, after in zip(whole[0], tokens, strict=True)
    ]
    return {
        TOKEN: _pack(tokens, "[CLS]", "[SEP]", padding=""),
        **{
            name: _pack(parts, _NOWHERE, _NOWHERE, padding=_NOWHERE)
            for name, parts in ((COLUMN, columns), (START, starts), (END, ends))
        },
        CUT: tf.stack(cut, axis=1),
    }


def _pack(
    parts: list[tf.RaggedTensor], first: str | int, last: str | int, padding: str | int
) -> tf.Tensor:
    rows, dtype = parts[0].nrows(), parts[0].dtype
    begin, end = (
        tf.RaggedTensor.from_tensor(tf.fill([rows, 1], tf.constant(value, dtype)))
        for value in (first, last)
    )
    packed = [begin]
    for part in parts:
        packed += [part, end]
    return tf.concat(packed, axis=1).to_tensor(default_value=padding)
