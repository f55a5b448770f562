"""Marks, boxes and paths are printed in any encoding; files are UTF-8."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from modules import environment
from tests.nightly import nightly
from tests.pipeline.past_runs import PastRuns

NAME = "größe-日本"


@pytest.fixture
def past(tmp_path):
    past = PastRuns(tmp_path / NAME)
    past.run("refused", reason=f"{NAME} ✓ is 0.5")
    return past


@pytest.fixture(params=["ascii:strict", nightly("latin-1")])
def encoding(request):
    return request.param


def run(*command, encoding, **options):
    variables = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "200"}
    command = [sys.executable, *map(str, command)]
    return subprocess.run(
        command, env=variables, capture_output=True, check=False, **options
    )


COMMANDS = """
import sys
from pipeline.cli.main import main
for command in sys.argv[2:]:
    try:
        main([*command.split(), "--output", sys.argv[1]])
    except SystemExit as end:
        print(f"status {end.code}", flush=True)
"""


def test_commands_print_in_any_encoding(past, encoding):
    (past.paths.root / "metadata.sqlite").write_bytes(b"")
    commands = ["runs", "show latest", "versions", "lineage 1", "clean", "show none"]
    as_json = [f"{command} --json" for command in commands[:3]]
    arguments = (past.paths.root, *as_json, *commands)
    result = run("-c", COMMANDS, *arguments, encoding=encoding)
    runs, *others, printed = result.stdout.split(b"status 0\n", 3)
    assert json.loads(runs.decode("ascii"))[0]["reason"] == f"{NAME} ✓ is 0.5"
    assert [bool(json.loads(text.decode("ascii"))) for text in others] == [True, False]
    name = encoding.partition(":")[0]
    # click writes UTF-8 to streams that claim to be ASCII.
    text = printed.decode("utf-8" if name == "ascii" else name)
    statuses = [line for line in text.splitlines() if line.startswith("status ")]
    assert statuses == [f"status {code}" for code in (0, 0, 0, 2, 2, 2)], result.stderr
    result.stderr.decode(name)
    assert b"Traceback" not in result.stderr


LOGGED = """
import logging, sys
from pathlib import Path
from modules import environment
from pipeline.local.run import redirect_output
environment.set_up()
with redirect_output(Path(sys.argv[1])):
    print("saved checkpoint at", sys.argv[1])  # as Orbit does
    logging.getLogger("absl").warning("%s", sys.argv[1])
    print("\\udcff")  # a byte of a name that is not UTF-8
print(sys.argv[1])
"""


def test_log_of_a_run_has_paths_that_the_terminal_cannot_show(past, encoding):
    log = past.paths.root / "run.log"
    result = run("-c", LOGGED, log, encoding=encoding)
    assert result.returncode == 0, result.stderr
    text = log.read_text(encoding="utf-8")
    assert text.count(str(log)) == 2
    assert "\\udcff" in text
    assert result.stdout.decode(encoding.partition(":")[0]).count("gr") == 1


PRINT = f"import sys; print({NAME!r}); print({NAME!r}, file=sys.stderr)"
CHILD = """
import subprocess, sys
from modules import environment
environment.set_up()
sys.exit(subprocess.run([sys.executable, "-c", sys.argv[1]]).returncode)
"""


def test_processes_that_a_run_starts_print_in_any_encoding(encoding):
    """Such as Beam's workers, which are started with this environment."""
    result = run("-c", CHILD, PRINT, encoding=encoding)
    assert (result.returncode, result.stderr.count(b"Error")) == (0, 0)
    assert len(result.stdout.splitlines()) == 1


def test_name_that_is_not_utf8_is_printed(tmp_path):
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/gr\xf6\xdfe"))
    PastRuns(root.with_name("output"))
    root.with_name("output").rename(root)
    result = run("-c", COMMANDS, root, "runs", "clean", encoding="utf-8")
    assert result.stdout.count(b"status ") == 2
    assert b"reads only paths in UTF-8; rename" in result.stderr
    assert b"Traceback" not in result.stderr


def test_streams_of_tests_and_notebooks_are_left_alone(monkeypatch):
    """They may be no text files."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", object())
    environment.escape_unprintable()
