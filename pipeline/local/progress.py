"""Shows the progress of a run on the terminal, from its log records."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from absl import logging as absl_logging
from rich import progress
from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Column, Table
from rich.text import Text

from contracts import wording
from contracts.run_states import MARKS, ComponentState
from pipeline.console import Console
from pipeline.operations.record import (
    ComponentProgress,
    Progress,
    ProgressFile,
    TrainingProgress,
)
from report.formatting import duration

# Log messages of LocalDagRunner and of its launcher.
_RUNNING = "Component %s is running."
_CACHED = "A cached execution %d is used."
_FINISHED = "Component %s is finished."
# The number is that of errors of TFX around the reason.
_UNRESOLVED = {
    "[%s] Input resolution error: %s": 1,
    "[%s] Dynamic exec property resolution error: %s": 2,
}
_LOGGERS = (
    "absl",
    "components",
    "contracts",
    "ingest",
    "modules",
    "pipeline.beam",
    "pipeline.operations",
    "report",
)
_INDENT = 2


class RunProgress(logging.Handler):
    """Shows the components of a run: a live list on a terminal, otherwise plain lines.

    LocalDagRunner logs when components start and finish. Log records of `modules` have
    the numbers of a training (`modules/training/loop.py`). Warnings and bad rows are
    shown immediately.

    Args:
      console: The terminal.
      verbose: Whether the log of TFX and Beam is shown, too.
      record: Directory of the run's record, where the progress is written for other
        processes; None writes none.
    """

    def __init__(
        self, console: Console, *, verbose: bool = False, record: Path | None = None
    ) -> None:
        super().__init__(logging.INFO)
        self._console = console
        self._file = ProgressFile(record) if record else None
        self._live = console.live(self)
        self._log = _LogLines(console) if verbose else None
        self._components: dict[str, ComponentProgress] = {}
        self._running: ComponentProgress | None = None
        self._start = 0.0  # of the running component, by a clock that is never set
        self._training = _Training(console)
        self._starting = Spinner(
            "dots", text="starting: TensorFlow, TFX, encoder, data"
        )
        self._spinner = Spinner("dots")

    @contextlib.contextmanager
    def shown(self) -> Iterator[RunProgress]:
        """Handles records as long as the context is open."""
        with self._live or contextlib.nullcontext(), self._handling():
            try:
                yield self
            except Exception:
                self._end("failed")
                raise
            except BaseException:  # KeyboardInterrupt or SystemExit
                self._end("interrupted")
                raise
            finally:
                if self._live:
                    self._live.transient = not self._components

    @contextlib.contextmanager
    def _handling(self) -> Iterator[None]:
        verbosity = absl_logging.get_verbosity()
        # absl resets its logger to its own verbosity.
        absl_logging.set_verbosity(absl_logging.INFO)
        loggers = [logging.getLogger(name) for name in _LOGGERS]
        for logger in loggers:
            logger.addHandler(self)
            logger.setLevel(logging.INFO)
        if self._log:
            logging.getLogger().addHandler(self._log)
        try:
            yield
        finally:
            absl_logging.set_verbosity(verbosity)
            for logger in (*loggers, logging.getLogger()):
                logger.removeHandler(self)
                if self._log:
                    logger.removeHandler(self._log)

    def expect(self, names: Sequence[str]) -> None:
        """Lists the components of the run, in the order in which they will run."""
        self._components = {
            name: ComponentProgress(name=name, state="waiting") for name in names
        }
        self._write(is_urgent=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Shows a record about components, training or data.

        Raises:
          Exception: The inputs of a component cannot be read, or a property that is
            the value of an input. The launcher only logs the error, and runs the next
            component.
        """
        if record.msg == _RUNNING:
            name = record.getMessage().split()[1]
            self._start = time.monotonic()
            self._running = ComponentProgress(
                name=name, state="running", started=time.time()
            )
            self._components[name] = self._running
            self._write(is_urgent=True)
        elif record.msg == _CACHED and self._running:
            self._running.state = "cached"
        elif record.msg in _UNRESOLVED and record.exc_info and record.exc_info[1]:
            error = record.exc_info[1]
            for _ in range(_UNRESOLVED[record.msg]):
                error = error.__cause__ or error
            raise error
        elif record.msg == _FINISHED:
            state = self._running.state if self._running else ""
            self._end("cached" if state == "cached" else "done")
        elif record.name.startswith(("contracts", "modules", "report")):
            self._show_module(record)
        elif record.levelno > logging.INFO and record.name != "absl":
            kind = "warning: " if record.name.startswith("components") else ""
            self.show(kind + record.getMessage(), "yellow")

    def show(self, text: str, style: str = "") -> None:
        """Shows a text above the list: wrapped on a terminal, otherwise in one line."""
        lines = Padding(Text(text, style), (0, 0, 0, _INDENT))
        if self._live:
            self._console.print(lines)
        else:
            self._console.print(Text(" " * _INDENT + text), soft_wrap=True)

    def _show_module(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        numbers = getattr(record, "training", None)
        if numbers:
            self._training.update(numbers)
        elif self._running:
            self._running.note = message
        self._write()
        if record.levelno > logging.INFO:
            self.show(message, "yellow")
        elif not self._live:
            self.show(message)

    def _write(self, *, is_urgent: bool = False) -> None:
        if self._file:
            components = list(self._components.values())
            training = self._training.progress
            self._file.write(
                Progress(components=components, training=training),
                is_urgent=is_urgent,
            )

    def _end(self, state: ComponentState) -> None:
        component, self._running = self._running, None
        if component is None:
            return
        component.state = state
        component.seconds = time.monotonic() - self._start
        component.note = self._training.best if self._training.is_shown else ""
        self._training.is_shown = False
        self._write(is_urgent=True)
        if not self._live:
            mark, style = MARKS[state]
            note = "" if state == "done" else f" {state}"
            self._console.print(
                Text.assemble(
                    (mark, style),
                    f" {component.name} {duration(component.seconds)}{note}",
                )
            )

    def explain_stop(self, reason: str) -> None:
        """Shows what an interrupted run keeps, and how to resume it.

        Args:
          reason: Name of the signal that stopped it.
        """
        self._end("interrupted")
        if self._live:
            self._live.stop()
        components = self._components.values()
        stopped = [c.name for c in components if c.state == "interrupted"]
        where = f" in {', '.join(stopped)}" if stopped else ""
        finished = sum(c.state in ("done", "cached") for c in components)
        count = wording.count(finished, "component")
        kept = [f"the outputs of {count}"] if finished else []
        if self._training.kept_step:
            kept.append(f"the training up to step {self._training.kept_step}")
        self._console.print(f"stopped by {reason}{where}")
        self._console.print(
            f"kept: {' and '.join(kept) or 'nothing, no component had finished'}"
        )
        self._console.print("to resume, run:")
        self._console.print(
            f"  {self._console.command}",
            highlight=False,
            soft_wrap=True,
        )

    def __rich__(self) -> RenderableType:
        """Returns the list."""
        if not self._components:
            return self._starting
        table = Table.grid(
            Column(width=1),
            Column(no_wrap=True),
            Column(justify="right", width=11, no_wrap=True),  # 59 min 59 s
            Column(no_wrap=True, overflow="ellipsis", ratio=1),
            padding=(0, 1),
            expand=True,
        )
        for component in self._components.values():
            table.add_row(*self._row(component))
        lines: list[RenderableType] = [table]
        if self._training.is_shown:
            lines.append(Padding(self._training, (0, 0, 0, _INDENT)))
        # The terminal appends `^C` to the last line, which must stay one line.
        return Constrain(Group(*lines), self._console.width - len("^C^C"))

    def _row(self, component: ComponentProgress) -> list[RenderableType]:
        mark, style = MARKS[component.state]
        if component.state == "waiting":
            return [Text(mark, style), Text(component.name, style), "", ""]
        if component is self._running:
            seconds = time.monotonic() - self._start
            note = "" if self._training.is_shown else component.note
            cells: list[RenderableType] = [self._spinner, component.name]
            return [*cells, duration(seconds), Text(note, "dim")]
        seconds = component.seconds or 0.0
        cells = [Text(mark, style), component.name, duration(seconds)]
        if component.state == "done":
            return [*cells, Text(component.note, "dim")]
        return [*cells, Text(component.state, style)]


class _Training:
    """The bar of a training and the line below it.

    Attributes:
      is_shown: Whether a training is running.
      best: Text that describes the best evaluation so far.
      kept_step: Step of the checkpoint of a stopped training.
      progress: The progress for other processes; None before the first seed.
    """

    def __init__(self, console: Console) -> None:
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=28),
            progress.MofNCompleteColumn(),
            progress.TaskProgressColumn(),
            progress.TimeRemainingColumn(),
            console=console,
            speed_estimate_period=600,
        )
        self._task: progress.TaskID | None = None
        self._seed: int | None = None
        self._trial = ""
        self._line = ""
        self.is_shown = False
        self.best = ""
        self.kept_step = 0
        self.progress: TrainingProgress | None = None

    def update(self, numbers: dict[str, Any]) -> None:
        """Reads the numbers of a log record of `modules/training/loop.py`."""
        if "trial" in numbers:  # of a search; the seed is the same
            self._trial, self._seed = f"{numbers['trial']}, ", None
        elif "note" in numbers:
            self.best, self._trial = numbers["note"], ""
        elif "kept_step" in numbers:
            self.kept_step = numbers["kept_step"]
        elif "best" in numbers:
            self.best = "best {metric} {best:.4f} at step {best_step}".format(**numbers)
            if self.progress:
                self.progress.best = self.best
        else:
            self._advance(**numbers)

    def _advance(
        self, step: int, steps: int, seed: int, loss: float, examples_per_second: float
    ) -> None:
        if seed != self._seed:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            name = f"{self._trial}seed {seed}"
            self._task = self._bar.add_task(name, total=steps)
            self._seed, self.best = seed, ""
            self.progress = TrainingProgress(
                seed=seed, step=step, steps=steps, examples_per_second=0
            )
        assert self._task is not None
        self._bar.update(self._task, completed=step)
        self._line = f"loss {loss:.3f}, {examples_per_second:.1f} examples/s"
        self.is_shown = True
        assert self.progress is not None
        self.progress.step, self.progress.best = step, self.best
        self.progress.examples_per_second = examples_per_second
        self.progress.seconds_left = self._bar.tasks[0].time_remaining
        self.progress.loss_steps.append(step)
        self.progress.losses.append(loss)

    def __rich__(self) -> RenderableType:
        line = f"{self._line}, {self.best}" if self.best else self._line
        return Group(self._bar, Text(line, no_wrap=True, overflow="ellipsis"))


class _LogLines(logging.Handler):
    """Shows the log records that `RunProgress` does not show."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "absl" or not record.name.startswith(_LOGGERS):
            line = f"{record.levelname} {record.name} {record.getMessage()}"
            self._console.print(line, style="dim", highlight=False, soft_wrap=True)
