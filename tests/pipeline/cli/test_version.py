"""`--version`, in a checkout and without one."""

import re
import subprocess
import sys
from importlib import metadata

from click.testing import CliRunner

from pipeline.cli import version
from pipeline.cli.main import main

_RUN = """
import sys
from pipeline.cli.main import main
main(["--version"], standalone_mode=False)
print({"tensorflow", "tfx", "apache_beam"} & set(sys.modules))
"""


def test_version_commit_and_stack_are_one_line_without_tensorflow():
    command = [sys.executable, "-c", _RUN]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    line, imported = output.splitlines()
    python = "{}.{}.{}".format(*sys.version_info)
    tfx, tensorflow = metadata.version("tfx"), metadata.version("tensorflow")
    stack = ".".join(tfx.split(".")[:2])
    assert re.fullmatch(
        rf"bert-pipeline {metadata.version(version.PROJECT)} "
        r"\(commit ([0-9a-f]{12}(, with changes)?|unknown)\), "
        rf"stack {stack}: TFX {tfx}, TensorFlow {tensorflow}, Python {python}",
        line,
    )
    assert imported == "set()"


def test_commit_of_an_image_is_that_of_its_build_and_of_a_wheel_unknown(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))  # no git
    monkeypatch.delenv(version.COMMIT_VARIABLE, raising=False)
    assert "(commit unknown)" in CliRunner().invoke(main, ["--version"]).output
    monkeypatch.setenv(version.COMMIT_VARIABLE, f"{'1' * 40}-dirty")
    output = CliRunner().invoke(main, ["--version"]).output
    assert f"(commit {'1' * 40}-dirty)" in output
