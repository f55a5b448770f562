"""The command that serves the web view of runs."""

import signal
import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner

from pipeline import exit_status
from pipeline.cli.main import main
from pipeline.config.paths import REPOSITORY
from serving.launch import listen
from tests.nightly import nightly


def ui(*arguments):
    return CliRunner().invoke(main, ["ui", *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "nowhere"], "nowhere: there is no such directory"),
        ([], "there are no runs below"),
        (["--output", ".", "--allowed-host", "http://a"], "give a host name"),
    ],
)
def test_bad_usage_is_refused(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = ui(*arguments)
    assert result.exit_code == exit_status.USAGE
    assert message in result.output


def test_a_port_in_use_is_refused(tmp_path):
    with listen("127.0.0.1", 0, "--port") as socket:
        result = ui("--output", tmp_path, "--port", socket.getsockname()[1])
    assert result.exit_code == exit_status.USAGE
    assert "Address already in use" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, nightly(signal.SIGTERM)])
def test_it_serves_the_runs_below_output_until_a_signal(number, tmp_path):
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
    _, errors = process.communicate(timeout=30)
    assert process.returncode in (0, -signal.SIGTERM)
    assert errors == ""
