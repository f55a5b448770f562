"""What is set up before TensorFlow and TFX are imported."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def run(script):
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )


def test_short_command_shows_no_output_of_tensorflow():
    process = run(
        """
import sys
from modules import environment
environment.set_up(quiet=True)
import tensorflow as tf
print(int(tf.constant(1) + 1))
print("a word of our own", file=sys.stderr)
"""
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout == "2\n"
    assert process.stderr == "a word of our own\n"


def test_failed_import_shows_the_hidden_output(tmp_path):
    (tmp_path / "tensorflow.py").write_text(
        "import os\nos.write(2, b'no such library\\n')\nraise ImportError('broken')\n"
    )
    process = run(
        f"""
import sys
from modules import environment
environment.set_up(quiet=True)
sys.path.insert(0, {str(tmp_path)!r})
import tensorflow
"""
    )
    assert process.returncode == 1
    first, *_, last = process.stderr.splitlines()
    assert first == "no such library"
    assert last == "ImportError: broken"
