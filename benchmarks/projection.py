"""Projects what a run takes on data, encoders and machines that are not at hand.

    python -m benchmarks.projection --rows 4076 --rows 1000000 --rows 100000000
    python -m benchmarks.projection --rows 100000000 --encoder bert-base \
        --workers 64 --files 256 --devices 8 --gflops 60000 --link-gbps 400

Every part has a law with constants that were measured (docs/scale.md has both, and how
far off the law is where it was measured). Beam's workers are simulated: each takes the
next file when it is done with one. Prints a line for each part, and what bounds it.
"""

from __future__ import annotations

import dataclasses
import heapq
import math

import click
import numpy as np

from benchmarks import rounds
from modules.config.trainer import TrainerConfig

_FLOAT_BYTES = 4
_DAY = 86400.0


@dataclasses.dataclass(frozen=True)
class Encoder:
    """The size of an encoder.

    Attributes:
      layers: Its layers.
      hidden: Width of the hidden states; the inner one is four times as wide.
    """

    layers: int
    hidden: int

    @property
    def parameters(self) -> int:
        """Weights and biases of the layers, embeddings left out."""
        weights, biases = 12 * self.hidden**2, 13 * self.hidden
        return self.layers * (weights + biases)

    def forward_flops(self, tokens: float) -> float:
        """Returns the operations that a row takes (Kaplan et al. 2020, section 2.1).

        Args:
          tokens: Of the row.
        """
        attention = 4 * self.layers * self.hidden * tokens**2
        return 2 * self.parameters * tokens + attention


ENCODERS = {
    "bert-tiny": Encoder(2, 128),
    "minilm": Encoder(6, 384),
    "bert-base": Encoder(12, 768),
    "bert-large": Encoder(24, 1024),
}


@dataclasses.dataclass(frozen=True)
class Law:
    """What rows cost a part of the pipeline that Beam runs.

    Attributes:
      start: Seconds without any row, on a worker of its own.
      row: Seconds a row on one worker.
    """

    start: float
    row: float


# Measured on 2 cores; docs/scale.md says where each comes from.
LAWS = {
    "ImportExampleGen": Law(2.0, 80e-6),
    "StatisticsGen": Law(6.0, 70e-6),
    "DataGate": Law(1.8, 40e-6),
    "Transform": Law(7.5, 104e-6),
}
EVALUATOR = Law(6.0, 2.6e-3)  # the metrics; the encoder comes on top
IMPORTS = 14.0  # of the run's process
TRAINER_START = 30.0  # building, tracing, checkpoints, export
SERVING_CHECK = 14.0
INPUT_ROWS_PER_SECOND = 10_000.0  # that one host reads, parses and pads
WORKER_START = 12.0  # a process of Beam's imports TensorFlow
TRAINING_SHARE = 0.58  # of the rate of matrix multiplication
INFERENCE_SHARE = 0.55


@dataclasses.dataclass(frozen=True)
class Machines:
    """What a run has to itself.

    Attributes:
      workers: Of Beam; 1 is the component's own process.
      files: That the Examples of a split are in.
      devices: That train.
      gflops: Matrix multiplication of one device, in 1e9 operations a second.
      link_gbps: Of a device to the others, in 1e9 bits a second.
    """

    workers: int = 1
    files: int = 1
    devices: int = 1
    gflops: float = 200.0
    link_gbps: float = 100.0


@dataclasses.dataclass(frozen=True)
class Part:
    """What a part is projected to take.

    Attributes:
      name: Of the component.
      seconds: All of it.
      bound: What keeps it from being faster.
    """

    name: str
    seconds: float
    bound: str


def simulate_workers(rows: int, law: Law, machines: Machines) -> Part:
    """Simulates workers that take file after file, as a GZIP file cannot be split.

    Args:
      rows: In all files; a row's file is drawn, as ExampleGen's hash does.
      law: What they cost.
      machines: Workers and files.
    """
    chance = np.random.default_rng(0)
    files, workers = machines.files, machines.workers
    sizes = chance.multinomial(rows, [1 / files] * files)
    start = law.start + (WORKER_START if workers > 1 else 0)
    free = [start] * min(workers, files)
    heapq.heapify(free)
    for size in sorted(sizes, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + float(size) * law.row)
    end = max(free)
    work = rows * law.row
    if work < start:
        bound = "start"
    elif files < workers:
        bound = "files"
    else:
        bound = "rows ÷ workers" if end < 1.2 * (start + work / workers) else "files"
    return Part("", end, bound)


