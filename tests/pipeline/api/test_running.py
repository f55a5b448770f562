"""A call of `run` that cannot start."""

import re
import threading

from pipeline import run
from tests import tiny
from tests.refusals import refused


def test_other_thread_is_refused(tmp_path):
    recipe = tiny.write_config(tmp_path / "recipe.yaml", splits=("train", "eval"))
    raised = []

    def start():
        with refused("E-run-thread", got=re.compile("worker")):
            run(recipe)
        raised.append("worker")

    thread = threading.Thread(target=start, name="worker")
    thread.start()
    thread.join()
    assert raised == ["worker"]
    assert not (tmp_path / "output").exists()
