"""TPUs and GPUs, simulated on a CPU: the settings chosen for them, and XLA.

Stand-ins replace the list of devices, the connection to a TPU, and `TPUStrategy` of
TensorFlow, because each release of the Model Garden calls them differently.
"""

import socket

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from modules.data import inputs
from modules.training import computation, strategies
from modules.training import fine_tuning_trainer as trainer_lib
from modules.training.fine_tuning_task import FineTuningTask
from tests import tiny
from tests.modules.training import devices
from tests.nightly import nightly

pytestmark = pytest.mark.slow

CORES = 8
LENGTHS = [8, 16, 24, 32]


@pytest.fixture
def gpus(monkeypatch):
    """Makes TensorFlow list GPUs."""
    monkeypatch.delenv("TF_CONFIG", raising=False)

    def gpus(count):
        listing = devices.listing("GPU", count)
        monkeypatch.setattr(tf.config, "list_physical_devices", listing)

    return gpus


@pytest.mark.parametrize(
    ("count", "name", "strategy_type", "replicas"),
    [
        (0, "auto", tf.distribute.OneDeviceStrategy, ["CPU:0"]),
        (1, "auto", tf.distribute.OneDeviceStrategy, ["GPU:0"]),
        (2, "auto", tf.distribute.MirroredStrategy, ["GPU:0", "GPU:1"]),
        (4, "auto", tf.distribute.MirroredStrategy, [f"GPU:{i}" for i in range(4)]),
        (8, "auto", tf.distribute.MirroredStrategy, [f"GPU:{i}" for i in range(8)]),
        (8, "one_device", tf.distribute.OneDeviceStrategy, ["GPU:0"]),
        (0, "mirrored", tf.distribute.MirroredStrategy, ["CPU:0"]),
    ],
)
def test_strategy_is_chosen_by_name_or_by_the_gpus(
    gpus, count, name, strategy_type, replicas
):
    gpus(count)
    strategy = strategies.choose_strategy(name, "local")
    assert type(strategy) is strategy_type
    assert strategy.num_replicas_in_sync == len(replicas)
    names = [name.rpartition("device:")[2] for name in strategy.extended.worker_devices]
    assert names == replicas
    assert strategies.is_chief(strategy)


@pytest.fixture
def tpu(monkeypatch):
    """Makes TensorFlow list 8 cores; returns the addresses it is connected to."""

    class TPUStrategy(tf.distribute.MirroredStrategy):
        def __init__(self, resolver, experimental_device_assignment=None):
            super().__init__([f"TPU:{core}" for core in range(CORES)])

    class TPUClusterResolver:
        def __init__(self, tpu):
            addresses.append(tpu)

    addresses = []
    monkeypatch.delenv("TF_CONFIG", raising=False)
    listing = devices.listing("TPU", CORES)
    monkeypatch.setattr(tf.config, "list_physical_devices", listing)
    for module, name in (
        (tf.config, "experimental_connect_to_cluster"),
        (tf.tpu.experimental, "initialize_tpu_system"),
    ):
        monkeypatch.setattr(module, name, lambda resolver: None)
    resolvers = tf.distribute.cluster_resolver
    monkeypatch.setattr(resolvers, "TPUClusterResolver", TPUClusterResolver)
    monkeypatch.setattr(tf.distribute, "TPUStrategy", TPUStrategy)
    return addresses


