"""What `pipeline_cost` prints of runs, and which checkouts it refuses."""

from click.testing import CliRunner

from benchmarks import pipeline_cost


def figures(trainer, rest):
    return {
        "Trainer": trainer,
        pipeline_cost.REST: rest,
        pipeline_cost.TOTAL: trainer + rest,
    }


def test_checkouts_are_compared_round_by_round():
    table = pipeline_cost.to_markdown(
        {
            "before": [figures(8, 2), figures(16, 4)],
            "after": [figures(4, 1), figures(10, 5)],
        }
    )
    head, _, trainer, _, total, ratio = table.splitlines()
    assert head == "| seconds | before | after |"
    assert trainer == "| Trainer | 12.0 (8.0 to 16.0) | 7.0 (4.0 to 10.0) |"
    assert total == "| all | 15.0 (10.0 to 20.0) | 10.0 (5.0 to 15.0) |"
    assert ratio == "| of the first |  | 0.625 (0.500 to 0.750) |"


def test_directory_that_is_not_a_checkout_is_named(tmp_path):
    arguments = ["--tree", f"here={tmp_path}"]
    result = CliRunner().invoke(pipeline_cost.main, arguments)
    assert result.exit_code == 2
    assert "is not NAME=DIRECTORY of a checkout" in " ".join(result.output.split())
