"""The model card: Hugging Face's format, with fields that only a person can fill in.

https://github.com/huggingface/hub-docs/blob/main/modelcard.md describes the head.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shlex
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import yaml

from contracts import metrics, wording
from contracts.records.checks import sort_results
from contracts.records.evaluation import MetricVerdict
from contracts.task import abstention
from report import formatting
from report.content import Report

logger = logging.getLogger(__name__)

_PLACEHOLDER = "*To be filled in by a person: {}*"
_IS_PLACEHOLDER = re.compile(r"\*To be filled in by a person:[^\n]*\*")
_OF_A_PERSON = ("language", "license")  # keys of the head
_HEAD = re.compile(r"\s*---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
# Up to the end or, if a person deleted it, up to the next block.
_BLOCK = re.compile(
    r"^<!-- *person: *([\w-]+) *-->\n(.*?)(?=^<!-- *end *-->|^<!-- *person:|\Z)",
    re.DOTALL | re.MULTILINE,
)
# The directories of a path of the machine that ran the pipeline.
_DIRECTORIES = re.compile(r"(?<![^\s(\"'])/(?:[^\s/]+/)+(?=[^\s/])")
_SPECIAL = re.compile(r"([\\`*\[\]<>|~&])|(?<!\w)_|_(?!\w)")
_TASK_TYPE = "text-classification"
_SETTINGS = ("task", "preprocessing", "trainer", "evaluator")  # without paths
_TFDS_GLUE = "tfds:glue/"
_HUB_GLUE = "nyu-mll/glue"
_MOST_LABELS = 12  # in a cell of a table
_MOST_LINES = 20  # of the table of a check


def render(
    report: Report,
    previous: str | None = None,
    override: Mapping[str, Any] | None = None,
) -> str:
    """Returns the card of a model.

    Args:
      report: The run that made it.
      previous: The last card. Its blocks between `<!-- person: NAME -->` and `<!-- end
        -->`, its tags, and keys of its head that are not written here are kept.
      override: Who pushed a refused model, when and why, by name; None if no one did.

    Returns:
      Markdown with a head in YAML.
    """
    head, blocks = _parse(previous or "")
    person, rest = _person(blocks)
    template = _environment().get_template("model_card.md.jinja")
    body = template.render(
        report=report,
        override=override,
        person=person,
        rest=rest,
        purpose=report.task.label_kind.describe_purpose(
            "pairs of texts" if len(report.task.text_columns) > 1 else "texts"
        ),
        classes=_by_class(report),
        abstention=_abstention(report),
        checks=sort_results(report.checks),
        most_lines=_MOST_LINES,
        example=_example(report),
        settings=_dump({k: v for k, v in report.settings.items() if k in _SETTINGS}),
    )
    if base_model := _base_model(report):
        head.setdefault("base_model", base_model)
    merged = _merge(_head(report), head)
    missing = [key for key in _OF_A_PERSON if key not in merged]
    note = f"# To be filled in by a person: {', '.join(missing)}\n" if missing else ""
    return f"---\n{note}{_dump(merged)}---\n\n{body.strip()}\n"


def _dump(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def _head(report: Report) -> dict[str, Any]:
    """Returns the metadata; only a person knows a model's language and license."""
    dataset = _dataset(report)
    table = report.task.metric_table
    results = [
        {
            "type": table[metric.metric].hub_name,
            "value": metric.value,
            "name": metric.metric,
        }
        for metric in report.metrics
        if table[metric.metric].hub_name and math.isfinite(metric.value)
    ]
    head: dict[str, Any] = {
        "library_name": "tf-keras",
        "pipeline_tag": _TASK_TYPE,
        "tags": ["bert", "tensorflow", "tfx", "saved-model"],
        "metrics": [result["type"] for result in results],
    }
    if dataset["type"] == _HUB_GLUE:
        head["datasets"] = [_HUB_GLUE]
    result = {
        "task": {"type": _TASK_TYPE, "name": "Text Classification"},
        "dataset": dataset,
        "metrics": results,
    }
    return {**head, "model-index": [{"name": report.pipeline, "results": [result]}]}


def _dataset(report: Report) -> dict[str, str]:
    source = str(report.data.card.get("source", "unknown"))
    name = os.path.basename(source.rstrip("/"))
    if source.startswith(_TFDS_GLUE):
        hub = {"name": f"GLUE {name.upper()}", "type": _HUB_GLUE, "config": name}
        return {**hub, "split": report.split}
    return {"name": name, "type": name, "split": report.split}


