"""The part of a report about the text columns of a pair: benefit and cost of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from contracts import metrics
from contracts.metrics import Rows, Threshold
from contracts.packing import Packing
from contracts.records.serving import ALL_TEXTS, WITHOUT_COLUMN
from contracts.task.definition import TaskConfig
from contracts.versions import exported_model
from modules.evaluation import resampling
from modules.export import serving_model
from report.content import TextColumn


def describe_columns(
    task: TaskConfig,
    examples: Sequence[tf.train.Example],
    outputs: ArrayLike,
    permuted: Mapping[str, ArrayLike],
    vocab_file: str,
    packing: Packing,
    latency: Mapping[str, float],
    *,
    threshold: Threshold = None,
) -> list[TextColumn]:
    """Describes the text columns of a pair.

    The benefit of a column is its permutation importance (Breiman 2001): what the
    metric loses if each row has the column of another row. Texts stay as the model
    knows them, which an empty text is not.

    Args:
      task: Names the columns and the metrics.
      examples: Some rows of the split.
      outputs: Probabilities float64[rows, classes], or scores float64[rows].
      permuted: By column, the outputs if each row has that column of another row.
      vocab_file: One token a line. Its encoder's settings are next to it.
      packing: How texts become model inputs.
      latency: ServingCheck's `latency_of_columns_ms`; empty if it was not timed.
      threshold: As in `Rows.of`.
    """
    features = [example.features.feature for example in examples]
    label, kind = task.label_column, task.label_kind
    labels = kind.from_table(
        np.array([getattr(row[label], kind.feature_list).value for row in features])
    )
    names = [name for name in task.metrics if "/" not in name or name == task.metric]
    rows = Rows.of(labels, np.asarray(outputs, float), threshold=threshold)
    texts = [
        tf.constant([row[name].bytes_list.value[0] for row in features])
        for name in task.text_columns
    ]
    tokens = serving_model.find_tokens(texts, vocab_file, packing)
    cut = tokens[exported_model.CUT].numpy()
    columns = tokens[exported_model.COLUMN].numpy()
    read = [int(np.sum(columns == index)) for index in range(len(texts))]
    of_model = metrics.compute(task.classes, rows, names)
    described = []
    for index, name in enumerate(task.text_columns):
        values = np.asarray(permuted[name], float)
        without = Rows.of(labels, values, threshold=threshold)
        seconds = latency.get(WITHOUT_COLUMN.format(name))
        time_share = None
        if seconds is not None:
            time_share = max(0.0, 1 - seconds / latency[ALL_TEXTS])
        described.append(
            TextColumn(
                name=name,
                metrics=of_model,
                permuted=metrics.compute(task.classes, without, names),
                test=resampling.paired_test(task, without, rows, task.metric),
                tokens=read[index] / len(rows),
                token_share=read[index] / max(sum(read), 1),
                time_share=time_share,
                cut_rows=int(np.count_nonzero(cut[:, index])),
            )
        )
    return described