@pytest.fixture
def address():
    """An address at which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"grpc://127.0.0.1:{server.getsockname()[1]}"


def test_machine_with_a_tpu_trains_on_its_cores(tpu):
    strategy = strategies.choose_strategy("auto", "local")
    assert strategies.is_tpu(strategy)
    assert strategy.num_replicas_in_sync == CORES
    assert tpu == ["local"]


def test_tpu_is_connected_to_by_its_name_or_address(tpu, address):
    for name in ("my-tpu", address):
        strategies.choose_strategy("tpu", name)
    assert tpu == ["my-tpu", address]


@pytest.mark.parametrize("setting", ["batch_size", "evaluation_batch_size"])
def test_batch_that_the_cores_cannot_share_is_refused(tpu, setting):
    message = rf"trainer\.{setting} is 36, over all replicas; TPUStrategy has 8, so use"
    with pytest.raises(ValueError, match=message):
        strategies.check_batches(
            strategies.choose_strategy("auto", "local"), **{setting: 36}
        )


@pytest.mark.parametrize(
    ("setting", "dtype"), [("auto", "bfloat16"), ("float32", "float32")]
)
def test_training_on_a_tpu_has_fixed_lengths_and_bfloat16(
    tpu, tmp_path, setting, dtype
):
    strategy = strategies.choose_strategy("auto", "my-tpu")
    with strategy.scope():
        _, _, params = tiny.build_experiment(tmp_path, batch_size=32, tpu="my-tpu")
    assert (
        computation.choose_precision(setting, strategy, str(tmp_path / "run")).dtype
        == dtype
    )
    data = (params.task.train_data, params.task.validation_data)
    assert [split.lengths for split in data] == [LENGTHS, LENGTHS]
    assert params.runtime.distribution_strategy == "TPUStrategy"
    assert params.runtime.tpu == "my-tpu"
    assert params.runtime.num_gpus == 0


@pytest.mark.parametrize("address", ["local", "grpc://127.0.0.1:9", "my-tpu"])
def test_missing_tpu_is_named(address):
    with pytest.raises(ValueError, match=f"trainer.tpu '{address}' cannot be used"):
        strategies.choose_strategy("tpu", address)


class OneOfTwo(tf.distribute.ReplicaContext):
    """One of two replicas, without the other: XLA on a CPU has no all-reduce."""

    num_replicas_in_sync = 2

    def all_reduce(self, reduce_op, value, options=None):
        """Returns the replica's own share of the sum.

        Raises:
          TypeError: A TPU does not sum the type.
        """
        with tf.Graph().as_default():
            example = tf.zeros([], value.dtype)
            tf.raw_ops.CrossReplicaSum(input=example, group_assignment=[[0, 1]])
        return value


@pytest.fixture
def one_core(monkeypatch):
    """Makes a TPU of one core of the CPU."""
    core = type("TPUStrategy", (tf.distribute.OneDeviceStrategy,), {})
    monkeypatch.setattr(tf.distribute, "TPUStrategy", core)
    # Optimizing machine code takes half of XLA's time. It reads this once.
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")


class Steps:
    """The steps of a tiny training on a TPU of one core.

    Args:
      directory: A directory for its inputs.
      dtype: Compute type.
    """

    def __init__(self, directory, dtype):
        tf_keras.utils.set_random_seed(0)
        self._strategy = tf.distribute.TPUStrategy("CPU:0")
        with self._strategy.scope(), computation.compute_in(dtype):
            definition, _, params = tiny.build_experiment(
                directory, mixed_precision=dtype, dropout=0.1
            )
            task = FineTuningTask(params.task, definition)
            self._trainer = trainer_lib.build_trainer(task, params)
            self._trainer.initialize()

    def compile(self):
        """Returns both steps, each traced once, as in the trainer."""
        data = self._trainer.config.task
        train, evaluation = (
            self._trainer.task.build_inputs(split).element_spec
            for split in (data.train_data, data.validation_data)
        )
        replica = tf.TensorSpec([], tf.int32)
        return (
            _compile(self.train, [train]),
            _compile(self.evaluate, [evaluation, replica]),
        )

    def train(self, batch):
        """Returns the loss."""
        trainer = self._trainer

        def step(batch):
            return trainer.task.train_step(
                batch, trainer.model, trainer.optimizer, trainer.train_metrics
            )["loss"]

        return self._strategy.run(step, args=(batch,))

    def evaluate(self, batch, replica=None):
        """Returns the rows, or the share of them that one of two replicas gathers."""
        trainer = self._trainer
        context = (
            tf.distribute.ReplicaContext(self._strategy, 0)
            if replica is None
            else OneOfTwo(self._strategy, replica)
        )
        with context:
            return trainer.task.validation_step(
                batch, trainer.model, trainer.validation_metrics
            )


def _compile(step, signature):
    return tf.function(
        step, jit_compile=True, autograph=False, input_signature=signature
    )


def batches_padded_to(length):
    """Returns a batch to train on and one to evaluate on, the same 8 rows."""
    random = np.random.default_rng(length)
    row_lengths = [length - 1, *random.integers(length - 7, length, size=7)]
    word_ids, type_ids = (
        tf.RaggedTensor.from_row_lengths(
            random.integers(*bounds, size=sum(row_lengths)), row_lengths
        )
        for bounds in ((5, len(tiny.VOCAB)), (0, 2))
    )
    numbers = tf.range(8, dtype=tf.int64)
    ids = (numbers - 4) * (2**60 - 1)  # beyond 32 bits
    columns = (word_ids, type_ids, numbers % 2, ids)
    return [
        inputs.pad_batch(columns, LENGTHS) for columns in (columns, (*columns, numbers))
    ]


@pytest.mark.parametrize(
    ("dtype", "lengths", "tolerance"),
    # Rows differ by less than one rounding of bfloat16, which XLA does elsewhere.
    [
        ("bfloat16", LENGTHS[:1], 2**-8),
        nightly("bfloat16", LENGTHS, 2**-8),
        nightly("float32", LENGTHS, 1e-5),
    ],
)
@pytest.mark.usefixtures("one_core")
def test_both_steps_compile_with_xla_at_every_fixed_length(
    tmp_path, dtype, lengths, tolerance
):
    """`test_xla.py` compares the training steps."""
    steps = Steps(tmp_path, dtype)
    train, evaluate = steps.compile()
    for length in lengths:
        batch, evaluation_batch = batches_padded_to(length)
        assert batch[0]["input_word_ids"].shape == [8, length]
        shares = [evaluate(evaluation_batch, replica) for replica in range(2)]
        for name, rows in steps.evaluate(evaluation_batch).items():
            gathered = shares[0][name] + shares[1][name]
            expected = np.concatenate([rows, rows])
            np.testing.assert_allclose(gathered, expected, rtol=0, atol=tolerance)
        assert np.isfinite(float(train(batch)))
    for step in (train, evaluate):
        assert step.experimental_get_tracing_count() == 1
