"""Measures what the pipeline takes beside the steps of its training, and for what.

    python -m benchmarks.pipeline_cost --config RECIPE --set trainer.epochs=1
    python -m benchmarks.pipeline_cost --tree before=../main --tree after=. --short

Each round runs `python -m pipeline run` into a new directory, and again with everything
in TFX's cache; several checkouts (`--tree`) run in turn. Where the time goes is told by
`benchmarks/spans.py`: imports, tracing of TensorFlow functions, saving and loading of
SavedModels; the steps of the training are those of its log, without what they traced.
The rest is work, that of the serving check's own process among it.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from benchmarks import rounds, spans

WATCHED = rounds.ROOT / "benchmarks" / "spans.py"
START, END = "start", "report and end"
KINDS = (spans.IMPORT, spans.TRACE, spans.SAVE, spans.LOAD)
_STAMP = r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) INFO "
_COMPONENT = re.compile(_STAMP + r"absl Component (\S+) is (running|finished)\.", re.M)
_LOOP = re.compile(_STAMP + r"absl train \| step: .* training until step", re.M)
_STEP = re.compile(_STAMP + r"modules\.actions step \d+/\d+ ", re.M)
# Refused is as good: what is measured is not the model.
_ENDS = (0, 3)
SHORT = ("trainer.epochs=1", "trainer.steps_per_epoch=2")


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a run, in seconds since the epoch.

    Attributes:
      name: The component, or what is before and after all of them.
      start: When it began.
      end: When it ended.
    """

    name: str
    start: float
    end: float

    def holds(self, moment: float) -> bool:
        """Tells whether a moment is in it."""
        return self.start <= moment < self.end


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a part took.

    Attributes:
      name: Of the part.
      seconds: All of it.
      kinds: Seconds of each of `KINDS`.
      steps: Seconds of training steps.
      collecting: Seconds of garbage collection, wherever it came in between.
    """

    name: str
    seconds: float
    kinds: dict[str, float]
    steps: float
    collecting: float

    @property
    def work(self) -> float:
        """Seconds that are none of the others."""
        return self.seconds - sum(self.kinds.values()) - self.steps


def read_parts(log: str, started: float, ended: float) -> list[Part]:
    """Returns the parts of a run, in order and without gaps.

    Args:
      log: What the run wrote to its `run.log`.
      started: When its process was started, in seconds since the epoch.
      ended: When it had ended.
    """
    found = [(_moment(at), name) for at, name, _ in _COMPONENT.findall(log)]
    parts = [
        Part(name, begin, end)
        for (begin, name), (end, _) in zip(found[::2], found[1::2], strict=True)
    ]
    # What is between two components is the next one's: its node is looked up.
    ends = [started, parts[0].start, *(part.end for part in parts)]
    names = [START, *(part.name for part in parts)]
    covered = [
        Part(name, begin, end)
        for name, (begin, end) in zip(names, itertools.pairwise(ends), strict=True)
    ]
    return [*covered, Part(END, ends[-1], ended)]


def read_loops(log: str) -> list[Part]:
    """Returns from when to when steps were trained, up to each evaluation."""
    starts = [_moment(at) for at in _LOOP.findall(log)]
    steps = [_moment(at) for at in _STEP.findall(log)]
    bounds = [*starts, float("inf")]
    return [
        Part("steps", begin, max(at for at in steps if begin <= at < following))
        for begin, following in itertools.pairwise(bounds)
    ]


def split(
    parts: Sequence[Part],
    loops: Sequence[Part],
    found: Iterable[tuple[str, float, float]],
) -> list[Cost]:
    """Splits parts by what took their time.

    Args:
      parts: Of a run.
      loops: Of its training.
      found: Spans: kind, start and seconds.
    """
    known = list(found)
    costs = []
    for part in parts:
        kinds = dict.fromkeys((*KINDS, spans.COLLECT), 0.0)
        steps = sum(loop.end - loop.start for loop in loops if part.holds(loop.start))
        for kind, start, seconds in known:
            if part.holds(start):
                kinds[kind] += seconds
                if kind in KINDS and any(loop.holds(start) for loop in loops):
                    steps -= seconds
        collecting = kinds.pop(spans.COLLECT)
        costs.append(Cost(part.name, part.end - part.start, kinds, steps, collecting))
    return costs


def total(costs: Sequence[Cost], name: str) -> Cost:
    """Returns the sum of costs."""
    return Cost(
        name,
        sum(cost.seconds for cost in costs),
        {kind: sum(cost.kinds[kind] for cost in costs) for kind in KINDS},
        sum(cost.steps for cost in costs),
        sum(cost.collecting for cost in costs),
    )


def run(
    tree: Path, output: Path, arguments: Sequence[str], python: str = sys.executable
) -> list[Cost]:
    """Runs the pipeline of a checkout, and returns what its parts took.

    Args:
      tree: The checkout.
      output: The output directory of the run.
      arguments: Of `pipeline run`, in addition to it.
      python: The Python that runs it.

    Raises:
      PeerError: The run failed.
    """
    output.mkdir(parents=True, exist_ok=True)
    path = output / "spans.json"
    command = [python, str(WATCHED), str(path), "pipeline", "run", *arguments]
    started = time.time()
    done = subprocess.run(
        [*command, "--output", str(output)],
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    ended = time.time()
    if done.returncode not in _ENDS:
        raise rounds.PeerError(
            f"the run in {tree} ended with {done.returncode}:\n{done.stdout[-3000:]}"
        )
    record = max((output / "runs").iterdir(), key=lambda path: path.name)
    log = (record / "run.log").read_text(encoding="utf-8", errors="replace")
    return split(
        read_parts(log, started, ended), read_loops(log), json.loads(path.read_text())
    )


def to_markdown(costs: Sequence[Cost]) -> str:
    """Returns a table of a run: a line a part, and their sum."""
    whole = total(costs, "all")
    lines = []
    for cost in (*costs, whole):
        imports, tracing, saving, loading = (cost.kinds[kind] for kind in KINDS)
        figures = (cost.seconds, imports, tracing, saving + loading, cost.steps)
        shown = (*figures, cost.work, cost.collecting)
        lines.append([cost.name, *(f"{seconds:.1f}" for seconds in shown)])
    head = ["part", "seconds", "import", "tracing", "SavedModels", "training steps"]
    table = rounds.table([*head, "work", "(garbage collection)"], lines)
    seconds = seconds_without_steps(costs)
    return f"{table}\n\n{seconds:.1f} s without the steps of the training"


def compare(found: dict[str, list[list[Cost]]]) -> str:
    """Returns a table of checkouts: seconds without steps, and of the first one's.

    Args:
      found: Costs of each checkout's runs, a round each.
    """
    figures = {
        name: [{"seconds": seconds_without_steps(costs)} for costs in runs]
        for name, runs in found.items()
    }
    first = next(iter(figures.values()))
    lines = [
        [
            name,
            rounds.spread(runs, "seconds").format(1),
            rounds.ratio(runs, first, "seconds").format(3),
        ]
        for name, runs in figures.items()
    ]
    return rounds.table(["checkout", "seconds without steps", "of the first"], lines)


def seconds_without_steps(costs: Sequence[Cost]) -> float:
    """Returns what a run took beside the steps of its training."""
    whole = total(costs, "all")
    return whole.seconds - whole.steps


def _moment(stamp: str) -> float:
    return datetime.datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").timestamp()


def _tree(text: str) -> tuple[str, Path]:
    name, separator, directory = text.partition("=")
    if not separator or not (Path(directory) / "pipeline").is_dir():
        raise click.BadParameter(f"{text!r} is not NAME=DIRECTORY of a checkout")
    return name, Path(directory).absolute()


@click.command(help=__doc__)
@click.option("--config", default="configs/sample.yaml", help="Of each checkout.")
@click.option("--set", "settings", multiple=True, help="As of `pipeline run`.")
@click.option("--tree", "trees", multiple=True, default=[f"here={rounds.ROOT}"])
@click.option("--rounds", "repeats", type=int, default=1)
@click.option("--short", is_flag=True, help="Two steps of training.")
def main(
    config: str,
    settings: tuple[str, ...],
    trees: tuple[str, ...],
    repeats: int,
    short: bool,
) -> None:
    """Runs the command line."""
    settings = (*settings, *(SHORT if short else ()))
    arguments = ["--config", config]
    arguments += itertools.chain.from_iterable(("--set", text) for text in settings)
    checkouts = [_tree(text) for text in trees]
    found: dict[str, dict[str, list[list[Cost]]]] = {"new": {}, "cached": {}}
    for number in range(repeats):
        for name, tree in rounds.in_turn(checkouts, number):
            with tempfile.TemporaryDirectory() as output:
                for state, runs in found.items():
                    costs = run(tree, Path(output), arguments)
                    runs.setdefault(name, []).append(costs)
                    print(f"\n{name}, {state}, round {number + 1}\n", flush=True)
                    print(to_markdown(costs), flush=True)
    for state, runs in found.items():
        print(f"\n{state}, {rounds.describe_machine()}\n")
        print(compare(runs))


if __name__ == "__main__":
    main()
