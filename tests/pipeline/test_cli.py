"""The command line: what it refuses, and with which status."""

import pytest
from click.testing import CliRunner

from pipeline.cli import main
from tests import tiny


@pytest.fixture
def invoke():
    def invoke(*arguments):
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return invoke


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--set", "trainer.epochs"], "write key=value"),
        (["run", "--set", "trainer.epochs=0"], "trainer.epochs"),
        (["run", "--config", "absent.yaml"], "absent.yaml cannot be read"),
        (["run", "--no-such-option"], "No such option"),
        (["predict", "--model", "absent"], "--pair A B, or a file with --input"),
        (["predict", "--model", "absent", "--pair", "a", "b"], "holds no SavedModel"),
        (
            ["predict", "--model", "absent", "--input", "a.tsv"],
            "--input needs --output",
        ),
        (["prepare-data", "absent", "records"], "absent is not a directory"),
    ],
)
def test_bad_usage_exits_2_and_says_what_to_do(invoke, arguments, message):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")


def test_prepare_data_writes_records_and_counts_them(invoke, tmp_path):
    source = tiny.write_tables(tmp_path / "text", rows=5)
    result = invoke("prepare-data", source, tmp_path / "records")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{split}: 5 examples" for split in ("train", "eval", "test")
    ]
