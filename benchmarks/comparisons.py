"""Compares the results of two Beam runners.

TensorFlow, TFDV and TFMA are imported where they are used: each takes seconds.
"""

from __future__ import annotations

import glob
import hashlib
import os
from typing import Any

import numpy as np

from contracts.storage import files
from ingest.rows import formats
from ingest.rows.row_file import RowFile

# Runners batch rows differently, which changes the last digits of floats.
_TOLERANCE = 1e-5
_COUNTS = ("num_non_missing", "num_missing", "min_num_values", "max_num_values")
_NUMBERS = ("mean", "std_dev", "min", "max", "median", "num_zeros")
_STRINGS = ("unique", "avg_length")


def compare_statistics(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Returns the differences of two outputs of StatisticsGen, as text.

    Quantiles are not compared: runners merge their sketches in different orders.
    """
    import tensorflow_data_validation as tfdv

    differences = []
    for path in sorted(glob.glob(f"{one['statistics']}/Split-*/*")):
        split = os.path.basename(os.path.dirname(path))
        twin = path.replace(one["statistics"], other["statistics"])
        left, right = (tfdv.load_stats_binary(p).datasets[0] for p in (path, twin))
        if left.num_examples != right.num_examples:
            differences.append(f"{left.num_examples} examples, {right.num_examples}")
        for a, b in zip(_by_name(left), _by_name(right), strict=True):
            differences += _compare_feature(a, b, f"{split} {a.path.step[0]}")
    return differences


def _by_name(statistics: Any) -> list[Any]:
    return sorted(statistics.features, key=lambda feature: feature.path.step[0])


def _compare_feature(a: Any, b: Any, where: str) -> list[str]:
    kind = a.WhichOneof("stats")
    left, right = getattr(a, kind), getattr(b, kind)
    differences = []
    for name in _COUNTS:
        x, y = (getattr(side.common_stats, name) for side in (left, right))
        if x != y:
            differences.append(f"{where}: {name} {x} and {y}")
    for name in _STRINGS if kind == "string_stats" else _NUMBERS:
        x, y = getattr(left, name), getattr(right, name)
        if not np.isclose(x, y, rtol=1e-6):
            differences.append(f"{where}: {name} {x} and {y}")
    if kind == "string_stats" and _top_values(left) != _top_values(right):
        differences.append(f"{where}: top values")
    return differences


def _top_values(statistics: Any) -> set[tuple[str, float]]:
    return {(top.value, top.frequency) for top in statistics.top_values}


def compare_rows(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Returns the differences of two outputs of Transform, in any order of rows."""
    differences = []
    root = one["transformed_examples"]
    for split in sorted(glob.glob(f"{root}/Split-*")):
        twin = split.replace(root, other["transformed_examples"])
        if (a := _hash_rows(split)) != (b := _hash_rows(twin)):
            differences.append(f"{os.path.basename(split)}: rows {a} and {b}")
    return differences


def _hash_rows(directory: str) -> tuple[int, int]:
    """Returns the number of rows and the sum of their hashes."""
    import tensorflow as tf

    count, total = 0, 0
    paths = files.list_records([f"{directory}/*"])
    for record in tf.data.TFRecordDataset(paths, "GZIP").as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        # A serialized map has no defined order.
        row = b"".join(
            name.encode() + features[name].SerializeToString()
            for name in sorted(features)
        )
        digest = hashlib.blake2b(row, digest_size=8).digest()
        count += 1
        total = (total + int.from_bytes(digest, "big")) % (1 << 64)
    return count, total


def compare_metrics(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Returns the differences of two outputs of the Evaluator, on all slices."""
    left, right = (_read_metrics(side["evaluation"]) for side in (one, other))
    differences = [f"{key}: only in one" for key in sorted(left.keys() ^ right.keys())]
    for key in sorted(left.keys() & right.keys()):
        if not np.isclose(left[key], right[key], atol=_TOLERANCE, equal_nan=True):
            differences.append(f"{key}: {left[key]} and {right[key]}")
    return differences


def _read_metrics(directory: str) -> dict[str, float]:
    import tensorflow_model_analysis as tfma

    result = tfma.load_eval_result(directory)
    values = {}
    for slice_key, metrics in result.slicing_metrics:
        for name, value in metrics[""][""].items():
            if (number := value.get("doubleValue")) is not None:
                values[f"{slice_key} {name}"] = float(number)
    return values


def compare_predictions(one: str, other: str) -> list[str]:
    """Returns the differences of two directories of predictions, in any order."""
    left, right = _read_predictions(one), _read_predictions(other)
    if left.keys() != right.keys():
        return [f"{len(left.keys() ^ right.keys())} rows are only in one"]
    return [
        f"row {key}: {left[key]} and {right[key]}"
        for key in left
        if left[key][0] != right[key][0]
        or not np.isclose(left[key][1], right[key][1], atol=2 * _TOLERANCE)
    ]


def _read_predictions(directory: str) -> dict[str, tuple[Any, float]]:
    rows = {}
    for path in glob.glob(f"{directory}/predictions-*"):
        for _, row in RowFile(path, formats.TSV).read():
            assert isinstance(row, dict)
            probability = float(row.get("probability", 0))
            rows[row["idx"]] = (row["prediction"], probability)
    return rows
