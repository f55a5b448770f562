"""Signals are seen in a thread, by every context that watches them."""

import os
import signal
import threading

import pytest

from contracts import signals


@pytest.fixture(autouse=True)
def handled():
    """A handler: only signals that have one in Python are seen."""
    previous = signal.signal(signal.SIGUSR1, lambda *_: None)
    yield
    signal.signal(signal.SIGUSR1, previous)


def test_every_context_is_called_in_another_thread():
    calls = []

    def call(name):
        return lambda number: calls.append((name, number, threading.current_thread()))

    with signals.watch(call("outer")):
        with signals.watch(call("inner")):
            os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert sorted(name for name, _, _ in calls) == ["inner", "outer", "outer"]
    assert {number for _, number, _ in calls} == {signal.SIGUSR1}
    assert threading.main_thread() not in {thread for _, _, thread in calls}


def test_another_thread_watches_nothing():
    calls = []

    def run():
        with signals.watch(calls.append):
            os.kill(os.getpid(), signal.SIGUSR1)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert calls == []


def test_error_without_a_signal_stays_as_it_is():
    with pytest.raises(TypeError), signals.Stopper().restored():
        raise TypeError
