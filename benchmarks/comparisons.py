"""What differs between the results of two of Beam's runners."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.inputs import examples

# Rows of one runner and another may be batched with others, which moves floats.
_TOLERANCE = 1e-5


def compare_statistics(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Returns what differs between two outputs of StatisticsGen.

    Quantiles are left out: their sketches are merged in another order.
    """
    import tensorflow_data_validation as tfdv

    found = []
    for path in sorted(glob.glob(f"{one['statistics']}/Split-*/*")):
        twin = path.replace(one["statistics"], other["statistics"])
        left, right = (
            tfdv.load_stats_binary(each).datasets[0] for each in (path, twin)
        )
        for a, b in zip(_by_name(left), _by_name(right), strict=True):
            found += _compare_feature(a, b, os.path.basename(os.path.dirname(path)))
        if left.num_examples != right.num_examples:
            found.append(f"{left.num_examples} examples and {right.num_examples}")
    return found


def _by_name(statistics: Any) -> list[Any]:
    return sorted(statistics.features, key=lambda f: f.path.step[0])


def _compare_feature(a: Any, b: Any, split: str) -> list[str]:
    where = f"{split} {a.path.step[0]}"
    kind = a.WhichOneof("stats")
    left, right = getattr(a, kind), getattr(b, kind)
    found = []
    for name in ("num_non_missing", "num_missing", "min_num_values", "max_num_values"):
        values = [getattr(each.common_stats, name) for each in (left, right)]
        if values[0] != values[1]:
            found.append(f"{where}: {name} {values[0]} and {values[1]}")
    names: tuple[str, ...] = ("mean", "std_dev", "min", "max", "median", "num_zeros")
    if kind == "string_stats":
        names = ("unique", "avg_length")
        tops = [
            [(v.value, v.frequency) for v in each.top_values] for each in (left, right)
        ]
        if [sorted(top, key=str) for top in tops[:1]] != [sorted(tops[1], key=str)]:
            found.append(f"{where}: top values")
    for name in names:
        values = [getattr(each, name) for each in (left, right)]
        if not np.isclose(values[0], values[1], rtol=1e-6):
            found.append(f"{where}: {name} {values[0]} and {values[1]}")
    return found


def compare_rows(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Returns what differs between two outputs of Transform, in any order of rows."""
    found = []
    root = one["transformed_examples"]
    for split in sorted(glob.glob(f"{root}/Split-*")):
        twin = split.replace(root, other["transformed_examples"])
        if (a := _hash_rows(split)) != (b := _hash_rows(twin)):
            found.append(f"{os.path.basename(split)}: rows {a} and {b}")
    return found


def _hash_rows(directory: str) -> tuple[int, int]:
    """Returns the number of rows and a sum of their hashes, which has no order."""
    import tensorflow as tf

    count, total = 0, 0
    paths = sorted(glob.glob(f"{directory}/*"))
    for record in tf.data.TFRecordDataset(paths, "GZIP").as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        # A map's fields have no order of their own on the wire.
        row = b"".join(
            name.encode() + features[name].SerializeToString()
            for name in sorted(features)
        )
        count += 1
        total = (total + hash_bytes(row)) % (1 << 64)
    return count, total


def hash_bytes(row: bytes) -> int:
    """Returns a 64-bit hash that is the same in every process."""
    import hashlib

    return int.from_bytes(hashlib.blake2b(row, digest_size=8).digest(), "big")


def compare_metrics(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Returns what differs between two outputs of the Evaluator, slices included."""
    left, right = (_read_metrics(each["evaluation"]) for each in (one, other))
    found = [f"{key}: only in one" for key in sorted(left.keys() ^ right.keys())]
    for key in sorted(left.keys() & right.keys()):
        if not np.isclose(left[key], right[key], atol=_TOLERANCE, equal_nan=True):
            found.append(f"{key}: {left[key]} and {right[key]}")
    return found


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
    """Returns what differs between two directories of predictions, in any order."""
    left, right = _read_predictions(one), _read_predictions(other)
    if left.keys() != right.keys():
        return [f"{len(left.keys() ^ right.keys())} rows are only in one"]
    return [
        f"row {key}: {left[key]} and {right[key]}"
        for key in left
        if left[key][0] != right[key][0]
        or not np.isclose(left[key][1], right[key][1], atol=2 * _TOLERANCE)
    ][:10]


def _read_predictions(directory: str) -> dict[str, tuple[Any, float]]:
    rows = {}
    for path in glob.glob(f"{directory}/predictions-*"):
        for _, row in examples.read_table(Path(path)):
            probability = float(row.get("probability", 0))
            rows[row["idx"]] = (row["prediction"], probability)
    return rows
