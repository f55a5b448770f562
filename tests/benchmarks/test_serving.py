"""What the serving benchmark reads, refuses and prints."""

import numpy as np
import pytest

from benchmarks import serving
from benchmarks.serving import OURS, RUNTIME_INT8, TRANSFORMERS, TUTORIAL
from contracts.errors import UsageError
from pipeline.config.recipe import load_config
from tests import tiny

PREDICTIONS = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])


def figures(rows, latency):
    return {
        "rows/s at 32": rows,
        "p50 ms at 1": latency,
        "p99 ms at 1": 2 * latency,
    }


def test_rows_are_those_of_the_evaluation_split_in_its_order(tmp_path):
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    texts = serving.read_rows(config, 3)
    expected = tiny.pairs(48, seed=1)[:3]
    assert texts == [list(pair) for _, *pair in expected]


def test_rows_that_the_peers_tokenize_differently_are_left_out(tmp_path):
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    table = tmp_path / "data" / "eval.tsv"
    before = serving.read_rows(config, None)
    lines = table.read_text().splitlines()
    first = before[0][0]
    lines[1] = lines[1].replace(first, first + " ß")
    table.write_text("\n".join(lines) + "\n")
    assert serving.read_rows(config, None) == before[1:]


def test_data_without_tables_is_refused_and_the_option_named(tmp_path):
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    (tmp_path / "data" / "eval.tsv").unlink()
    with pytest.raises(UsageError, match=r"give a directory with eval\.tsv"):
        serving.read_rows(config, None)


def test_peer_with_another_model_is_refused():
    predictions = {OURS: PREDICTIONS, TUTORIAL: PREDICTIONS + 1e-6}
    predictions[TRANSFORMERS] = PREDICTIONS + 1e-3
    with pytest.raises(ValueError, match=r"Transformers' pipeline .* 0\.001 from ours"):
        serving.find_differences(predictions)


def test_int8_predictions_may_differ():
    predictions = {OURS: PREDICTIONS, RUNTIME_INT8: PREDICTIONS + 0.2}
    assert serving.find_differences(predictions)[RUNTIME_INT8] == pytest.approx(0.2)


def test_peer_that_predicts_nan_is_refused():
    with pytest.raises(ValueError, match="differs by nan from ours"):
        serving.find_differences({OURS: PREDICTIONS, TUTORIAL: PREDICTIONS * np.nan})


def test_largest_difference_of_each_peer_is_found():
    differences = serving.find_differences(
        {OURS: PREDICTIONS, TUTORIAL: PREDICTIONS + 1e-6}
    )
    assert differences == {OURS: 0, TUTORIAL: pytest.approx(1e-6)}


def test_ratios_are_of_the_same_round():
    results = {
        OURS: [figures(100, 10), figures(50, 20)],
        TUTORIAL: [figures(50, 20), figures(25, 40)],
    }
    *_, tutorial = serving.speed_table(results).splitlines()
    assert tutorial.count("2.00 (2.00 to 2.00)") == 1
    assert tutorial.count("0.50 (0.50 to 0.50)") == 2
