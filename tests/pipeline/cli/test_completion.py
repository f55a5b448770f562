"""The shell completes commands, recipes and settings."""

import os
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from pipeline.cli.main import main
from pipeline.config.paths import REPOSITORY

PROGRAM = """
import atexit, sys
from pipeline.cli.main import main

def show():
    heavy = ("tensorflow", "tfx", "apache_beam", "scipy", "grpc", "google.protobuf")
    print([name for name in heavy if name in sys.modules])

atexit.register(show)
main(prog_name="bert-pipeline")
"""


def complete(*words):
    """Returns what the last word completes to."""
    *words, incomplete = words
    shell = ShellComplete(main, {}, "bert-pipeline", "_BERT_PIPELINE_COMPLETE")
    return [item.value for item in shell.get_completions(words, incomplete)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ru"], ["run", "runs"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["run", "--verb"], ["--verbose"]),
        (["run", "--set", "trainer.ep"], ["trainer.epochs="]),
        (["run", "--set", "vertex.beam.runn"], ["vertex.beam.runner="]),
        (["run", "--set", "trainer.xla=o"], ["trainer.xla=on", "trainer.xla=off"]),
        (
            ["run", "--set", "trainer.async_checkpoints=t"],
            ["trainer.async_checkpoints=true"],
        ),
        (["run", "--set", "trainer.epochs="], []),
        (["doctor", "--config", "sam"], ["sample.yaml"]),
        (["run", "--config", "nothing"], ["nothing"]),  # left to the shell
    ],
)
def test_word_is_completed(words, expected, monkeypatch):
    monkeypatch.chdir(REPOSITORY / "configs")
    assert complete(*words) == expected


@pytest.mark.parametrize("command", ["run", "runs", "clean", "rollback"])
def test_output_is_left_to_the_shell(command):
    assert complete(command, "--output", "out") == ["out"]


def test_help_describes_output_as_written_or_read():
    shown = [
        " ".join(CliRunner().invoke(main, [name, "--help"]).output.split())
        for name in ("run", "doctor", "runs")
    ]
    assert ["everything a run writes" in text for text in shown] == [True, True, False]
    assert "Output directory of the runs" in shown[2]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_a_shell_explains_how_to_install_it(shell):
    printed = CliRunner().invoke(main, ["completion"], env={"SHELL": f"/bin/{shell}"})
    assert printed.exit_code == 0
    first, *script = printed.output.splitlines()
    assert first.startswith("# ")
    assert f"bert-pipeline completion {shell}" in first
    assert any(f"_BERT_PIPELINE_COMPLETE={shell}_complete" in line for line in script)


def test_bash_completes_and_imports_no_heavy_package():
    words = {
        "COMP_WORDS": "bert-pipeline\nrun\n--set\ntrainer.ep",
        "COMP_CWORD": "3",
        "_BERT_PIPELINE_COMPLETE": "bash_complete",
    }
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == ["plain,trainer.epochs=", "[]"]
