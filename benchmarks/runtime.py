"""Compares the runtime with ONNX Runtime alone and with TensorFlow.

    python -m benchmarks.runtime --config configs/mrpc_minilm.yaml --data DIR --model
    OUTPUT/serving/mrpc-minilm

The model is exported to a folder, also with weights in int8. The metrics of both are
measured on the split `test`. One thread predicts the rows of the evaluation split, in
batches of 1 and of 32: a session of ONNX Runtime with token ids that were prepared,
`bert_runtime.Model`, and the SavedModel in TensorFlow. Servers get requests of one row
over HTTP from 1 client. `predict` and `serve` of both command lines are started anew in
each round. The runtime has a separate environment. Prints tables in Markdown.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from benchmarks import latency, peer_environment, rounds, serving_load
from benchmarks.peer import Figures
from benchmarks.peers import commands, server
from benchmarks.rounds import THREADS, Peer
from benchmarks.serving import SHORT_ROWS, read_rows
from contracts.task.definition import TaskConfig
from ingest import examples
from modules import environment
from pipeline.cli import options
from pipeline.config import recipe
from portable.folder import INT8_FILE, ONNX_FILE
from portable.model import ROWS_AT_A_TIME
from serving import discovery

BARE = "ONNX Runtime, ids prepared, sorted and in chunks"
BARE_PADDED = "ONNX Runtime, ids prepared, all padded to the longest"
MODEL = "`bert_runtime.Model`"
MODEL_INT8 = f"{MODEL}, int8"
SAVED_MODEL = "the SavedModel in TensorFlow"
SERVER = "`bert-runtime serve`"
PIPELINE_SERVER = "`bert-pipeline serve`"
COMMANDS = "`bert-runtime`"
PIPELINE_COMMANDS = "`bert-pipeline`"
BATCH = 32
METRICS = ("accuracy", "f1")

_P50, _P99 = (latency.at(name, 1) for name in (latency.P50, latency.P99))
_RATE = latency.at(latency.ROWS_PER_SECOND, BATCH)
RUNTIME_MODULE = "bert_runtime.cli.main"
STARTS = (
    (commands.CPU_SECONDS, 2),
    (commands.SECONDS, 2),
    (commands.READY_SECONDS, 2),
    (commands.MEMORY, 0),
)
Results = dict[str, list[Figures]]
Metrics = dict[str, dict[str, float]]  # by file


def measure(
    config: recipe.Config,
    model: Path,
    texts: list[list[str]],
    count: int,
    seconds: float,
    python: str | None,
) -> tuple[Results, Metrics]:
    """Exports the model, and runs the peers in turn.

    Args:
      config: Names the task and its data.
      model: A directory of versions or a SavedModel, as for `serve --model`.
      texts: The rows.
      count: Number of rounds.
      seconds: Time of a round for the clients of a server.
      python: The Python that runs the runtime; None creates an environment.

    Returns:
      The figures of each round, and the metrics of each ONNX file.
    """
    versions = discovery.find_model(model).scan()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        rows = directory / "rows.json"
        rows.write_text(json.dumps(texts))
        metrics = export(config, model, directory)
        peers = prepare_peers(
            config.task,
            versions[max(versions)],
            directory / "folder",
            rows,
            seconds,
            python or peer_environment.build_runtime(directory / "environment"),
        )
        return rounds.run_rounds(peers, count), metrics


def export(config: recipe.Config, model: Path, directory: Path) -> Metrics:
    """Writes the portable folder of a model as `folder`; returns its metrics."""
    from prediction.export import folders  # imports TensorFlow

    records = directory / "records"
    examples.prepare(
        config.data_source, str(records), config.task, settings=config.data
    )
    evaluation = folders.export(
        str(model),
        str(directory / "folder"),
        lambda line: None,
        target_format="onnx",
        is_int8=True,
        examples=f"{records}/test/*",
        label_column=config.task.label_column,
    )
    assert evaluation is not None  # there are Examples
    return evaluation.values


def prepare_peers(
    task: TaskConfig,
    model: Path,
    folder: Path,
    rows: Path,
    seconds: float,
    python: str,
) -> list[Peer]:
    """Returns the processes to measure.

    Args:
      task: Names the columns.
      model: The SavedModel.
      folder: The portable folder.
      rows: A JSON file of the texts of each row.
      seconds: Time of a round for the clients of a server.
      python: The Python that runs the runtime.
    """

    def settings(served: Path, **more: Any) -> dict[str, Any]:
        common = {"model": str(served), "rows": str(rows), "threads": THREADS}
        columns = {"columns": task.text_columns, "options": [], "predictions": None}
        return {**common, **columns, "seconds": seconds, "sizes": [1, BATCH], **more}

    bare = settings(folder, file=ONNX_FILE, chunk=ROWS_AT_A_TIME)
    threads = ["--threads", str(THREADS)]
    runtime = {"module": RUNTIME_MODULE, "options": threads}
    pipeline = {"module": server.PIPELINE}
    return [
        Peer(BARE, "onnx_runtime.py", bare, python),
        Peer(BARE_PADDED, "onnx_runtime.py", {**bare, "chunk": None}, python),
        Peer(MODEL, "runtime_model.py", settings(folder, is_int8=False), python),
        Peer(MODEL_INT8, "runtime_model.py", settings(folder, is_int8=True), python),
        Peer(SAVED_MODEL, "saved_model.py", settings(model)),
        Peer(
            SERVER,
            "server.py",
            settings(folder, module=RUNTIME_MODULE, clients=[1]),
            python,
        ),
        Peer(PIPELINE_SERVER, "server.py", settings(model, **pipeline, clients=[1])),
        Peer(
            COMMANDS, "commands.py", settings(folder, **runtime, clients=BATCH), python
        ),
        Peer(
            PIPELINE_COMMANDS, "commands.py", settings(model, **pipeline, clients=BATCH)
        ),
    ]


def row_table(results: Results) -> str:
    """Returns a table of the predictions of one row."""
    lines = []
    for name in (BARE, MODEL, SAVED_MODEL, SERVER, PIPELINE_SERVER):
        theirs = results[name]
        above = rounds.difference(theirs, results[MODEL], _P50).format(2)
        lines.append(
            [
                name,
                *_compare(theirs, results[BARE], _P50, 2),
                "" if name in (BARE, MODEL) else above,
                rounds.spread(theirs, _P99).format(1),
            ]
        )
    head = ["1 row", "p50 ms", "÷ bare", "ms more than `Model`", "p99 ms"]
    return rounds.table(head, lines)


def batch_table(results: Results) -> str:
    """Returns a table of the predictions of a batch."""
    lines = [
        [name, *_compare(results[name], results[BARE], _RATE, 1)]
        for name in (BARE, BARE_PADDED, MODEL, SAVED_MODEL)
    ]
    return rounds.table([f"{BATCH} rows", "rows/s", "÷ bare"], lines)


def weights_table(results: Results, metrics: Metrics) -> str:
    """Returns a table of weights in float32 and in int8."""
    lines = [
        [
            weights,
            *(f"{metrics[file][metric]:.4f}" for metric in METRICS),
            *_compare(results[name], results[MODEL], _P50, 2),
            *_compare(results[name], results[MODEL], _RATE, 1),
        ]
        for weights, file, name in (
            ("float32", ONNX_FILE, MODEL),
            ("int8", INT8_FILE, MODEL_INT8),
        )
    ]
    ratio = "÷ float32"
    head = ["weights", *METRICS, "p50 ms, 1 row", ratio, f"rows/s, {BATCH} rows", ratio]
    return rounds.table(head, lines)


def start_table(results: Results) -> str:
    """Returns a table of the commands' start and memory."""
    ours, theirs = results[COMMANDS], results[PIPELINE_COMMANDS]
    lines = [
        [
            figure,
            rounds.spread(ours, figure).format(digits),
            rounds.spread(theirs, figure).format(digits),
            rounds.ratio(ours, theirs, figure).format(2),
        ]
        for figure, digits in STARTS
    ]
    return rounds.table(["what", COMMANDS, PIPELINE_COMMANDS, "ratio"], lines)


