"""Runs in the image's Python, far from the checkout, and tells what is wrong there.

Usage: image_probe.py OUTPUT_FILE SCRATCH_FOLDER PACKAGE...
Writes to OUTPUT_FILE, as JSON, the problems by check. Leaves an input for DataGate in
SCRATCH_FOLDER.
"""

# TensorFlow first, as TFX's own entry point has it.
import tensorflow as tf  # isort: skip

import importlib
import json
import pkgutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path


def keras_is_legacy() -> Iterator[str]:
    """TFT, TFMA and the Model Garden are written against Keras 2."""
    if tf.keras.Model.__module__.split(".")[0] != "tf_keras":
        yield f"tf.keras is {tf.keras.__name__} {tf.keras.__version__}, not tf_keras"


def imports(packages: list[str]) -> Iterator[str]:
    """All of the project's modules, and what the exported model's ops come from."""
    names = ["tensorflow_text"]
    for package in packages:
        path = importlib.import_module(package).__path__
        names += [module.name for module in pkgutil.iter_modules(path, f"{package}.")]
    for name in names:
        if name.endswith(".__main__"):
            continue
        module = importlib.import_module(name)
        if not _is_ours(module):
            yield f"{name} is from {module.__file__}, outside of the image"
    if len(names) < 2:
        yield "there is no project in the image"


def _is_ours(module: types.ModuleType) -> bool:
    return Path(module.__file__ or "").is_relative_to(sys.prefix)


def trains() -> Iterator[str]:
    """What TFX's Transform and Trainer are told to call by these names."""
    for path in (
        "modules.data.preprocessing.preprocessing_fn",
        "modules.training.run_fn.run_fn",
    ):
        module, name = path.rsplit(".", 1)
        if not callable(getattr(importlib.import_module(module), name, None)):
            yield f"{path} is no function"


def bytecode() -> Iterator[str]:
    """Whatever was imported until now was compiled when it was installed."""
    missing = [
        module.__file__
        for module in list(sys.modules.values())
        if (cached := getattr(module, "__cached__", None))
        and _is_ours(module)
        and not Path(cached).exists()
    ]
    if missing:
        yield f"{len(missing)} modules are not compiled, the first {missing[0]}"


def write_input(folder: Path) -> None:
    """Writes one example that fits its schema, and no anomalies."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

    schema = schema_pb2.Schema()
    text_format.Parse('feature { name: "id" type: INT }', schema)
    schema.feature[0].presence.min_fraction = 1
    example = tf.train.Example()
    example.features.feature["id"].int64_list.value.append(7)
    files = {
        "schema/schema.pbtxt": text_format.MessageToString(schema).encode(),
        "anomalies/Split-train/SchemaDiff.pb": anomalies_pb2.Anomalies(
            baseline=schema
        ).SerializeToString(),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(content)
    (folder / "examples/Split-train").mkdir(parents=True)
    path = folder / "examples/Split-train/data_tfrecord-00000-of-00001.gz"
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        writer.write(example.SerializeToString())


def main() -> None:
    """Looks at everything, and writes down what it saw."""
    output, scratch, *packages = sys.argv[1:]
    problems = {
        "Keras is the legacy one for TFX's entry point too": list(keras_is_legacy()),
        "all of the project can be imported": list(imports(packages)),
        "what TFX calls is there": list(trains()),
        "imports are compiled": list(bytecode()),
    }
    write_input(Path(scratch))
    Path(output).write_text(json.dumps(problems))


if __name__ == "__main__":
    main()
