"""Writes the pages of docs/reference/ from the code: `python -m tools.reference`.

docs/settings.md, too. `tests/test_docs.py` fails if a page is out of date.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click

import pipeline
from contracts.metrics import METRICS, Metric
from contracts.versions import served_versions
from pipeline import exit_status
from pipeline.beam import worker_pool
from pipeline.cli.main import SECTIONS, main
from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.runs import run_record
from serving.monitoring import Metrics
from tools import list_settings

FOLDER = REPOSITORY / "docs" / "reference"
_NOTE = "`python -m tools.reference` writes this page."
# A line of a layout: a file or directory, two spaces or more, its meaning.
_LINE = re.compile(r"^( +)(\S+)(?:  +(.+))?$")


def _table(*rows: tuple[str, ...]) -> Iterator[str]:
    head, *cells = (
        tuple(" ".join(cell.replace("|", r"\|").split()) for cell in row)
        for row in rows
    )
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in cells:
        yield "| " + " | ".join(row) + " |"


def _escape(text: str) -> str:
    return re.sub(r"([<\[\]])", r"\\\1", text)


def _describe(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    yield f"\n### {name.rpartition(' ')[2]}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```\n{name} {usage}\n```\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        # \b: click keeps the lines as they are.
        if paragraph.startswith("\b"):
            yield "```\n" + paragraph.removeprefix("\b").strip("\n") + "\n```\n"
        else:
            yield _escape(" ".join(paragraph.split())) + "\n"
    rows = [("option", "meaning")]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in parameter.opts:
            rows.append((f"`{record[0]}`", _escape(record[1])))
    if len(rows) > 1:
        yield from _table(*rows)


def list_commands() -> Iterator[str]:
    """Yields the lines of the page of all commands."""
    yield f"# Commands\n\n{inspect.cleandoc(main.help or '').partition(chr(10))[0]}"
    yield "`bert-pipeline` is the same as `python -m pipeline`. Each command has"
    yield "`--help`, and ends with one of the [exit statuses](exit_statuses.md)."
    for title, commands in SECTIONS.items():
        yield f"\n## {title}"
        for command in commands:
            yield from _describe(f"bert-pipeline {command.name}", command)
    yield "\n## Workers"
    yield from _describe("python -m pipeline.beam.worker_pool", worker_pool.main)


def _range(metric: Metric) -> str:
    low, high = (
        "∞" if math.isinf(bound) and bound > 0 else f"{bound:g}".replace("-inf", "-∞")
        for bound in (metric.low, metric.high)
    )
    return f"{low} to {high}"


def list_metrics() -> Iterator[str]:
    """Yields the lines of the page of the metrics of models, and of the server."""
    better = {True: "higher", False: "lower", None: ""}
    yield "# Metrics\n\n## Of a model\n"
    yield "A metric of one class is `NAME/CLASS` in a task. Thresholds and"
    yield "`task.metric` take those of the task's kind for which higher is better.\n"
    yield from _table(
        ("metric", "kinds of task", "range", "better", "of a class"),
        *(
            (
                f"`{metric.name}`",
                ", ".join(metric.kinds),
                _range(metric),
                better[metric.higher_is_better],
                "yes" if metric.of_class else "",
            )
            for metric in METRICS
        ),
    )
    yield "\n## Of a server\n"
    yield "At `/metrics`, in Prometheus' format; a counter's name ends with `_total`"
    yield "([serving](../serving.md)). Those of the process are in `process_*`.\n"
    families = [f for f in Metrics().registry.collect() if f.name.startswith("serving")]
    yield from _table(
        ("metric", "type", "meaning"),
        *((f"`{f.name}`", f.type, f.documentation) for f in families),
    )


def list_exit_statuses() -> Iterator[str]:
    """Yields the lines of the page of exit statuses."""
    yield "# Exit statuses\n"
    rows = ((str(status), text) for status, text in exit_status.DETAILS.items())
    yield from _table(("status", "meaning"), *rows)


def read_layout(module: ModuleType) -> dict[str, str]:
    """Returns the files that a module's docstring draws, with their meanings."""
    layout, directories = {}, dict[int, str]()
    for line in (module.__doc__ or "").splitlines():
        match = _LINE.match(line)
        if match is None or len(match[1]) < 4:
            continue
        indent, name, meaning = len(match[1]), match[2], match[3] or ""
        directories = {i: n for i, n in directories.items() if i < indent}
        if meaning:
            layout["".join(directories.values()) + name] = meaning
        if name.endswith("/"):
            directories[indent] = name
    return layout


def list_files() -> Iterator[str]:
    """Yields the lines of the page of files below an output directory."""
    paths = OutputPaths(Path("/"), "NAME")
    yield "# Files\n\n## Of an output directory\n"
    yield "Below `output/NAME`, or the directory of `--output`:\n"
    rows = []
    for name, member in inspect.getmembers(OutputPaths):
        meaning = inspect.getdoc(member) or ""
        if isinstance(member, property) and name != "directories":
            path = getattr(paths, name)
        elif name in ("examples", "encoder", "schema", "run"):
            path = getattr(paths, name)("ID")
        else:
            continue
        rows.append((f"`{path.relative_to('/')}`", meaning.partition("\n\n")[0]))
    yield from _table(("path", "content"), *sorted(rows))
    for title, owner in (("run", run_record), ("pushed version", served_versions)):
        yield f"\n## Of a {title}\n"
        files = read_layout(owner).items()
        yield from _table(("path", "content"), *((f"`{f}`", text) for f, text in files))


def list_api() -> Iterator[str]:
    """Yields the lines of the page of the Python API, which mkdocstrings completes."""
    yield "# Python\n\nHow to use them: [From Python](../python.md)."
    for name in pipeline.__all__:
        owner = getattr(pipeline, name)
        yield f"\n::: {owner.__module__}.{name}"


_PAGES = {
    "commands": list_commands,
    "metrics": list_metrics,
    "exit_statuses": list_exit_statuses,
    "files": list_files,
    "api": list_api,
}


def pages() -> dict[Path, str]:
    """Returns the content of each page that the code determines."""
    return {list_settings.DOCUMENT: list_settings.page()} | {
        FOLDER / f"{name}.md": "\n".join([*lines(), "", _NOTE, ""])
        for name, lines in _PAGES.items()
    }


if __name__ == "__main__":
    for document, text in pages().items():
        document.write_text(text)