def _compare(
    theirs: list[Figures], base: list[Figures], figure: str, digits: int
) -> list[str]:
    """Returns the cells of a figure: its spread, and the spread of its ratio."""
    ratio = rounds.ratio(theirs, base, figure).format(2)
    spread = rounds.spread(theirs, figure).format(digits)
    return [spread, "" if theirs is base else ratio]


@click.command(help=__doc__)
@options.CONFIG
@options.SET
@click.option("--data", "source", help="Directory of TSV splits, as for `run`.")
@serving_load.MODEL_OPTION
@click.option("--rounds", "count", type=int, default=5, show_default=True)
@click.option("--short", is_flag=True, help=f"{SHORT_ROWS} rows, 1 round.")
@click.option(
    "--python",
    help="Python that runs the runtime. Default: a new environment of its lock.",
)
def main(
    config_file: Path,
    overrides: dict[str, Any],
    source: str | None,
    model: Path,
    count: int,
    short: bool,
    python: str | None,
) -> None:
    """Measures, and prints the tables."""
    environment.set_up(quiet=True)
    if source is not None:
        overrides["data.source"] = source
    config = recipe.load_config(config_file, overrides)
    texts = read_rows(config, SHORT_ROWS if short else None)
    count, seconds = (1, 2.0) if short else (count, 6.0)
    results, metrics = measure(config, model, texts, count, seconds, python)
    print(f"{len(texts)} rows, {rounds.describe_machine()}\n", file=sys.stderr)
    tables = (row_table, batch_table, start_table)
    print(*(table(results) for table in tables), sep="\n\n", end="\n\n")
    print(weights_table(results, metrics))


if __name__ == "__main__":
    main()
