"""The names of the features that every evaluation is sliced by."""

from __future__ import annotations

from contracts.task.definition import TaskConfig

PAIR_LENGTH = "pair_length"
WORD_OVERLAP = "word_overlap"
SENTENCE_LENGTH = "sentence_length"
TOKEN_LENGTH = "token_length"


def slice_keys(task: TaskConfig) -> list[str]:
    """Returns the features of a task's model that its evaluation is sliced by.

    TFMA would read a label from a slice feature of its name.
    """
    if task.is_tokenized:
        keys = [TOKEN_LENGTH]
    elif len(task.text_columns) == 1:
        keys = [SENTENCE_LENGTH]
    else:
        keys = [PAIR_LENGTH, WORD_OVERLAP]
    return [task.own_name(key) for key in keys]
