"""The terminal shows what users wrote, and may be gone."""

import io
import logging
import os
import shlex
import subprocess
import sys

import pytest
from rich.padding import Padding
from rich.table import Table
from rich.tree import Tree

from contracts.storage import file_lock
from pipeline import exit_status
from pipeline.console import Console, printing_warnings
from tests.nightly import nightly

WRITTEN = "[v1]/row100.csv:100: [/] [bold]:smile:"


def in_table(text):
    table = Table(text)
    table.add_row(text)
    return table


@pytest.mark.parametrize("draw", [str, in_table, Tree, lambda text: Padding(text, 1)])
def test_text_that_looks_like_markup_or_emoji_is_shown_as_it_is(draw):
    console = Console(file=io.StringIO(), width=80)
    console.print(draw(WRITTEN))
    assert WRITTEN in console.file.getvalue()


COMMANDS = [
    ["runs"],
    *map(nightly, (["--help"], ["runs", "--json"], ["show", "latest"], ["--version"])),
]


def start(arguments, redirections="", **streams):
    """Starts a command in a shell, so that it can start with a closed descriptor."""
    command = shlex.join([sys.executable, "-m", "pipeline", *map(str, arguments)])
    return subprocess.Popen(
        ["sh", "-c", f"exec {command} {redirections}"], text=True, **streams
    )


@pytest.fixture
def broken_pipe():
    """A pipe whose reader has ended, as in `| head`."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def with_output(arguments, past):
    past.run("pushed", value=0.9)
    if arguments[0].startswith("--"):
        return arguments
    return [*arguments, "--output", past.paths.root]


@pytest.mark.parametrize("arguments", COMMANDS)
def test_command_ends_silently_if_nobody_reads_its_output(past, broken_pipe, arguments):
    arguments = with_output(arguments, past)
    process = start(arguments, stdout=broken_pipe, stderr=subprocess.PIPE)
    assert process.communicate()[1] == ""
    assert process.returncode == exit_status.CLOSED_PIPE == 141


@pytest.mark.parametrize("arguments", COMMANDS)
def test_command_whose_output_is_closed_writes_nothing_and_succeeds(past, arguments):
    process = start(with_output(arguments, past), ">&- <&-", stderr=subprocess.PIPE)
    assert process.communicate()[1] == ""
    assert process.returncode == 0


@pytest.mark.parametrize("arguments", COMMANDS)
def test_output_that_cannot_be_written_is_one_line(past, arguments):
    process = start(with_output(arguments, past), ">/dev/full", stderr=subprocess.PIPE)
    (line,) = process.communicate()[1].splitlines()
    assert line == "error: standard output: No space left on device"
    assert process.returncode == exit_status.FAILURE


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_errors_that_nobody_reads_keep_their_status(tmp_path, redirection):
    arguments = ["show", "latest", "--output", tmp_path]
    process = start(arguments, redirection, stdout=subprocess.PIPE)
    assert process.communicate()[0] == ""
    assert process.returncode == exit_status.USAGE


WARNINGS = """
import logging, pathlib, sys
from pipeline.console import printing_warnings
from pipeline.local.run import redirect_output

logger = logging.getLogger("pipeline.operations")
with printing_warnings():
    with redirect_output(pathlib.Path(sys.argv[1])):
        logger.warning("in the log")
    logger.warning("after it")
"""


def test_warning_is_written_once_to_the_log_or_to_the_terminal(tmp_path):
    log = tmp_path / "run.log"
    command = [sys.executable, "-c", WARNINGS, log]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stderr == "warning: after it\n"
    assert log.read_text().count("in the log") == 1


INHERIT = """
import subprocess, sys
from pipeline.console import guard_streams

guard_streams()
child = (
    "import os, sys\\n"
    "links = [os.readlink(f'/proc/self/fd/{number}') for number in range(3)]\\n"
    "open(sys.argv[1], 'w').write(' '.join(links))"
)
subprocess.run([sys.executable, "-c", child, sys.argv[1]])
"""


def test_child_processes_inherit_streams_that_were_closed(tmp_path):
    """Else the first files that they open would be their standard streams."""
    command = shlex.join([sys.executable, "-c", INHERIT, str(tmp_path / "streams")])
    subprocess.run(["sh", "-c", f"{command} <&- >&- 2>&-"], check=True)
    assert (tmp_path / "streams").read_text().split() == [os.devnull] * 3


def test_warning_of_a_lock_is_printed_by_a_quiet_command(capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "level", logging.ERROR)
    with printing_warnings():
        file_lock.logger.warning("no locks")
    assert capsys.readouterr().err == "warning: no locks\n"


LOG = """
import os, pathlib, sys
from pipeline.console import Console, guard_streams, open_terminal
from pipeline.local.run import hold_output, redirect_output
from pipeline.config.paths import OutputPaths

guard_streams()
paths = OutputPaths(pathlib.Path(sys.argv[1]), "tiny")
with open_terminal() as terminal, hold_output(paths, "run this"):
    console = Console(file=terminal)
    with redirect_output(paths.root / "run.log"):
        for step in range(3):
            console.print(f"step {step}")
        os.write(1, b"from C\\n")
        os.write(2, b"from C, too\\n")
        print("the end")
assert "run this" in paths.lock.read_text()
(paths.root / "ended").touch()
"""


@pytest.mark.parametrize(
    "redirections",
    [
        *(">&- 2>&- <&-", ">/dev/full 2>/dev/full", "| true"),
        *map(nightly, (">&-", "| cat")),
    ],
)
def test_run_continues_without_a_terminal_and_logs_why(tmp_path, redirections):
    command = shlex.join([sys.executable, "-c", LOG, str(tmp_path)])
    shell = subprocess.run(
        ["sh", "-c", f"{command} {redirections}"], capture_output=True, text=True
    )
    assert (tmp_path / "ended").exists(), shell.stderr
    assert shell.stderr == ""
    log = (tmp_path / "run.log").read_text()
    assert {"from C", "from C, too", "the end"} <= set(log.splitlines())
    assert "from C" not in shell.stdout
    is_lost = redirections in ("| true", ">/dev/full 2>/dev/full")
    assert log.count("standard output is lost") == is_lost
