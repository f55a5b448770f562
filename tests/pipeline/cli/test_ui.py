"""The command that serves the web view of runs."""

import signal
import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from pipeline.config.paths import REPOSITORY
from serving.launch import listen
from tests.nightly import nightly
from tests.refusals import check_command


def ui(*arguments):
    return CliRunner().invoke(main, ["ui", *map(str, arguments)])


def test_directory_without_runs_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_command(ui(), "E-output-not-found", str(tmp_path), "--output DIR")


def test_a_port_in_use_is_refused(tmp_path):
    with listen("127.0.0.1", 0, "port") as socket:
        result = ui("--output", tmp_path, "--port", socket.getsockname()[1])
    check_command(result, "E-port-unavailable", "Address already in use")


@pytest.mark.slow
@pytest.mark.usefixtures("foreground")
@pytest.mark.parametrize(
    ("number", "is_ignored"),
    [
        (signal.SIGINT, True),
        (signal.SIGHUP, False),
        nightly(signal.SIGINT, False),
        nightly(signal.SIGHUP, True),
    ],
)
def test_it_serves_the_runs_below_output_until_a_signal(tmp_path, number, is_ignored):
    """A shell has a job in the background ignore SIGINT, and `nohup` SIGHUP."""
    if is_ignored:
        signal.signal(number, signal.SIG_IGN)
    (tmp_path / "output" / "sample" / "runs").mkdir(parents=True)
    command = [sys.executable, "-m", "pipeline", "ui", "--port", "0"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    address = process.stdout.readline().strip()
    assert "There are no runs yet" in httpx.get(address).text
    process.send_signal(number)
    if is_ignored:
        assert httpx.get(address).is_success
        process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert errors == ""
