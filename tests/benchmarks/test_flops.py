"""Operations are counted by the formula, without padding."""

import numpy as np
import pytest

from benchmarks import flops
from modules.training.fine_tuning_task import FineTuningTask
from tests import tiny

pytestmark = pytest.mark.nightly


def test_flops_are_six_per_parameter_and_token_plus_attention(tmp_path):
    task, _, params = tiny.build_experiment(tmp_path)
    model = FineTuningTask(params.task, task).build_model()
    hidden, inner = tiny.HIDDEN, tiny.CONFIG["intermediate_size"]
    # Four projections, two of the feed-forward network, two normalizations.
    layer = 4 * (hidden * hidden + hidden) + 2 * 2 * hidden
    layer += hidden * inner + inner + inner * hidden + hidden
    expected = 6 * tiny.LAYERS * layer * (5 + 3)
    expected += 12 * tiny.LAYERS * hidden * (5**2 + 3**2)
    assert flops.training_flops(model, np.array([5, 3])) == pytest.approx(expected)


def test_rate_of_this_machine_is_plausible():
    for dtype in ("float32", "bfloat16"):
        assert flops.matrix_multiply_rate(dtype, flops.CPU_SIZE) > 1e9
