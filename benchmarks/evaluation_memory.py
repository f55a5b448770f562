"""Measures the memory that the Evaluator's batches of 1,000 rows take with BERT-base.

    python -m benchmarks.evaluation_memory --data DIR

A model of BERT-base's size, with random weights and the vocabulary of a recipe's
encoder, is exported as Trainer does it. Two processes load it and are fed serialized
Examples: rows of the evaluation split, and rows of twice 200 words, which all are cut
to the longest length that is allowed. Prints a table in Markdown. `--keep DIR` keeps
the exported model, and takes the one that is there.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchmarks import rounds
from benchmarks.peer import Figures
from benchmarks.rounds import Peer
from modules import environment
from pipeline.cli import options
from pipeline.config import recipe
from pipeline.config.paths import REPOSITORY
from pipeline.inputs import examples as examples_lib

if TYPE_CHECKING:
    from modules.encoder import EncoderDirectory

EVALUATED = "rows of the evaluation split"
LONGEST = "rows of the longest length"
ROWS = 1000  # TFMA's
_RECIPE = REPOSITORY / "configs" / "mrpc_minilm.yaml"
# google-research/bert, uncased_L-12_H-768_A-12; its vocabulary's size is the recipe's.
BERT_BASE = {
    "model_type": "bert",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
}


def write_encoder(directory: Path, vocabulary: list[str], **size: int) -> None:
    """Writes a Hugging Face folder with random weights.

    Args:
      directory: A new directory.
      vocabulary: Its words.
      **size: What is not as in BERT-base.
    """
    import numpy as np
    from safetensors.numpy import save_file

    from modules.encoder import hugging_face

    config = {**BERT_BASE, "vocab_size": len(vocabulary), **size}
    chance = np.random.default_rng(0)
    tensors = {
        name: 0.02 * chance.standard_normal(shape, np.float32)
        for name, shape in hugging_face.expected_shapes(config).items()
    }
    directory.mkdir(parents=True)
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary))


def export_model(
    config: recipe.Config, encoder: EncoderDirectory, directory: Path
) -> None:
    """Exports an untrained classifier on an encoder, with Transform's graph.

    Args:
      config: Names the task.
      encoder: The encoder.
      directory: A new directory; the SavedModel.
    """
    import tensorflow_transform as tft

    from modules import encoder as encoder_lib
    from modules.export import serving_model
    from modules.export.traced_model import TracedModel
    from modules.training.fine_tuning_task import FineTuningConfig, FineTuningTask

    length = config.preprocessing.max_seq_length
    params = FineTuningConfig(init_checkpoint=encoder.directory)
    model = FineTuningTask(params, config.task).build_model()
    encoder_lib.restore_encoder(model.checkpoint_items["encoder"], encoder)
    with tempfile.TemporaryDirectory() as graph:
        _run_transform(config, encoder.vocab_file, graph)
        serving_model.export_model(
            TracedModel(model),
            tft.TFTransformOutput(graph),
            config.task,
            str(directory),
            vocab_file=encoder.vocab_file,
            max_seq_length=length,
        )


def _run_transform(config: recipe.Config, vocab_file: str, graph: str) -> None:
    import apache_beam as beam
    import tensorflow_transform as tft
    import tensorflow_transform.beam as tft_beam
    from tensorflow_transform.tf_metadata import schema_utils

    from modules.data import preprocessing
    from pipeline.beam import beam_arguments
    from pipeline.inputs.schema import build_schema

    spec = schema_utils.schema_as_feature_spec(build_schema(config.task)).feature_spec
    metadata = tft.DatasetMetadata.from_feature_spec(spec)
    custom_config = {
        "task": config.task.model_dump(),
        "max_seq_length": config.preprocessing.max_seq_length,
        "vocab_file": vocab_file,
    }

    def preprocess(inputs: dict[str, Any]) -> dict[str, Any]:
        return preprocessing.preprocessing_fn(inputs, custom_config)

    with (
        tempfile.TemporaryDirectory() as temporary,
        beam.Pipeline(argv=list(beam_arguments(config.beam))) as pipeline,
        tft_beam.Context(temp_dir=temporary),
    ):
        # No analyzer needs a row: the graph does not depend on the data.
        rows = pipeline | beam.Create([], reshuffle=False)
        transform_fn = (rows, metadata) | tft_beam.AnalyzeDataset(preprocess)
        transform_fn | tft_beam.WriteTransformFn(graph)
        metadata | tft_beam.WriteMetadata(f"{graph}/metadata", pipeline)


def write_examples(path: Path, columns: list[str], rows: list[list[str]]) -> None:
    """Writes texts as serialized Examples.

    Args:
      path: A TFRecord file.
      columns: Names of the texts.
      rows: The texts of each row.
    """
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            example = tf.train.Example()
            for name, text in zip(columns, row, strict=True):
                value = example.features.feature[name].bytes_list.value
                value.append(text.encode())
            writer.write(example.SerializeToString())


def table(results: dict[str, list[Figures]]) -> str:
    """Returns a table in Markdown: memory in MB, and the time of a batch."""
    names = ("MB of imports", "MB loaded", "MB at most")
    lines = []
    for name, found in results.items():
        most = max(figures["MB at most"] for figures in found)
        above = most - found[0]["MB loaded"]
        cells = [f"{max(figures[key] for figures in found):.0f}" for key in names]
        seconds = rounds.spread(found, "s").format(1)
        lines.append([name, *cells, f"{above:.0f}", seconds])
    return rounds.table(["what", *names, "MB above the loaded model", "s"], lines)


@click.command(help=__doc__)
@click.option("--data", "source", required=True, help="Directory of TSV splits.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, exists=True),
    default=_RECIPE,
    help="Names the task and the vocabulary.  [default: configs/mrpc_minilm.yaml]",
)
@options.SET
@click.option("--keep", type=click.Path(path_type=Path), help="For the exported model.")
@click.option("--rounds", "count", type=int, default=2, show_default=True)
@click.option("--rows", type=int, default=ROWS, show_default=True)
@click.option("--short", is_flag=True, help="128 rows, 1 round.")
def main(
    source: str,
    config_file: Path,
    settings: tuple[str, ...],
    keep: Path | None,
    count: int,
    rows: int,
    short: bool,
) -> None:
    """Runs the command line."""
    environment.set_up(quiet=True)
    environment.set_up()
    overrides = dict(recipe.parse_override(text) for text in settings)
    config = recipe.load_config(config_file, {**overrides, "data.source": source})
    with _directory(keep) as directory:
        model = directory / "model"
        if not model.exists():
            _write_bert_base(config, directory)
        peers = _write_peers(config, directory, 128 if short else rows)
        results = rounds.run_rounds(peers, 1 if short else count)
    print(f"{rounds.describe_machine()}\n", file=sys.stderr)
    print(table(results))


@contextlib.contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def _write_bert_base(config: recipe.Config, directory: Path) -> None:
    from modules import encoder as encoder_lib
    from pipeline.inputs.encoder_source import resolve_encoder

    words = Path(resolve_encoder(config).vocab_file).read_text().splitlines()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "encoder"
        write_encoder(path, words)
        encoder = encoder_lib.open_encoder(str(path))
        export_model(config, encoder, directory / "model")


def _write_peers(config: recipe.Config, directory: Path, rows: int) -> list[Peer]:
    columns = config.task.text_columns
    table = examples_lib.read_table(
        examples_lib.find_tables(config.data_source)["eval"], config.task
    )
    evaluated = [
        [row[name] for name in columns] for _, row in itertools.islice(table, rows)
    ]
    longest = [["word " * 200 for _ in columns]]
    peers = []
    for name, texts in ((EVALUATED, evaluated), (LONGEST, longest)):
        examples = directory / f"{name}.tfrecord"
        write_examples(examples, columns, texts)
        settings = {"model": str(directory / "model"), "examples": str(examples)}
        peers.append(Peer(name, "evaluated_model.py", {**settings, "rows": rows}))
    return peers


if __name__ == "__main__":
    main()
