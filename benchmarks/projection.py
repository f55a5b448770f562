"""Projects the time of a run with other data, encoders and machines.

    python -m benchmarks.projection --rows 4076 --rows 1000000 --rows 100000000
    python -m benchmarks.projection --rows 100000000 --encoder bert-base \
        --workers 64 --files 256 --devices 8 --gflops 60000 --link-gbps 400

Each part of a run has a formula with measured constants; docs/scale.md has their
sources and errors. Beam's workers are simulated: each reads the next file after it has
finished one. Prints a table in Markdown with the time and the bottleneck of each part.
"""

from __future__ import annotations

import dataclasses
import heapq
import math

import click
import numpy as np

from benchmarks import rounds
from contracts.settings.trainer import TrainerConfig

_FLOAT_BYTES = 4


@dataclasses.dataclass(frozen=True)
class Encoder:
    """The size of an encoder.

    Attributes:
      layers: Its layers.
      hidden: Hidden size; the intermediate size is four times that.
    """

    layers: int
    hidden: int

    @property
    def parameters(self) -> int:
        """Number of weights and biases of the layers, without embeddings."""
        weights, biases = 12 * self.hidden**2, 13 * self.hidden
        return self.layers * (weights + biases)

    def forward_flops(self, tokens: float) -> float:
        """Returns the operations of a row with this number of tokens.

        Source: Kaplan et al. 2020, section 2.1.
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
class Cost:
    """The time of a component that Beam runs.

    Attributes:
      start: Seconds without any row.
      row: Seconds per row on one worker.
    """

    start: float
    row: float


# Measured on 2 cores, in seconds unless named otherwise; see docs/scale.md.
COSTS = {
    "ImportExampleGen": Cost(2.0, 80e-6),
    "StatisticsGen": Cost(6.0, 70e-6),
    "DataGate": Cost(3.0, 90e-6),
    "Transform": Cost(7.5, 104e-6),
}
EVALUATOR = Cost(6.0, 2.6e-3)  # without the encoder
IMPORTS = 14.0
TRAINER_START = 30.0  # building, tracing, checkpoints, export
SERVING_CHECK = 14.0
INPUT_ROWS_PER_SECOND = 10_000.0  # read, parsed and padded by one host
WORKER_START = 12.0  # a worker process of Beam imports TensorFlow
TRAINING_SHARE = 0.58  # of the rate of matrix multiplication
INFERENCE_SHARE = 0.55


@dataclasses.dataclass(frozen=True)
class Machines:
    """The machines of a run.

    Attributes:
      workers: Beam's workers; 1 is the component's own process.
      files: Files of a split's Examples.
      devices: Devices that train.
      gflops: Rate of one device's matrix multiplication, in 1e9 operations/s.
      link_gbps: Bandwidth from a device to the others, in 1e9 bits/s.
    """

    workers: int = 1
    files: int = 1
    devices: int = 1
    gflops: float = 200.0
    link_gbps: float = 100.0


@dataclasses.dataclass(frozen=True)
class Part:
    """The projected time of a part of a run.

    Attributes:
      name: The component.
      seconds: Its time.
      bottleneck: What limits its speed.
    """

    name: str
    seconds: float
    bottleneck: str


def simulate_workers(name: str, rows: int, cost: Cost, machines: Machines) -> Part:
    """Simulates workers that each read whole files: a GZIP file cannot be split.

    Args:
      name: The component.
      rows: Rows of all files, assigned at random, as ExampleGen's hash does.
      cost: The cost of the component.
      machines: Workers and files.
    """
    chance = np.random.default_rng(0)
    files, workers = machines.files, machines.workers
    sizes = chance.multinomial(rows, [1 / files] * files)
    start = cost.start + (WORKER_START if workers > 1 else 0)
    free = [start] * min(workers, files)
    heapq.heapify(free)
    for size in sorted(sizes, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + float(size) * cost.row)
    end = max(free)
    work = rows * cost.row
    if work < start:
        return Part(name, end, "start")
    if files < workers or end >= 1.2 * (start + work / workers):
        return Part(name, end, "files")
    return Part(name, end, "rows ÷ workers")


def training_step(
    encoder: Encoder, tokens: float, batch: int, machines: Machines
) -> tuple[float, str]:
    """Returns the seconds of a step, and its bottleneck.

    Args:
      encoder: Its size.
      tokens: Mean tokens of a row.
      batch: Rows of all devices.
      machines: Devices, their rate and their links.
    """
    rate = machines.gflops * 1e9 * TRAINING_SHARE * machines.devices
    compute = 3 * encoder.forward_flops(tokens) * batch / rate
    # A ring all-reduce sends each gradient twice (Patarasuk and Yuan 2009).
    sent = 2 * (machines.devices - 1) / machines.devices
    bytes_per_second = machines.link_gbps * 1e9 / 8
    reduce = sent * encoder.parameters * _FLOAT_BYTES / bytes_per_second
    # One host reads for all devices.
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
      rows: Rows of the training split.
      encoder: Its size.
      machines: The machines of the run.
      evaluated: Rows of the evaluation split.
      tokens: Mean tokens of a row.
      epochs: Epochs of the training, each with an evaluation.
      batch: Rows of a step.
    """
    step, bottleneck = training_step(encoder, tokens, batch, machines)
    steps = math.ceil(rows / batch) * epochs
    rate = machines.gflops * 1e9 * INFERENCE_SHARE
    prediction = encoder.forward_flops(tokens) / rate
    evaluations = epochs * evaluated * prediction / machines.devices
    # A worker of Beam has no device.
    evaluator = Cost(EVALUATOR.start, EVALUATOR.row + prediction)
    return [
        Part("imports", IMPORTS, "start"),
        *(
            simulate_workers(name, rows + evaluated, cost, machines)
            for name, cost in COSTS.items()
        ),
        Part("Trainer: start, export", TRAINER_START, "start"),
        Part("Trainer: steps", steps * step, bottleneck),
        Part("Trainer: evaluations", evaluations, "matrix products"),
        # One device predicts with the exported model.
        Part("Trainer: predictions", evaluated * prediction, "one device"),
        Part("ServingCheck", SERVING_CHECK, "start"),
        simulate_workers("Evaluator", evaluated, evaluator, machines),
    ]


