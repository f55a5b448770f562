"""What the comparison of two stacks tells."""

import sys

import pytest
from click.testing import CliRunner

from benchmarks import stacks


def test_figures_of_both_and_the_second_by_the_first_round_by_round():
    results = {
        "1.16": [{"rows": 100.0}, {"rows": 50.0}, {"rows": 20.0}],
        "1.21": [{"rows": 110.0}, {"rows": 55.0}, {"rows": 22.0}],
    }
    head, _, line = stacks.compare(results, {"rows": "rows/s"}).splitlines()
    assert head == "| what | TFX 1.16 | TFX 1.21 | second ÷ first |"
    assert line == (
        "| rows/s | 50.0 (20.0 to 100.0) | 55.0 (22.0 to 110.0) | 1.10 (1.10 to 1.10) |"
    )


def test_answers_are_compared_row_by_row():
    assert stacks.largest_difference(
        [[[0.25, 0.75], [0.5, 0.5]], [[0.25, 0.75], [0.375, 0.625]]]
    ) == pytest.approx(0.125)


def test_the_same_stack_twice_is_refused(tmp_path):
    arguments = [str(tmp_path), "--config", "configs/sample.yaml"]
    result = CliRunner().invoke(stacks.main, [*arguments, "--other", sys.executable])
    assert result.exit_code == 2
    assert "as this Python has; give the Python of another stack" in " ".join(
        result.output.replace("│", " ").split()
    )
