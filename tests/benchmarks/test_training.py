"""The benchmarks of training in their smallest form: a step of a tiny encoder."""

import pytest

from benchmarks import gpu, training
from contracts import cpu
from tests import tiny
from tests.benchmarks import peers_in_process

pytestmark = pytest.mark.slow

PRECISION = "float32"


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Measures one round of one step."""
    peers_in_process.install(monkeypatch)
    recipe = tiny.write_config(tmp_path / "recipe.yaml")

    def measure(peers):
        return training.measure(recipe, str(tmp_path / "data"), 1, 1, peers)

    return measure


@pytest.mark.nightly
def test_our_training_is_compared_with_the_tutorials(measure):
    def peers(settings):
        trainings = training.peers(None, settings)
        return [peer for peer in trainings if peer.name != training.OURS_BFLOAT16]

    results = measure(peers)
    ours, orbit, keras = training.throughput(results, [training.OURS]).splitlines()[2:]
    assert ours.endswith("| 1.00 (1.00 to 1.00) |")
    assert orbit.startswith("| tutorial: Orbit, padded to 32 |")
    assert keras.startswith("| Keras `fit`, padded to 32 |")
    assert len(training.machine_share(results, training.OURS).splitlines()) == 2 + 4


@pytest.mark.nightly
def test_training_of_a_gpu_is_measured_with_xla(measure):
    def peers(settings):
        trainings = gpu.peers(None, "cpu", PRECISION, settings)
        return [peer for peer in trainings if peer.name == gpu.OURS_XLA]

    table = training.throughput(measure(peers), [gpu.OURS_XLA])
    assert table.splitlines()[2].endswith("| 1.00 (1.00 to 1.00) |")


@pytest.mark.parametrize("has_bfloat16", [False, True])
def test_bfloat16_is_measured_only_where_the_cpu_has_it(monkeypatch, has_bfloat16):
    flag = "avx512_bf16" if has_bfloat16 else None
    monkeypatch.setattr(cpu, "find_bfloat16", lambda: flag)
    peers = training.peers("python", {"length": 32, "batch_size": 16})
    assert any("bfloat16" in peer.name for peer in peers) == has_bfloat16
    assert len(peers) == (8 if has_bfloat16 else 6)


def test_transformers_trains_with_the_same_settings():
    settings = {"length": 32, "batch_size": 16}
    for peers in (
        training.peers("python", settings),
        gpu.peers("python", "gpu", PRECISION, settings),
    ):
        others = [peer for peer in peers if peer.python == "python"]
        assert {peer.script for peer in others} == {"transformers_training.py"}
        assert all(settings.items() <= peer.settings.items() for peer in others)
