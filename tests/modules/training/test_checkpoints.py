"""Checkpoints that survive a kill, on a file system and on an object store."""

import functools
import itertools
import math

import pytest
import tensorflow as tf

from contracts.storage import files
from modules import remote_files
from modules.training import checkpoints
from tests.nightly import nightly
from tests.refusals import refused

pytestmark = pytest.mark.slow


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path)


@pytest.fixture
def reopen(directory):
    """Opens the checkpoints as a restarted training does, which saves every 2 steps."""
    return functools.partial(open_checkpoints, directory)


def open_checkpoints(directory, step=0, is_chief=True):
    step = tf.Variable(step, dtype=tf.int64)
    weights = tf.Variable([1.0])
    manager = checkpoints.ResumableCheckpoints(
        tf.train.Checkpoint(step=step, weights=weights),
        directory,
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


@pytest.fixture(params=["damaged", "NaN"])
def bad_newest(request, directory, reopen):
    """Checkpoints of steps 2 to 6 are saved; that of step 6 is bad."""
    _, save = reopen()
    for number in (2, 4):
        save(number)
    save(6, math.nan if request.param == "NaN" else 1.0)
    if request.param == "damaged":
        files.write(f"{directory}/ckpt-6.data-00000-of-00001", b"")


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
def test_discarded_checkpoint_is_never_restored(directory, reopen, is_restarted):
    manager, save = reopen()
    for number in (2, 4, 6):
        save(number)
    manager.discard_current()
    assert not tf.io.gfile.glob(f"{directory}/ckpt-6*")
    if is_restarted:
        manager, save = reopen()
    assert manager.restore_or_initialize().endswith("ckpt-4")
    assert save(6).endswith("ckpt-6")
    assert [path[-1] for path in manager.checkpoints] == ["4", "6"]


def test_discarding_the_only_checkpoint_leaves_none(reopen):
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


def test_finished_training_deletes_what_a_killed_save_left(bad_newest, directory):
    files.write(f"{directory}/ckpt-7_temp/part-00000-of-00001.index", b"")
    files.write(f"{directory}/record.json", b"")
    checkpoints.delete_resumable(directory)
    assert tf.io.gfile.listdir(directory) == ["record.json"]


def test_checkpoints_in_a_bucket_are_restored_discarded_and_deleted(bucket):
    _, save = open_checkpoints(bucket)
    for number in (2, 4, 6):
        save(number)
    files.write(f"{bucket}/ckpt-6.data-00000-of-00001", b"")
    manager, save = open_checkpoints(bucket)
    assert manager.restore_or_initialize().endswith("ckpt-4")
    assert checkpoints.find_problem(save(6)) is None
    manager.discard_current()
    assert not tf.io.gfile.glob(f"{bucket}/ckpt-6*")
    assert manager.restore_or_initialize().endswith("ckpt-4")
    files.write(f"{bucket}/ckpt-7_temp/part-00000-of-00001.index", b"")
    files.write(f"{bucket}/record.json", b"")
    checkpoints.delete_resumable(bucket)
    assert tf.io.gfile.listdir(bucket) == ["record.json"]


@pytest.mark.parametrize("name", ["index", "data-00000-of-00001"])
def test_checkpoint_in_a_bucket_that_lost_a_file_is_skipped(bucket, object_store, name):
    _, save = open_checkpoints(bucket)
    for number in (2, 4):
        save(number)
    object_store.delete(f"{bucket}/ckpt-4.{name}")
    assert open_checkpoints(bucket)[0].restore_or_initialize().endswith("ckpt-2")


@pytest.mark.parametrize(
    ("kind", "only_reads"),
    [(503, False), nightly(503, True), nightly("cut", True), ("short", True)],
)
def test_training_does_not_start_again_while_a_bucket_does_not_respond(
    bucket, object_store, monkeypatch, kind, only_reads
):
    """From any request on, or from any request for contents on."""
    monkeypatch.setattr(remote_files, "_PAUSES", (0,))
    _, save = open_checkpoints(bucket)
    for number in (2, 4):
        save(number)
    for first in itertools.count(1):
        object_store.fail(bucket, kind, first, times=None, only_reads=only_reads)
        try:
            restored = open_checkpoints(bucket)[0].restore_or_initialize()
        except tf.errors.OpError:
            continue
        finally:
            object_store.accept_all()
        assert restored.endswith("ckpt-4")
        break
    assert first > 5


def test_state_that_can_be_read_after_a_while_is_restored(bucket, object_store):
    _, save = open_checkpoints(bucket)
    save(2)
    manager, _ = open_checkpoints(bucket)
    # TensorFlow sends a request 11 times, and then takes the state for a missing one.
    object_store.fail(bucket, 503, times=11, only_reads=True)
    assert manager.restore_or_initialize().endswith("ckpt-2")
    assert len(object_store.accept_all()) > 11


@pytest.mark.parametrize("content", ["model_checkpoint_path: ckpt", ""])
def test_damaged_state_is_a_usage_error_and_costs_no_checkpoint(
    directory, reopen, content
):
    manager, save = reopen()
    save(2)
    names = set(tf.io.gfile.listdir(directory))
    files.write(f"{directory}/checkpoint", content)
    for use in (manager.restore_or_initialize, reopen):
        with refused("E-record-damaged", setting=f"{directory}/checkpoint"):
            use()
    assert set(tf.io.gfile.listdir(directory)) == names


@pytest.mark.nightly
def test_killed_save_to_a_bucket_leaves_a_checkpoint_to_restore(bucket, object_store):
    """A save writes and renames objects, and then deletes the oldest checkpoint."""
    for writes in itertools.count(0, 3):
        directory = f"{bucket}/{writes}"
        _, save = open_checkpoints(directory)
        for number in (2, 4):
            save(number)
        object_store.refuse_after(bucket, writes)
        try:
            save(6)
        except tf.errors.OpError:
            object_store.accept_all()
        else:
            break
        manager, _ = open_checkpoints(directory)
        assert manager.restore_or_initialize()[-1] in "46"
        checkpoints.delete_resumable(directory)
        keys = object_store.keys(f"{directory}/")
        assert not [key for key in keys if not key.endswith("/")]
    assert writes > 9
