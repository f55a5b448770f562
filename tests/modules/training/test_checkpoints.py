"""Files that survive being killed."""

import math

import pytest
import tensorflow as tf

from modules.training import checkpoints


def test_json_holds_null_where_a_metric_is_no_number(tmp_path):
    path = str(tmp_path / "records" / "metrics.json")
    checkpoints.write_json(path, {"auc": math.nan, "steps": [1, math.inf], "f1": 0.5})
    assert checkpoints.read_json(path) == {"auc": None, "steps": [1, None], "f1": 0.5}


def test_json_that_is_not_there_is_none(tmp_path):
    assert checkpoints.read_json(str(tmp_path / "absent.json")) is None


def model(value):
    found = tf.Module()
    found.weights = tf.Variable([value])
    return found


def test_better_weights_take_the_place_of_the_best(tmp_path):
    best = checkpoints.BestCheckpoint(str(tmp_path))
    assert best.record() is None
    best.save(model(1.0), {"step": 1})
    best.save(model(2.0), {"step": 2})
    assert best.record() == {"step": 2}
    restored = model(0.0)
    best.restore(restored)
    assert restored.weights.numpy() == [2.0]
    names = [path.name for path in (tmp_path / checkpoints.BEST).iterdir()]
    assert not any("weights-1" in name for name in names)


def test_weights_that_were_never_saved_are_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="no best checkpoint in"):
        checkpoints.BestCheckpoint(str(tmp_path)).restore(model(0.0))


def test_weights_of_another_model_are_refused(tmp_path):
    best = checkpoints.BestCheckpoint(str(tmp_path))
    best.save(model(1.0), {"step": 1})
    other = model(0.0)
    other.head = tf.Variable([3.0])
    with pytest.raises(AssertionError):
        best.restore(other)


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
    (tmp_path / "result.json").touch()
    checkpoints.delete_resumable(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
