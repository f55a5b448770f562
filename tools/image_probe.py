"""Checks the project from inside the image's Python, far from the checkout.

    python image_probe.py OUTPUT_FILE DATA_FOLDER PACKAGE...

Writes the problems by check to OUTPUT_FILE, as JSON, and an input for DataGate to
DATA_FOLDER.
"""

# TensorFlow first, as in TFX's own entry point.
import tensorflow as tf  # isort: skip

import importlib
import json
import pkgutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path


def keras_is_legacy() -> Iterator[str]:
    """TFT, TFMA and the Model Garden need Keras 2."""
    if tf.keras.Model.__module__.split(".")[0] != "tf_keras":
        yield f"tf.keras is {tf.keras.__name__} {tf.keras.__version__}, not tf_keras"


def modules_import(packages: list[str]) -> Iterator[str]:
    """All modules of the project, and tensorflow-text, can be imported."""
    names = ["tensorflow_text"]
    for package in packages:
        path = importlib.import_module(package).__path__
        names += [module.name for module in pkgutil.iter_modules(path, f"{package}.")]
    for name in names:
        if name.endswith(".__main__"):
            continue
        module = importlib.import_module(name)
        if not _is_in_image(module):
            yield f"{name} is from {module.__file__}, outside of the image"


def _is_in_image(module: types.ModuleType) -> bool:
    return Path(module.__file__ or "").is_relative_to(sys.prefix)


def bytecode_is_there() -> Iterator[str]:
    """All modules imported so far were compiled at installation."""
    missing = [
        module.__file__
        for module in list(sys.modules.values())
        if (cached := getattr(module, "__cached__", None))
        and _is_in_image(module)
        and not Path(cached).exists()
    ]
    if missing:
        yield f"{len(missing)} modules are not compiled, the first is {missing[0]}"


def write_data_gate_input(folder: Path) -> None:
    """Writes tokenized Examples, their schema, and anomalies without a finding."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

    text = 'feature { name: "input_ids" type: INT presence { min_fraction: 1 } }'
    schema = text_format.Parse(text, schema_pb2.Schema())
    anomalies = anomalies_pb2.Anomalies(baseline=schema)
    for name in ("schema", "anomalies/Split-train", "examples/Split-train"):
        (folder / name).mkdir(parents=True)
    (folder / "schema/schema.pbtxt").write_text(text)
    path = folder / "anomalies/Split-train/SchemaDiff.pb"
    path.write_bytes(anomalies.SerializeToString())
    path = folder / "examples/Split-train/data_tfrecord-00000-of-00001.gz"
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for label in (0, 1):
            example = tf.train.Example()
            for name, value in (
                *(("input_ids", 7 + label), ("input_mask", 1), ("segment_ids", 0)),
                *(("label_ids", label), ("example_id", label)),
            ):
                example.features.feature[name].int64_list.value.append(value)
            writer.write(example.SerializeToString())


def main() -> None:
    """Runs all checks and writes their problems."""
    output, folder, *packages = sys.argv[1:]
    problems = {
        "TFX's entry point uses Keras 2": list(keras_is_legacy()),
        "all modules of the project can be imported": list(modules_import(packages)),
        "imported modules are compiled": list(bytecode_is_there()),
    }
    write_data_gate_input(Path(folder))
    Path(output).write_text(json.dumps(problems))


if __name__ == "__main__":
    main()
