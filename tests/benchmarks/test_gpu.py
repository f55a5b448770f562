"""The benchmark of a GPU, on a machine without one."""

import pytest
from click.testing import CliRunner

from benchmarks import gpu


@pytest.mark.parametrize(
    ("line", "expected", "precision"),
    [
        (
            "NVIDIA A100-SXM4-40GB, 550.54.15, 8.0",
            gpu.Gpu("NVIDIA A100-SXM4-40GB", "550.54.15", (8, 0)),
            "bfloat16",
        ),
        ("Tesla T4, 535.1, 7.5", gpu.Gpu("Tesla T4", "535.1", (7, 5)), "float32"),
    ],
)
def test_driver_describes_the_gpu(line, expected, precision):
    assert gpu.Gpu.parse(line) == expected
    assert expected.precision == precision


def test_missing_gpu_is_reported_with_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(gpu.main, [])
    assert result.exit_code == 2
    assert "`nvidia-smi` finds no GPU" in result.output
    assert "install NVIDIA's driver" in result.output
