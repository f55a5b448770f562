"""Checkpoints that survive a kill."""

import math

import pytest
import tensorflow as tf

from modules.training import checkpoints

pytestmark = pytest.mark.slow


@pytest.fixture
def reopen(tmp_path):
    """Opens the checkpoints as a restarted training does, which saves every 2 steps."""

    def reopen(step=0, is_chief=True):
        step = tf.Variable(step, dtype=tf.int64)
        weights = tf.Variable([1.0])
        manager = checkpoints.ResumableCheckpoints(
            tf.train.Checkpoint(step=step, weights=weights),
            str(tmp_path),
            step_counter=step,
            interval=2,
            max_to_keep=2,
            init_fn=lambda: None,
            is_chief=is_chief,
        )

        def save(number, value=1.0):
            step.assign(number)
            weights.assign([value])
            return manager.save(checkpoint_number=step, check_interval=False)

        return manager, save

    return reopen


@pytest.fixture(params=["damaged", "NaN"])
def bad_newest(request, tmp_path, reopen):
    """Checkpoints of steps 2 to 6 are saved; that of step 6 is bad."""
    _, save = reopen()
    for number in (2, 4):
        save(number)
    save(6, math.nan if request.param == "NaN" else 1.0)
    if request.param == "damaged":
        (tmp_path / "ckpt-6.data-00000-of-00001").write_bytes(b"")


def test_good_checkpoint_replaces_the_bad_one_of_its_step(bad_newest, reopen):
    manager, save = reopen()
    assert manager.restore_or_initialize().endswith("ckpt-4")
    path = save(6)
    assert path.endswith("ckpt-6")
    assert checkpoints.find_problem(path) is None
    save(8)
    restarted, _ = reopen()
    assert restarted.restore_or_initialize().endswith("ckpt-8")
    assert [path[-1] for path in restarted.checkpoints] == ["6", "8"]


def test_bad_checkpoint_does_not_displace_a_good_one(bad_newest, reopen):
    manager, save = reopen()
    manager.restore_or_initialize()
    save(5)
    problems = {
        path[-1]: checkpoints.find_problem(path) for path in manager.checkpoints
    }
    assert problems == {"4": None, "5": None}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_discarded_checkpoint_is_never_restored(tmp_path, reopen, is_restarted):
    manager, save = reopen()
    for number in (2, 4, 6):
        save(number)
    manager.discard_current()
    assert not list(tmp_path.glob("ckpt-6*"))
    if is_restarted:
        manager, save = reopen()
    assert manager.restore_or_initialize().endswith("ckpt-4")
    assert save(6).endswith("ckpt-6")
    assert [path[-1] for path in manager.checkpoints] == ["4", "6"]


def test_last_checkpoint_that_is_discarded_leaves_none(tmp_path, reopen):
    manager, save = reopen()
    save(2)
    manager.discard_current()
    manager.discard_current()
    restarted, _ = reopen()
    assert restarted.restore_or_initialize() is None


def test_worker_goes_back_before_the_chief_discards_the_checkpoint(reopen):
    _, save = reopen()
    for number in (4, 6):
        save(number)
    worker, _ = reopen(step=6, is_chief=False)
    worker.discard_current()
    assert worker.restore_or_initialize().endswith("ckpt-4")


def test_finished_training_deletes_what_a_killed_save_left(bad_newest, tmp_path):
    (tmp_path / "ckpt-7_temp").mkdir()
    (tmp_path / "ckpt-7_temp" / "part-00000-of-00001.index").touch()
    (tmp_path / "record.json").touch()
    checkpoints.delete_resumable(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_checkpoint_with_weights_that_are_not_finite_is_not_restored(tmp_path):
    weights = tf.Variable([1.0, float("inf")])
    path = tf.train.Checkpoint(weights=weights).write(str(tmp_path / "ckpt"))
    assert "is not finite" in checkpoints.find_problem(path)
    weights.assign([1.0, 2.0])
    path = tf.train.Checkpoint(weights=weights).write(str(tmp_path / "ckpt"))
    assert checkpoints.find_problem(path) is None