def training_step(
    encoder: Encoder, tokens: float, batch: int, machines: Machines
) -> tuple[float, str]:
    """Returns the seconds of a step, and what bounds it.

    Args:
      encoder: Its size.
      tokens: Of a row, on average.
      batch: Rows, over all devices.
      machines: Devices, their rate and their links.
    """
    rate = machines.gflops * 1e9 * TRAINING_SHARE * machines.devices
    compute = 3 * encoder.forward_flops(tokens) * batch / rate
    # A ring hands each gradient on twice (Patarasuk and Yuan 2009).
    passed = 2 * (machines.devices - 1) / machines.devices
    bytes_per_second = machines.link_gbps * 1e9 / 8
    reduce = passed * encoder.parameters * _FLOAT_BYTES / bytes_per_second
    # Every host reads every row and keeps its share.
    read = batch / INPUT_ROWS_PER_SECOND
    if read > compute + reduce:
        return read, "input"
    return compute + reduce, "links" if reduce > compute else "matrix products"


def project(
    rows: int,
    encoder: Encoder,
    machines: Machines,
    *,
    evaluated: int,
    tokens: float,
    epochs: int,
    batch: int,
) -> list[Part]:
    """Projects a run.

    Args:
      rows: Of the training split.
      encoder: Its size.
      machines: What there is.
      evaluated: Rows of the evaluation split.
      tokens: Of a row, on average.
      epochs: Of the training, each with an evaluation.
      batch: Rows a step.

    Returns:
      A part for each component that takes time, in order.
    """
    total = rows + evaluated
    parts = [Part("imports", IMPORTS, "start")]
    for name, law in LAWS.items():
        part = simulate_workers(total, law, machines)
        parts.append(dataclasses.replace(part, name=name))
    step, bound = training_step(encoder, tokens, batch, machines)
    steps = math.ceil(rows / batch) * epochs
    rate = machines.gflops * 1e9 * INFERENCE_SHARE
    answer = encoder.forward_flops(tokens) / rate
    parts += [
        Part("Trainer: start, export", TRAINER_START, "start"),
        Part("Trainer: steps", steps * step, bound),
        Part(
            "Trainer: evaluations",
            epochs * evaluated * answer / machines.devices,
            "matrix products",
        ),
        # One device predicts with what is exported.
        Part("Trainer: predictions", evaluated * answer, "one device"),
        Part("ServingCheck", SERVING_CHECK, "start"),
    ]
    # A worker of Beam's has a processor, not a device.
    law = dataclasses.replace(EVALUATOR, row=EVALUATOR.row + answer)
    evaluation = simulate_workers(evaluated, law, machines)
    return [*parts, dataclasses.replace(evaluation, name="Evaluator")]


def show_seconds(seconds: float) -> str:
    """Returns seconds, minutes, hours or days, whichever reads best."""
    for unit, size in (("days", _DAY), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


@click.command(help=__doc__)
@click.option("--rows", "counts", multiple=True, default=[4076], type=int)
@click.option("--evaluated", default=0.1, help="Share of the rows.", show_default=True)
@click.option("--encoder", type=click.Choice(list(ENCODERS)), default="minilm")
@click.option("--tokens", default=53.0, help="Of a row.", show_default=True)
@click.option("--epochs", default=TrainerConfig().epochs, show_default=True)
@click.option("--batch", default=TrainerConfig().batch_size, show_default=True)
@click.option("--workers", default=1, show_default=True, help="Of Beam.")
@click.option("--files", default=1, show_default=True, help="Of a split.")
@click.option("--devices", default=1, show_default=True, help="That train.")
@click.option("--gflops", default=200.0, show_default=True, help="Of one device.")
@click.option("--link-gbps", default=100.0, show_default=True, help="Of one device.")
def main(
    counts: tuple[int, ...],
    evaluated: float,
    encoder: str,
    tokens: float,
    epochs: int,
    batch: int,
    **machines: float,
) -> None:
    """Prints the table, a column for each number of rows."""
    columns = [
        project(
            rows,
            ENCODERS[encoder],
            Machines(**machines),  # type: ignore[arg-type]
            evaluated=round(rows * evaluated),
            tokens=tokens,
            epochs=epochs,
            batch=batch,
        )
        for rows in counts
    ]
    print(to_markdown(counts, columns))


def to_markdown(counts: tuple[int, ...], columns: list[list[Part]]) -> str:
    """Returns the table: a line for each part, a column for each number of rows."""
    lines = [
        [parts[0].name, *(f"{show_seconds(p.seconds)} ({p.bound})" for p in parts)]
        for parts in zip(*columns, strict=True)
    ]
    sums = [show_seconds(sum(part.seconds for part in parts)) for parts in columns]
    head = ["part", *(f"{count:,} rows" for count in counts)]
    return rounds.table(head, [*lines, ["all", *sums]])


if __name__ == "__main__":
    main()