def _base_model(report: Report) -> str | None:
    """Returns the encoder's id on the Hub: folders have `ORGANIZATION__NAME` for it."""
    for step in report.lineage:
        organization, separator, name = step.name.partition("__")
        if step.kind == "encoder" and organization and separator and name:
            return f"{organization}/{name}"
    return None


def _parse(card: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the head of a card, and its blocks by name."""
    # As editors save it.
    card = card.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    match = _HEAD.match(card)
    head: Any = {}
    try:
        head = yaml.safe_load(match[1]) if match else {}
    except yaml.YAMLError as error:
        logger.warning("the head of the last model card is not YAML: %s", error)
    blocks = {name: text.strip("\n") for name, text in _BLOCK.findall(card)}
    return head if isinstance(head, dict) else {}, blocks


def _merge(head: dict[str, Any], previous: dict[str, Any]) -> dict[str, Any]:
    """Adds keys and tags of a person to a head."""
    added = {key: value for key, value in previous.items() if key not in head}
    if added.get("datasets") == [_HUB_GLUE]:  # written for data of an earlier version
        del added["datasets"]
    tags = previous.get("tags")
    tags = [*head["tags"], *(tags if isinstance(tags, list) else [])]
    return {**added, **head, "tags": list(dict.fromkeys(tags))}


def _person(
    blocks: dict[str, str],
) -> tuple[Callable[[str, str], str], Callable[[], str]]:
    """Returns a function that writes a block, and one that writes the other blocks."""
    left = {
        name: text
        for name, text in blocks.items()
        if text.strip() and not _IS_PLACEHOLDER.fullmatch(text.strip())
    }

    def block(name: str, question: str) -> str:
        text = left.pop(name, _PLACEHOLDER.format(question))
        return f"<!-- person: {name} -->\n{text}\n<!-- end -->"

    def rest() -> str:
        return "\n\n".join(block(name, "") for name in list(left))

    return block, rest


def _by_class(report: Report) -> dict[str, dict[str, MetricVerdict]]:
    """Returns precision, recall and F1 of each class."""
    by_name = {metric.metric: metric for metric in report.metrics}
    rows = {
        name: {
            kind: by_name.get(metrics.class_metric(kind, name))
            for kind in metrics.CLASS_METRICS
        }
        for name in report.task.classes or ()
    }
    return {
        name: {kind: metric for kind, metric in row.items() if metric}
        for name, row in rows.items()
        if any(row.values())
    }


def _abstention(report: Report) -> tuple[abstention.Point, int] | None:
    """Returns the point that the card shows, and the rows of its split."""
    for split in report.abstention:
        if split.split == report.split and split.rows and split.points:
            middle = split.points[len(split.points) // 2]
            return middle, split.rows
    return None


def _example(report: Report) -> dict[str, str]:
    """Returns a request: its URL, and its body for a shell and as a Python literal."""
    name = urllib.parse.quote(report.pipeline)
    instance = {
        column: f"Text {i + 1}." for i, column in enumerate(report.task.text_columns)
    }
    body = json.dumps({"instances": [instance]}, ensure_ascii=False)
    return {
        "url": f"http://localhost:8501/v1/models/{name}:predict",
        "shell": shlex.quote(body),
        "python": repr(body),
    }


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        # The card is Markdown; `escape` is for texts from data, names and settings.
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "md": _escape,
        "number": lambda value: "" if value is None else formatting.number(value),
        "interval": lambda ends: (
            "" if ends is None else " to ".join(map(formatting.score, ends))
        ),
        "sentence": formatting.sentence,
        "cell": formatting.cell,
        "count": wording.count,
        "label_counts": _describe_labels,
        "without_directories": lambda text: _DIRECTORIES.sub("", str(text)),
        "basename": lambda path: os.path.basename(str(path).rstrip("/")),
    }
    return environment


def _describe_labels(counts: dict[str, float]) -> str:
    """Returns labels with their rows: the most frequent ones, if there are many."""
    names = list(counts)
    if len(names) > _MOST_LABELS:
        names = sorted(names, key=lambda name: -counts[name])[:_MOST_LABELS]
    shown = [f"{name} {formatting.number(counts[name])}" for name in names]
    if more := len(counts) - len(names):
        shown.append(f"{more} more")
    return ", ".join(shown)


def _escape(value: Any) -> str:
    """Returns a text that Markdown shows as it is, on one line."""
    text = formatting.printable(" ".join(str(value).split()))
    return _SPECIAL.sub(r"\\\g<0>", text)
