"""Signals end a process within seconds, with its child processes."""

import signal
import subprocess
import sys
import textwrap

import psutil
import pytest

PROGRAM = """
import os, subprocess, time
from pipeline.local import interruption

interruption._UNWIND_SECONDS = 0.3

def say(text):
    os.write(1, f"{text}\\n".encode())  # whole lines, from two threads

child = subprocess.Popen(
    ["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL
)
try:
    explain = lambda reason: say(f"stopped by {reason}")
    with interruption.stopping(say, explain) as stopper, stopper.restored():
        {body}
except KeyboardInterrupt:
    interruption.end_process(130)
except SystemExit as stopped:
    interruption.end_process(stopped.code)
"""
WAIT = """
say(child.pid)
time.sleep(600)
"""
# What Beam does when a worker is busy: it waits for the worker once more.
WAIT_TWICE = """
try:
    say(child.pid)
    time.sleep(600)
finally:
    time.sleep(600)
"""
# What some functions of C++ do when a handler raises in them.
REPLACE_THE_EXCEPTION = """
try:
    say(child.pid)
    time.sleep(600)
except BaseException:
    raise TypeError
"""


@pytest.fixture
def start():
    """Starts a program in the context; returns it, and its child process."""
    started = []

    def start(body, before=""):
        program = PROGRAM.replace("{body}", textwrap.indent(body, " " * 8).strip())
        program = f"{before}\n{program}"
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process, psutil.Process(int(process.stdout.readline()))

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("number", "name", "status"),
    [(signal.SIGINT, "Ctrl-C", 130), (signal.SIGTERM, "SIGTERM", 143)],
)
@pytest.mark.parametrize("body", [WAIT, WAIT_TWICE, REPLACE_THE_EXCEPTION])
def test_signal_ends_the_process_and_its_children(start, body, number, name, status):
    process, child = start(body)
    process.send_signal(number)
    lines = process.communicate(timeout=10)[0].splitlines()
    assert process.returncode == status
    assert lines[0].startswith(f"{name}: stopping; a second signal stops at once")
    assert lines[1:] == [f"stopped by {name}"]
    assert not child.is_running()


TRAINING = """
import signal
signal.signal(signal.SIGINT, lambda *_: say("saving"))
say(child.pid)
while True:
    time.sleep(0.05)
"""


def test_second_signal_does_not_wait_for_a_training_that_saves(start):
    process, child = start(TRAINING)
    process.send_signal(signal.SIGINT)
    said = {process.stdout.readline().partition(";")[0].strip() for _ in range(2)}
    assert said == {"Ctrl-C: stopping", "saving"}
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=10)
    # The training's own handler may print the last line: it runs in the main thread.
    assert "stopped by Ctrl-C" in text.splitlines()
    assert process.returncode == 130
    assert not child.is_running()


def test_job_in_the_background_ignores_the_ctrl_c_of_another():
    program = """
import os, signal
from pipeline.local import interruption

signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts it
with interruption.stopping(print, print):
    os.kill(os.getpid(), signal.SIGINT)
print("went on")
"""
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert finished.stdout == "went on\n"


def test_sigterm_ends_a_job_in_the_background_that_waits_once_more(start):
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    process, child = start(WAIT_TWICE, before=ignore)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=10)[0].splitlines()[-1] == "stopped by SIGTERM"
    assert process.returncode == 143
    assert not child.is_running()
