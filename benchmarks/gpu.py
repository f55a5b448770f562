"""Compares training on a GPU: ours, with XLA and without, and Transformers'.

    make bench-gpu

All train MiniLM on the same rows in batches of 32, in bfloat16 if the GPU supports it,
else in float32. Transformers runs with scaled dot product attention, as PyTorch
executes it and by `torch.compile`. Prints tables in Markdown.
"""

from __future__ import annotations

import dataclasses
import functools
import subprocess

import click

from benchmarks import peer_environment, rounds, training
from benchmarks.rounds import Peer
from modules import environment

OURS, OURS_XLA = training.OURS, f"{training.OURS}, XLA"


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU, as its driver describes it.

    Attributes:
      name: Its name.
      driver: Version of the driver.
      capability: Compute capability, (major, minor).
    """

    name: str
    driver: str
    capability: tuple[int, int]

    @classmethod
    def parse(cls, line: str) -> Gpu:
        """Parses a line of `nvidia-smi --query-gpu=name,driver_version,compute_cap`."""
        name, driver, capability = (part.strip() for part in line.rsplit(",", 2))
        major, minor = capability.split(".")
        return cls(name, driver, (int(major), int(minor)))

    @property
    def precision(self) -> str:
        """The compute type that is measured."""
        # Imports TensorFlow, which takes seconds.
        from modules.training import computation

        has_bfloat16 = self.capability >= computation.BFLOAT16_CAPABILITY
        return computation.BFLOAT16 if has_bfloat16 else computation.FLOAT32


def find_gpu() -> Gpu:
    """Returns the first GPU.

    Raises:
      click.UsageError: The driver finds no GPU.
    """
    query = ["--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"]
    try:
        command = ["nvidia-smi", *query]
        output = subprocess.check_output(command, text=True, stderr=subprocess.STDOUT)
    except (OSError, subprocess.CalledProcessError) as error:
        raise click.UsageError(
            f"`nvidia-smi` finds no GPU ({error}); install NVIDIA's driver, or run "
            "this on a machine with a GPU"
        ) from error
    return Gpu.parse(output.splitlines()[0])


def peers(
    python: str | None, device: str, precision: str, settings: rounds.Settings
) -> list[Peer]:
    """Returns the trainings to measure.

    Args:
      python: The Python that has Transformers. None leaves out its trainings.
      device: `gpu`, or `cpu` to try the benchmark without one.
      precision: Compute type.
      settings: The settings of `training.measure`.
    """
    settings = settings | {"device": device, "precision": precision, "padding": "group"}
    trainings = [
        Peer(OURS, "ours_training.py", settings | {"xla": False}),
        Peer(OURS_XLA, "ours_training.py", settings | {"xla": True}),
    ]
    if python is None:
        return trainings
    return trainings + [
        Peer(
            f"Transformers, SDPA{name}",
            "transformers_training.py",
            settings | {"is_compiled": is_compiled},
            python,
        )
        for is_compiled, name in ((False, ""), (True, ", `torch.compile`"))
    ]


@click.command(help=__doc__)
@training.DATA
@training.ROUNDS
@training.SHORT
@peer_environment.WITHOUT
def main(data: str | None, count: int, short: bool, without_pytorch: bool) -> None:
    """Measures, and prints the tables."""
    gpu = find_gpu()
    environment.set_up(quiet=True)
    python = None if without_pytorch else peer_environment.build()
    results = training.measure(
        training.CONFIG,
        data,
        count,
        training.SHORT_STEPS if short else None,
        functools.partial(peers, python, "gpu", gpu.precision),
    )
    print(f"{gpu.name}, driver {gpu.driver}, {gpu.precision}\n")
    print(training.throughput(results, [OURS, OURS_XLA]))
    for name in (OURS, OURS_XLA):
        print()
        print(training.machine_share(results, name))


if __name__ == "__main__":
    main()
