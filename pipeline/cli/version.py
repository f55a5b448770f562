"""The option `--version`: the version, the commit and the stack."""

from __future__ import annotations

import os
import platform
from importlib import metadata

import click

from contracts import fingerprint
from pipeline.operations import provenance

PROJECT = "bert-fine-tuning-pipeline"
# Set in the container image, which has neither git nor a repository.
COMMIT_VARIABLE = "BERT_PIPELINE_COMMIT"


def installed_stack() -> str:
    """Returns the name of the installed stack, as in stacks/stacks.txt; or nothing."""
    return fingerprint.library_versions(["tfx"])["tfx"].rpartition(".")[0]


def describe() -> str:
    """Returns the version, the commit of the code and the stack in one line."""
    code = provenance.find_code() or os.environ.get(COMMIT_VARIABLE) or "unknown"
    libraries = fingerprint.library_versions(["tfx", "tensorflow"])
    tfx, tensorflow = (version or "missing" for version in libraries.values())
    return (
        f"bert-pipeline {metadata.version(PROJECT)} (commit {code}), "
        f"stack {installed_stack() or 'unknown'}: TFX {tfx}, "
        f"TensorFlow {tensorflow}, Python {platform.python_version()}"
    )


def _show(context: click.Context, _: click.Parameter, is_given: bool) -> None:
    if is_given:
        click.echo(describe())
        context.exit()


OPTION = click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show,
    help="Print version, commit and stack.",
)
