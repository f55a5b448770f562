"""Writes docs/settings.md and docs/reference/: `python -m tools.reference`.

`tests/test_docs.py` fails if a page differs from the generated one.
"""

from __future__ import annotations

import inspect
import math
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
from pydantic import BaseModel

import pipeline
from bert_runtime import Model
from bert_runtime.cli.main import main as runtime
from contracts.metrics import METRICS, Metric
from contracts.versions import served_versions
from pipeline import exit_status
from pipeline.beam import worker_pool
from pipeline.cli.main import SECTIONS, main
from pipeline.config import policy
from pipeline.config.beam import BeamConfig
from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.config.recipe import Config
from pipeline.operations import record as run_record
from portable import folder
from serving.monitoring import Metrics

_DOCS = REPOSITORY / "docs"
FOLDER = _DOCS / "reference"
_NOTE = "`python -m tools.reference` writes this page."
# A line of a layout: a file or directory, two spaces or more, its meaning.
_LINE = re.compile(r"^( +)(\S+)(?:  +(.+))?$")
# A setting in a docstring, and its meaning.
_ATTRIBUTE = re.compile(r"^  (\w+): (.*?)(?=^  \w+: |\Z)", re.MULTILINE | re.DOTALL)
_SETTINGS = """# Settings

Every setting of a recipe. `--set SECTION.NAME=VALUE` overrides one. The sections
`kubeflow.beam` and `vertex.beam` have the settings of `beam`.

The error for an unknown setting or an invalid value lists the allowed ones. Recipes and
`--set` are YAML with the numbers of YAML 1.2: `1e-5` is a number and `010` is 10. A
number or boolean stays text if the setting is a string: `beam.flink_version: 1.20` is
the version 1.20, and `classes: [no, yes]` are two names. Quotes always make a string;
in a shell, quote twice: `--set "name='1e5'"`. For a string setting, `--set` keeps what
YAML would not, such as `--set data.delimiter=#`, unless the value is in quotes or
brackets; `null` unsets it."""
_POLICY = f"""
## Policy

The settings of `{policy.FILE}`, which hold for all recipes of a project
([data.md](data.md#forbidden-columns), [runs.md](runs.md#the-commit-of-a-run)). A recipe
and `--set` cannot change them."""


def _table(*rows: tuple[str, ...]) -> Iterator[str]:
    head, *cells = (
        tuple(" ".join(cell.replace("|", r"\|").split()) for cell in row)
        for row in rows
    )
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in cells:
        yield "| " + " | ".join(row) + " |"


def _describe_section(model: type[BaseModel], section: str = "") -> Iterator[str]:
    """Yields the lines of a section's table, and of the sections in it."""
    meanings: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        text = inspect.cleandoc(owner.__doc__ or "").partition("Attributes:\n")[2]
        meanings |= {name: " ".join(m.split()) for name, m in _ATTRIBUTE.findall(text)}
    yield f"\n## {section.rstrip('.') or 'Top level'}\n"
    rows, sections = [], {}
    for name, field in model.model_fields.items():
        (kind, *_) = typing.get_args(field.annotation) or (field.annotation,)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            is_list = typing.get_origin(field.annotation) is list
            sections[f"{name}[]" if is_list else name] = kind
            continue
        value = field.get_default(call_default_factory=True)
        default = "required" if field.is_required() else f"`{value}`"
        rows.append(f"| `{section}{name}` | {default} | {meanings[name]} |")
    if section.startswith("checks."):
        text = inspect.cleandoc(model.__doc__ or "")
        yield text.partition("\n\nAttributes:")[0] + "\n" * bool(rows)
    if rows:
        yield "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])
    for name, kind in sections.items():
        if kind is not BeamConfig or not section:
            yield from _describe_section(kind, f"{section}{name}.")


def list_settings() -> Iterator[str]:
    """Yields the lines of the page of all settings."""
    yield _SETTINGS
    yield from _describe_section(Config)
    yield _POLICY
    (_, *rows) = _describe_section(policy.Policy)  # the page has another title for it
    yield from rows


def _escape(text: str) -> str:
    return re.sub(r"([<\[\]])", r"\\\1", text)


def _describe(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=name, show_default=True)
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
    yield "\n## Without TensorFlow\n"
    yield "In the package `bert-pipeline-runtime` ([its page](../runtime.md))."
    for name, command in runtime.commands.items():
        yield from _describe(f"bert-runtime {name}", command)
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
        elif name in ("examples", "encoder", "labelled_rows", "schema", "run"):
            path = getattr(paths, name)("ID")
        else:
            continue
        rows.append((f"`{path.relative_to('/')}`", meaning.partition("\n\n")[0]))
    yield from _table(("path", "content"), *sorted(rows))
    for title, owner in (
        ("run", run_record),
        ("pushed version", served_versions),
        ("portable folder", folder),
    ):
        yield f"\n## Of a {title}\n"
        files = read_layout(owner).items()
        yield from _table(("path", "content"), *((f"`{f}`", text) for f, text in files))


def list_api() -> Iterator[str]:
    """Yields the lines of the page of the Python API, which mkdocstrings completes."""
    yield "# Python\n\nHow to use them: [From Python](../python.md)."
    for name in pipeline.__all__:
        owner = getattr(pipeline, name)
        yield f"\n::: {owner.__module__}.{name}"
    yield "\n## Without TensorFlow\n"
    yield f"\n::: {Model.__module__}.{Model.__name__}"


_PAGES = {
    _DOCS / "settings.md": list_settings,
    FOLDER / "commands.md": list_commands,
    FOLDER / "metrics.md": list_metrics,
    FOLDER / "exit_statuses.md": list_exit_statuses,
    FOLDER / "files.md": list_files,
    FOLDER / "api.md": list_api,
}


def pages() -> dict[Path, str]:
    """Returns the content of each page that the code determines."""
    return {
        document: "\n".join([*lines(), "", _NOTE, ""])
        for document, lines in _PAGES.items()
    }


if __name__ == "__main__":
    for document, text in pages().items():
        document.write_text(text)
