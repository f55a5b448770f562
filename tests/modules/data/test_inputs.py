"""Batches: every row once an epoch, pairs of similar length together."""

import dataclasses
import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from contracts.packing import Packing
from contracts.storage import files
from modules.data import inputs
from tests import records, tiny
from tests.nightly import nightly

pytestmark = pytest.mark.slow

ROWS = 1100
BATCH = 16
STEPS = -(-ROWS // BATCH)
HOST_BATCH = 16
FEW_ROWS = 70
FEW_STEPS = -(-FEW_ROWS // BATCH)
LENGTHS = inputs.fixed_lengths(Packing(max_seq_length=64))


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Examples of 4 to 60 tokens; the id is the row's number."""
    return write_examples(tmp_path_factory.mktemp("examples") / "examples.gz", ROWS)


@pytest.fixture(scope="module")
def few_rows(tmp_path_factory):
    """Examples of a few batches, of which the last is smaller."""
    path = tmp_path_factory.mktemp("examples") / "examples.gz"
    return dataclasses.replace(write_examples(path, FEW_ROWS), examples=FEW_ROWS)


def write_examples(path, count):
    random = np.random.default_rng(0)
    rows = []
    for index in range(count):
        ids = random.integers(1, 99, size=random.integers(4, 61)).tolist()
        types = [0] * len(ids)
        columns = {"input_word_ids": ids, "input_type_ids": types}
        rows.append(records.example(**columns, label=[index % 2], idx=[index]))
    return inputs.ExamplesConfig(
        input_path=[records.write(path, rows)],
        global_batch_size=BATCH,
        is_training=True,
        seed=0,
    )


def batches(config, count, context=None, **changes):
    config = dataclasses.replace(config, **changes)
    return list(itertools.islice(inputs.build_batches(config, context), count))


@pytest.fixture(scope="module")
def steps(config):
    """The batches of two epochs."""
    return batches(config, 2 * STEPS)


@pytest.fixture(scope="module")
def unsorted(config):
    """The batches of an epoch that are not sorted by length."""
    return batches(config, STEPS, window_batches=1)


@pytest.fixture(scope="module")
def evaluated(config):
    """The batches of the evaluation."""
    return list(inputs.build_batches(dataclasses.replace(config, is_training=False)))


def rows_of(epoch):
    return [row for _, targets in epoch for row in targets["ids"].numpy().tolist()]


def test_every_epoch_holds_each_row_once_in_a_new_order(steps):
    first, second = rows_of(steps[:STEPS]), rows_of(steps[STEPS:])
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert first != second


def test_row_and_its_weight_reach_the_same_replica(tmp_path):
    path = tiny.write_transformed(tmp_path / "train.gz", 44, has_weights=True)
    config = inputs.ExamplesConfig(
        input_path=[str(path)],
        global_batch_size=BATCH,
        is_training=True,
        seed=0,
        weight_column="weight",
    )
    context = tf.distribute.InputContext(num_replicas_in_sync=2)
    rows = {}
    for _, targets in batches(config, 6, context):  # an epoch of three batches
        is_real = targets["weights"].numpy() > 0
        weights = targets["row_weights"].numpy()
        rows |= dict(
            zip(targets["ids"].numpy()[is_real], weights[is_real], strict=True)
        )
        assert not weights[~is_real].any()
    assert rows == {index: 0.5 + index % 3 for index in range(44)}


def test_order_depends_only_on_the_seed(config, steps):
    tf.random.set_seed(7)
    first = rows_of(steps[:10])
    assert rows_of(batches(config, 10)) == first
    assert rows_of(batches(config, 10, seed=1)) != first


def test_resumed_training_continues_with_unseen_rows(config, steps):
    step = STEPS + 3
    resumed = batches(config, 20, start_step=step)
    assert rows_of(resumed) == rows_of(steps[step : step + 20])


def shares(config, count, workers, **changes):
    """Returns the rows of the first batches of each worker."""
    config = dataclasses.replace(config, workers=workers, **changes)
    # A worker's own pipeline reads its index from the process that runs it.
    every_batch = inputs.build_batches(dataclasses.replace(config, workers=1))
    rows = []
    for worker in range(workers):
        index = tf.constant(worker, tf.int64)
        share = inputs.share_among_workers(every_batch, config, index)
        rows.append([rows_of([batch]) for batch in share.take(count)])
    return rows


def test_asynchronous_workers_share_each_epoch_without_a_row_twice(config):
    epoch = shares(config, STEPS // 3, workers=3)
    rows = [row for share in epoch for batch in share for row in batch]
    assert sorted(rows) == list(range(ROWS))


@pytest.mark.nightly
@pytest.mark.parametrize("step", [1, 6, STEPS + 4])
def test_resumed_asynchronous_worker_continues_after_its_own_steps(config, step):
    whole = shares(config, step // 3 + 5, workers=3)
    resumed = shares(config, 4, workers=3, start_step=step)
    for worker, batches in enumerate(resumed):
        own_steps = len(range(worker, step, 3))
        assert batches == whole[worker][own_steps : own_steps + 4]


def test_padding_is_a_few_percent_of_the_tokens(steps):
    masks = [batch["input_mask"].numpy() for batch, _ in steps[:STEPS]]
    padding = 1 - sum(mask.sum() for mask in masks) / sum(mask.size for mask in masks)
    assert padding < 0.06


def test_window_of_one_batch_does_not_sort_by_length(config, steps, unsorted):
    def spread(steps):
        lengths = [batch["input_mask"].numpy().sum(axis=1) for batch, _ in steps]
        return np.mean([rows.max() - rows.min() for rows in lengths])

    assert config.window_batches == 16
    assert sorted(rows_of(unsorted)) == list(range(ROWS))
    assert spread(steps[:STEPS]) < 0.3 * spread(unsorted)


def test_file_is_read_once_for_all_epochs(config, tmp_path):
    copy = shutil.copy(config.input_path[0], tmp_path)
    steps = iter(inputs.build_batches(dataclasses.replace(config, input_path=[copy])))
    first = list(itertools.islice(steps, STEPS + 1))
    Path(copy).unlink()
    later = list(itertools.islice(steps, 2 * STEPS - 1))
    assert sorted(rows_of([*first, *later])) == sorted([*range(ROWS)] * 3)


def test_sorted_rows_are_drawn_from_the_whole_split(unsorted):
    first = rows_of(unsorted[:8])
    assert len(first) == 8 * BATCH
    assert min(first) < 0.1 * ROWS
    assert max(first) > 0.9 * ROWS


@pytest.fixture(scope="module")
def many_files(config, tmp_path_factory):
    """The same rows in 11 files, with a shuffle buffer of 100 rows."""
    directory = tmp_path_factory.mktemp("many_files")
    content = list(inputs.read_records(config).as_numpy_iterator())
    for start in range(0, ROWS, 100):
        path = str(directory / f"{start:04}.gz")
        with tf.io.TFRecordWriter(path, options="GZIP") as writer:
            for record in content[start : start + 100]:
                writer.write(record)
    return dataclasses.replace(
        config, input_path=[f"{directory}/*.gz"], shuffle_buffer_size=100
    )


def test_split_larger_than_the_buffer_is_read_whole_each_epoch_with_mixed_files(
    many_files,
):
    steps = batches(many_files, 2 * STEPS, window_batches=1)
    first, second = rows_of(steps[:STEPS]), rows_of(steps[STEPS:])
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert first != second
    parts = {row // 100 for row in first[: 2 * BATCH]}
    assert len(parts) > 5


def host_batches(many_files, hosts, count, **changes):
    """Returns the batches of each host, one replica each, and the rows of its files."""
    paths = files.list_records(many_files.input_path)
    configs = [
        dataclasses.replace(many_files, input_path=paths[host::hosts], **changes)
        for host in range(hosts)
    ]
    examples = [inputs.count_examples(config) for config in configs]
    shared = {
        "host_examples": examples,
        "examples": ROWS,
        "global_batch_size": HOST_BATCH * hosts,
    }
    configs = [
        dataclasses.replace(config, host=host, **shared)
        for host, config in enumerate(configs)
    ]
    steps = [
        batches(config, count, tf.distribute.InputContext(hosts, host, hosts))
        for host, config in enumerate(configs)
    ]
    # File n has the rows from 100 * n on.
    rows = [
        [row for row in range(ROWS) if row // 100 % hosts == host]
        for host in range(hosts)
    ]
    return steps, rows, inputs.count_steps(configs[0])


def real_rows(steps, name="ids"):
    """Returns a target, without the rows that only fill a batch."""
    return [
        row
        for _, targets in steps
        for row in targets[name].numpy()[targets["weights"].numpy() > 0].tolist()
    ]


@pytest.fixture(scope="module")
def two_hosts(many_files):
    """Returns `host_batches` of two epochs."""
    return host_batches(many_files, 2, 80)


def test_hosts_read_their_own_files_and_each_row_once_an_epoch(two_hosts):
    steps, own_rows, epoch = two_hosts
    assert epoch == -(-max(map(len, own_rows)) // HOST_BATCH)
    for host, rows in zip(steps, own_rows, strict=True):
        first, second = real_rows(host[:epoch]), real_rows(host[epoch : 2 * epoch])
        assert sorted(first) == sorted(second) == sorted(rows)
        assert first != second
        assert {batch["input_word_ids"].shape[0] for batch, _ in host} == {HOST_BATCH}


def test_host_resumes_with_unseen_rows(many_files, two_hosts):
    whole, _, epoch = two_hosts
    step = epoch + 7
    resumed, _, _ = host_batches(many_files, 2, 10, start_step=step)
    for host in range(2):
        assert real_rows(resumed[host]) == real_rows(whole[host][step : step + 10])


def test_evaluation_of_hosts_with_their_own_files_has_each_row_once(many_files):
    steps, own_rows, epoch = host_batches(many_files, 3, 200, is_training=False)
    assert {len(host) for host in steps} == {epoch}
    positions = []
    for host, rows in zip(steps, own_rows, strict=True):
        assert sorted(real_rows(host)) == sorted(rows)
        positions += real_rows(host, "positions")
    assert len(set(positions)) == ROWS


def test_batches_are_not_sorted_by_length(steps):
    lengths = [batch["input_mask"].shape[1] for batch, _ in steps[:STEPS]]
    correlation = np.corrcoef(lengths, np.arange(len(lengths)))[0, 1]
    assert abs(correlation) < 0.5


def test_lengths_are_few_and_fixed_where_every_shape_is_compiled(config):
    steps = batches(config, STEPS, lengths=LENGTHS)
    widths = {batch["input_word_ids"].shape[1] for batch, _ in steps}
    assert LENGTHS == [16, 32, 48, 64]
    assert widths <= set(LENGTHS)
    assert len(widths) > 1
    assert {batch["input_word_ids"].shape[0] for batch, _ in steps} == {BATCH}
    assert sorted(real_rows(steps)) == list(range(ROWS))


def test_evaluation_reads_each_row_once_including_the_last_small_batch(
    config, evaluated
):
    assert sorted(rows_of(evaluated)) == list(range(ROWS))
    assert evaluated[-1][1]["weights"].shape == [ROWS % BATCH]
    assert inputs.count_examples(config) == ROWS


def test_evaluation_of_the_first_rows_has_long_and_short_ones(config):
    first = dataclasses.replace(config, is_training=False, first_rows=3 * BATCH)
    steps = list(inputs.build_batches(first))
    assert len(steps) == 3
    assert sorted(rows_of(steps)) == list(range(3 * BATCH))


def test_evaluation_pads_a_few_percent_and_has_the_positions_of_its_rows(evaluated):
    masks = [batch["input_mask"].numpy().ravel() for batch, _ in evaluated]
    assert np.concatenate(masks).mean() > 0.9
    positions = real_rows(evaluated, "positions")
    assert positions == rows_of(evaluated) != sorted(positions)


EVALUATION = {"is_training": False}
AT_FIXED_LENGTHS = {"lengths": LENGTHS}
RESUMED = {"start_step": FEW_STEPS - 2}


@pytest.mark.parametrize(
    ("pipelines", "replicas", "settings"),
    [
        (1, 2, EVALUATION | AT_FIXED_LENGTHS),
        (2, 4, RESUMED),
        nightly(8, 16, RESUMED | AT_FIXED_LENGTHS),
        nightly(8, 8, EVALUATION),
    ],
)
def test_replicas_share_each_global_batch_without_losing_a_row(
    few_rows, pipelines, replicas, settings
):
    config = dataclasses.replace(few_rows, **settings)
    local = replicas // pipelines
    shares = [
        batches(
            config,
            FEW_STEPS * local,
            tf.distribute.InputContext(pipelines, pipeline, replicas),
        )
        for pipeline in range(pipelines)
    ]
    for step, whole in enumerate(batches(config, FEW_STEPS)):
        per_replica = [
            batch
            for share in shares
            for batch in share[step * local : (step + 1) * local]
        ]
        assert len(per_replica) == replicas
        length = whole[0]["input_word_ids"].shape[1]
        shapes = {tuple(batch["input_word_ids"].shape) for batch, _ in per_replica}
        assert shapes == {(BATCH // replicas, length)}
        assert length in (config.lengths or [length])
        joined = tf.nest.map_structure(
            lambda *columns: np.concatenate(columns), *per_replica
        )
        # Of fixed lengths the whole batch is filled, too.
        rows, real = joined[1]["weights"] > 0, whole[1]["weights"] > 0
        for name, expected in (whole[0] | whole[1]).items():
            values = (joined[0] | joined[1])[name]
            np.testing.assert_array_equal(values[rows], expected[real])


def test_replicas_know_the_rank_of_every_input(few_rows):
    """A TPU refuses inputs of unknown rank."""
    context = tf.distribute.InputContext(2, 1, 16)
    config = dataclasses.replace(few_rows, **EVALUATION)
    features, targets = inputs.build_batches(config, context).element_spec
    assert {spec.shape.rank for spec in features.values()} == {2}
    assert {spec.shape.rank for spec in targets.values()} == {1}
