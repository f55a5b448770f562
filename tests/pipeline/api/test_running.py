"""A call of `run` that cannot start."""

import threading

import pytest

from pipeline import UsageError, run
from tests import tiny


def test_other_thread_is_refused(tmp_path):
    recipe = tiny.write_config(tmp_path / "recipe.yaml", splits=("train", "eval"))
    raised = []

    def start():
        with pytest.raises(UsageError, match="only the main thread") as error:
            run(recipe)
        raised.append(error.value.name)

    thread = threading.Thread(target=start, name="worker")
    thread.start()
    thread.join()
    assert raised == ["E-run-thread"]
    assert not (tmp_path / "output").exists()