def format_seconds(seconds: float) -> str:
    """Formats a time in the largest unit that fits into it twice."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


@click.command(help=__doc__)
@click.option("--rows", "counts", multiple=True, default=[4076], type=int)
@click.option("--evaluated", default=0.1, help="Share of the rows.", show_default=True)
@click.option("--encoder", type=click.Choice(list(ENCODERS)), default="minilm")
@click.option("--tokens", default=53.0, help="Mean tokens of a row.", show_default=True)
@click.option("--epochs", default=TrainerConfig().epochs, show_default=True)
@click.option("--batch", default=TrainerConfig().batch_size, show_default=True)
@click.option("--workers", default=1, show_default=True, help="Beam's workers.")
@click.option("--files", default=1, show_default=True, help="Files of a split.")
@click.option("--devices", default=1, show_default=True, help="Devices that train.")
@click.option("--gflops", default=200.0, show_default=True, help="Rate of a device.")
@click.option(
    "--link-gbps", default=100.0, show_default=True, help="Bandwidth of a device."
)
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
    """Returns a table: a line for each part, a column for each number of rows."""
    lines = []
    for parts in zip(*columns, strict=True):
        cells = [f"{format_seconds(p.seconds)} ({p.bottleneck})" for p in parts]
        lines.append([parts[0].name, *cells])
    sums = [format_seconds(sum(part.seconds for part in parts)) for parts in columns]
    head = ["part", *(f"{count:,} rows" for count in counts)]
    return rounds.table(head, [*lines, ["all", *sums]])


if __name__ == "__main__":
    main()
