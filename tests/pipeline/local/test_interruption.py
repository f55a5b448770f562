"""Signals end a process within seconds, with its child processes."""

import signal
import subprocess
import sys
import textwrap

import psutil
import pytest

from pipeline.local.interruption import is_alive
from tests.nightly import nightly

PROGRAM = """
import os, subprocess, time
from contracts import signals
from pipeline.local import interruption

interruption._UNWIND_SECONDS = 0.3

def say(text):
    os.write(1, f"{text}\\n".encode())  # whole lines, from two threads

child = subprocess.Popen(
    ["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL
)
try:
    explain = lambda reason: say(f"stopped by {reason}")
    stopper = signals.Stopper()
    with interruption.stopping(say, explain, stopper), stopper.restored():
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
def start(foreground):
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
    ("body", "number", "name"),
    [
        (WAIT, signal.SIGINT, "Ctrl-C"),
        (WAIT, signal.SIGHUP, "SIGHUP (closed terminal)"),
        (WAIT_TWICE, signal.SIGINT, "Ctrl-C"),
        (WAIT_TWICE, signal.SIGTERM, "SIGTERM"),
        (REPLACE_THE_EXCEPTION, signal.SIGTERM, "SIGTERM"),
    ],
)
def test_signal_ends_the_process_and_its_children(start, body, number, name):
    process, child = start(body)
    process.send_signal(number)
    lines = process.communicate(timeout=10)[0].splitlines()
    assert process.returncode == 128 + number
    start_of_line = f"{name}: stopping; a second Ctrl-C or SIGTERM stops at once"
    assert lines[0].startswith(start_of_line)
    assert lines[1:] == [f"stopped by {name}"]
    assert not is_alive(child)


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
        process.wait(0.6)  # twice the time to unwind
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=10)
    # The training's own handler may print the last line: it runs in the main thread.
    assert "stopped by Ctrl-C" in text.splitlines()
    assert process.returncode == 130
    assert not is_alive(child)


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_signal_that_was_ignored_at_the_start_stays_ignored(name):
    """A shell starts a job in the background without Ctrl-C, `nohup` without SIGHUP."""
    program = f"""
import os, signal
from contracts import signals
from pipeline.local import interruption

signal.signal(signal.{name}, signal.SIG_IGN)
with interruption.stopping(print, print, signals.Stopper()):
    os.kill(os.getpid(), signal.{name})
assert signal.getsignal(signal.{name}) == signal.SIG_IGN
print("went on")
"""
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert finished.stdout == "went on\n"


SAVE = """
import signal
saving = []

def save(number, frame):
    saving.append(number)
    if saving[1:]:
        return
    say("saving")
    while not saving[1:]:
        time.sleep(0.01)
    say("saved")
    stopper.stop(number)

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, save)
say(child.pid)
while True:
    time.sleep(0.05)
"""
UNWIND = """
interruption._UNWIND_SECONDS = 5.0
try:
    say(child.pid)
    while True:  # a signal just before a long sleep would not end it
        time.sleep(0.01)
finally:
    say("unwinding")
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        time.sleep(0.01)
    say("unwound")
"""


@pytest.mark.parametrize(
    "first", [signal.SIGTERM, nightly(signal.SIGHUP), nightly(signal.SIGINT)]
)
@pytest.mark.parametrize(
    ("body", "begun", "ended"),
    [(SAVE, "saving", "saved"), (UNWIND, "unwinding", "unwound")],
)
def test_closed_terminal_after_another_signal_does_not_end_the_process_at_once(
    start, first, body, begun, ended
):
    """The shell and the kernel both send SIGHUP; neither is an impatient user."""
    process, child = start(body)
    process.send_signal(first)
    lines = [process.stdout.readline() for _ in range(2)]
    assert f"{begun}\n" in lines
    process.send_signal(signal.SIGHUP)
    text, _ = process.communicate(timeout=20)
    assert text.splitlines()[0] == ended
    assert process.returncode == 128 + first
    assert not is_alive(child)


@pytest.mark.parametrize(
    "numbers",
    [(signal.SIGTERM, signal.SIGHUP), (signal.SIGHUP, signal.SIGTERM)],
)
def test_sigterm_and_sighup_at_once_stop_a_run_as_one_signal(start, numbers):
    """As systemd sends them when a user logs out."""
    process, child = start(UNWIND)
    for number in numbers:
        process.send_signal(number)
    lines = process.communicate(timeout=10)[0].splitlines()
    assert "unwound" in lines
    assert lines[-1].startswith("stopped by SIG")
    assert process.returncode in (129, 143)
    assert not is_alive(child)


def test_sigterm_ends_a_job_in_the_background_that_waits_once_more(start):
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    process, child = start(WAIT_TWICE, before=ignore)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=10)[0].splitlines()[-1] == "stopped by SIGTERM"
    assert process.returncode == 143
    assert not is_alive(child)
