"""The rows as DataGate judges them: arrays of text hashes, labels and lengths."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from contracts.task.definition import NO_ID, TOKENIZED_FEATURES, TaskConfig

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow.core.example.example_pb2 import Example

# The bit in which a pair and its reverse differ. It is the lowest one: hashes without
# it keep their order, and the split of a data set depends on it.
_REVERSED = np.uint64(1)


@dataclasses.dataclass(frozen=True, eq=False)
class RowFacts:
    """The rows of a split, without their texts: 52 bytes a row.

    Attributes:
      texts: `hash_texts` of each row, uint64[rows].
      labels: Indices of classes, or scores, float64[rows]; or 0 or 1 for each of
        several labels, float64[rows, classes]. Rows with a label that the task does not
        allow are left out.
      lengths: Packed tokens before truncation, special tokens included, int32[rows].
      tokens: Tokens before truncation, without special tokens, int32[rows].
      words: The first tokens of a word among them, int32[rows].
      unknown: `[UNK]` among them, int32[rows].
      letters: Single letters within a word among them, such as `##a`, int32[rows].
      ids: The id column, -1 where the id is missing, int64[rows].
      records: The caller's key of a row: `hash_record` of its Example, or its index,
        uint64[rows].
    """

    texts: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray
    tokens: np.ndarray
    words: np.ndarray
    unknown: np.ndarray
    letters: np.ndarray
    ids: np.ndarray
    records: np.ndarray

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype))

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def concatenate(cls, parts: Iterable[RowFacts]) -> RowFacts:
        """Returns the rows of all parts, in their order."""
        filled = [part for part in parts if len(part)]
        if not filled:
            return cls(**{name: np.empty(0, dtype) for name, dtype in _DTYPES.items()})
        columns = {name: [vars(part)[name] for part in filled] for name in _DTYPES}
        return cls(**{name: np.concatenate(c) for name, c in columns.items()})

    def take(self, rows: np.ndarray) -> RowFacts:
        """Returns some rows."""
        return RowFacts(**{name: vars(self)[name][rows] for name in _DTYPES})

    @property
    def has_one_label(self) -> bool:
        """Whether all rows have the same label, or the same set of several labels."""
        return bool((self.labels == self.labels[:1]).all())

    @property
    def label_numbers(self) -> np.ndarray:
        """A number for each label, and for each set of several labels, float64[rows].

        Rows have the same number if they have the same labels.
        """
        if self.labels.ndim == 1:
            return self.labels
        _, numbers = np.unique(self.labels, axis=0, return_inverse=True)
        return numbers.reshape(-1).astype(float)  # NumPy 2.0.0 has two dimensions


_DTYPES = {
    "texts": np.uint64,
    "labels": np.float64,
    "lengths": np.int32,
    "tokens": np.int32,
    "words": np.int32,
    "unknown": np.int32,
    "letters": np.int32,
    "ids": np.int64,
    "records": np.uint64,
}


def hash_texts(texts: Sequence[str]) -> int:
    """Returns a hash of 64 bits, which is the same for texts that count as equal.

    Texts count as equal if they differ only in letter case, white space, or
    compatibility forms of Unicode (NFKC: full-width letters, ligatures). A pair and its
    reverse have different hashes, which `without_order` makes equal.
    """
    lines = [
        " ".join(unicodedata.normalize("NFKC", text).casefold().split())
        for text in texts
    ]
    in_order = sorted(lines)
    # `split` has removed all line breaks from the texts.
    number = _hash("\n".join(in_order).encode("utf-8", "surrogatepass"))
    return number if lines == in_order else number ^ int(_REVERSED)


def without_order(texts: np.ndarray) -> np.ndarray:
    """Returns hashes that are equal for a pair and its reverse, uint64[rows].

    Args:
      texts: `hash_texts` of each row, uint64[rows].
    """
    return texts & ~_REVERSED


def hash_record(serialized: bytes) -> int:
    """Returns a hash of 64 bits of a serialized Example, in any order of features.

    ExampleGen serializes it anew, and protobuf does not fix the order of a map.
    """
    # Imported here for the same reason as in `count_tokens`.
    from tensorflow.core.example.example_pb2 import Example

    return _hash(Example.FromString(serialized).SerializeToString(deterministic=True))


class TokenCounts(NamedTuple):
    """The tokens of each row before truncation, as in `RowFacts`, int32[rows] each."""

    lengths: np.ndarray
    tokens: np.ndarray
    words: np.ndarray
    unknown: np.ndarray
    letters: np.ndarray


def count_tokens(segments: list[list[str]], vocab_file: str) -> TokenCounts:
    """Counts the tokens of each row.

    Args:
      segments: One text column, or the two of a pair, each with a text per row.
      vocab_file: One token a line. Its encoder's settings are next to it.
    """
    # Imported here, because `judgment` and `profile` need this module without
    # TensorFlow.
    import tensorflow as tf

    texts = [tf.constant(column, tf.string, [len(column)]) for column in segments]
    ids = tf.concat(_tokenizer(vocab_file, len(texts))(texts), axis=1)
    special = 1 + len(segments)  # [CLS], and each [SEP]
    return _count(ids.flat_values.numpy(), ids.row_lengths(), special, vocab_file)


def describe_examples(
    hashed: list[tuple[int, bytes]], task: TaskConfig, vocab_file: str
) -> RowFacts:
    """Returns the facts of Examples, each with its `hash_record`.

    Rows without a text, or with a label that the task does not allow, are left out,
    because the schema refuses them.
    """
    # Imported here for the same reason as in `count_tokens`.
    from tensorflow.core.example.example_pb2 import Example

    rows = []
    kind = task.label_kind
    for key, record in hashed:
        example = Example.FromString(record)
        values = _read(example, task.label_column, kind.feature_list)
        label = kind.read(values)
        if label is None:
            continue
        content: list[Any]
        if task.is_tokenized:
            ids, mask, _ = (
                _read(example, name, "int64_list") for name in TOKENIZED_FEATURES
            )
            if not ids or len(ids) != len(mask):
                continue
            tokens = zip(ids, mask, strict=True)
            content = [token for token, is_real in tokens if is_real]
        else:
            texts = [_read(example, name, "bytes_list") for name in task.text_columns]
            if any(len(values) != 1 for values in texts):
                continue
            content = [values[0].decode("utf-8", "replace") for values in texts]
        number = _read(example, task.id_column, "int64_list")
        rows.append((content, label, [*number, NO_ID][0], key))
    if not rows:
        return RowFacts.concatenate([])
    contents, labels, row_ids, keys = zip(*rows, strict=True)
    if task.is_tokenized:
        hashes = [_hash(np.asarray(ids, np.int64).tobytes()) for ids in contents]
        counts = _count(
            np.concatenate(contents), list(map(len, contents)), 0, vocab_file
        )
    else:
        hashes = list(map(hash_texts, contents))
        columns = [list(column) for column in zip(*contents, strict=True)]
        counts = count_tokens(columns, vocab_file)
    return RowFacts(
        texts=np.array(hashes, np.uint64),
        labels=np.array(labels),
        **counts._asdict(),
        ids=np.array(row_ids),
        records=np.array(keys, np.uint64),
    )


def _count(
    ids: np.ndarray, sizes: Sequence[int], special: int, vocab_file: str
) -> TokenCounts:
    """Counts the tokens of rows.

    Args:
      ids: The token ids of all rows, int64[tokens].
      sizes: Number of ids of each row, int[rows].
      special: Number of special tokens of a row that `ids` lacks.
      vocab_file: One token a line.
    """
    rows = np.repeat(np.arange(len(sizes)), sizes)
    kinds = _kinds(vocab_file)
    # Tokenized examples may have ids outside the vocabulary, which Transform refuses.
    is_known = (ids >= 0) & (ids < len(kinds[0]))
    ids, rows = ids[is_known], rows[is_known]
    counts = (np.bincount(rows[kind[ids]], minlength=len(sizes)) for kind in kinds)
    return TokenCounts(np.asarray(sizes) + special, *counts)


@functools.lru_cache(maxsize=4)
def _tokenizer(
    vocab_file: str, segments: int
) -> Callable[[list[tf.Tensor]], list[tf.RaggedTensor]]:
    """Returns `preprocessing.tokenize` as a graph.

    Without one, each call would read the encoder's settings and copy its vocabulary,
    and threads of Python would wait for each other at each op.
    """
    import tensorflow as tf

    from modules.data import preprocessing

    # A graph that is deleted after TensorFlow's modules prints an error.
    atexit.register(_tokenizer.cache_clear)
    return tf.function(
        functools.partial(preprocessing.tokenize, vocab_file=vocab_file),
        input_signature=[[tf.TensorSpec([None], tf.string)] * segments],
        autograph=False,
    )


@functools.lru_cache(maxsize=4)
def _kinds(vocab_file: str) -> tuple[np.ndarray, ...]:
    """Returns which ids `tokens`, `words`, `unknown` and `letters` of a row count."""
    from modules.data import preprocessing

    vocab = preprocessing.read_vocab(vocab_file)
    is_special = np.isin(vocab, ("[PAD]", "[CLS]", "[SEP]"))
    is_suffix = np.array([word.startswith("##") for word in vocab])
    is_letter = [len(word) == 3 and not word[2].isnumeric() for word in vocab]
    return (
        ~is_special,
        ~is_special & ~is_suffix,
        np.array(vocab) == "[UNK]",
        is_suffix & is_letter,
    )


def _hash(content: bytes) -> int:
    digest = hashlib.blake2b(content, digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _read(example: Example, column: str, kind: str) -> list[Any]:
    """Returns the values of a feature; empty if they are missing or of another kind."""
    features = example.features.feature
    # Reading a missing key of a protobuf map would add it.
    return list(getattr(features[column], kind).value) if column in features else []
