"""The command line, as a user runs it."""

import json
import re
import shutil

import pytest
from click.testing import CliRunner

from contracts.fingerprint import FIRST_PARTY
from pipeline.cli.main import main
from pipeline.config.paths import REPOSITORY
from prediction.saved_model.saved_model_predictor import SavedModelPredictor
from tests import records
from tests.e2e import warm_command
from tests.e2e.commands import run as command_line
from tests.e2e.finished_run.components import EVERYTHING, MODEL

pytestmark = pytest.mark.e2e

SECONDS = 300
SHARED_ROWS = "warning: eval: 30 of 48 rows (62.5%) have texts that are in train too"


def table_rows(finished):
    """Returns the cells of the tables that a command printed, row by row."""
    lines = [line for line in finished.stdout.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]


def shown_components(output):
    """Returns the last word of the line of each component that ended."""
    lines = [line.split() for line in output.splitlines() if line.startswith("✓ ")]
    return {component: words[-1] for _, component, *words in lines}


def edit(files, pattern, replacement):
    """Replaces a pattern in files, in at least one of them."""
    count = 0
    for path in files:
        text, replaced = re.subn(pattern, replacement, path.read_text())
        path.write_text(text)
        count += replaced
    assert count, f"{pattern} is in none of the files"


def reword(code):
    """Edits messages of orchestrators and Beam, and a comment of the training."""
    for package in ("orchestrators", "beam"):
        files = (code / "pipeline" / package).rglob("*.py")
        edit(files, r'(UsageError\(\s*f?")', r"\1Reworded: ")
    edit([code / "modules" / "training" / "run_fn.py"], r"\Z", "# A comment.\n")


def test_edits_rerun_the_training_and_nothing_before(finished, tmp_path):
    code = tmp_path / "code"
    for package in (*FIRST_PARTY, "configs"):
        shutil.copytree(REPOSITORY / package, code / package)
    reword(code)
    # An edit of the training, which ends the run there.
    edit(
        [code / "modules" / "training" / "experiment.py"],
        r"\Z",
        "\n\ndef build_experiment(*_, **__):\n"
        '    raise RuntimeError("the edited training started")\n',
    )
    log = tmp_path / "log"
    stopped = warm_command.start(["run", "--config", finished.recipe], log, code)
    stopped.join(SECONDS)
    shown = log.read_text()
    assert stopped.exitcode == 1, shown
    assert "the edited training started" in shown
    before = set(EVERYTHING) - set(MODEL)
    assert shown_components(shown) == dict.fromkeys(before, "cached")


def test_pushed_model_predicts_a_pair(finished):
    pushed = str(finished.run.pushed)
    pair = ("--pair", "A cat.", "The cat!")
    shown = CliRunner().invoke(main, ["predict", "--model", pushed, *pair])
    assert shown.exit_code == 0, shown.output
    (expected,) = SavedModelPredictor(pushed).predict([("A cat.", "The cat!")])
    assert table_rows(shown) == [
        ["A cat.", "The cat!", str(expected.value), f"{expected.probability:.3f}"]
    ]


@pytest.mark.nightly
def test_predict_in_a_new_process_shows_only_its_table(finished):
    pair = ("--pair", "A cat.", "The cat!")
    shown = command_line("predict", "--model", finished.run.pushed, *pair)
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == ""


def test_served_model_predicts_a_file(finished, tmp_path):
    table = finished.recipe.parent / "data" / "eval.tsv"
    output = tmp_path / "predictions.jsonl"
    served = finished.paths.pushed
    arguments = ("predict", "--model", served, "--input", table, "--output", output)
    written = CliRunner().invoke(main, [*map(str, arguments)])
    assert written.exit_code == 0, written.output
    assert len(output.read_text().splitlines()) == 48


def test_cached_run_shows_the_warnings_about_the_data_and_the_pushed_model(
    run_command, finished
):
    code, output, _ = run_command()
    assert code == 0, output
    assert shown_components(output) == dict.fromkeys(EVERYTHING, "cached")
    assert output.count(SHARED_ROWS) == 1
    assert "compared with a linear model on words (48 rows of train)" in output
    assert output.splitlines()[-1] == f"pushed {finished.run.pushed}"


def test_progress_is_in_words_and_has_no_objects_of_python(finished):
    assert "trainer.xla auto: off" in finished.printed
    choice = r"trainer\.mixed_precision auto: b?float(16|32) \(the CPU has "
    assert re.search(choice, finished.printed)
    assert not re.search(r"\w\(\w+=|[{(]'|None\b|/\.\./", finished.printed)


def test_warnings_about_the_data_are_shown_when_they_are_found(finished):
    assert finished.printed.count(SHARED_ROWS) == 1


@pytest.mark.nightly
def test_warnings_about_the_data_are_shown_when_they_are_found_and_at_the_end(
    run_command,
):
    code, output, _ = run_command("--set", "data_gate.warn_duplicates=0.9")
    assert code == 0, output
    assert output.count(SHARED_ROWS) == 2
    assert "repeat the texts" not in output


BAD_ROWS = {
    "eval": ["904\t-3\tThe cat.\tA cat."],
    "train": [
        "901\t7\tThe cat.\tA cat.",
        "902\t1\t \tA cat.",
        "903\t1\t\tA cat.",
    ],
}


def test_bad_rows_exit_2_with_their_lines_and_reach_no_component(run_command, finished):
    for split, rows in BAD_ROWS.items():
        with open(finished.recipe.parent / "data" / f"{split}.tsv", "a") as file:
            file.write("\n".join(rows) + "\n")
    code, _, errors = run_command()
    assert code == 2
    for message in (
        "4 rows cannot be used",
        "train.tsv:50: label is '7'; allowed are 0 to 1",
        "train.tsv:51: sentence1 is ",
        "train.tsv:52: sentence1 is ",
        "eval.tsv:50: label is '-3'; allowed are 0 to 1",
    ):
        assert message in errors
    record = max((finished.recipe.parent / "output" / "runs").iterdir())
    card = json.loads((record / "data_card.json").read_text())
    assert card["on_bad_rows"] == "refuse"
    assert [card["splits"][split]["bad"] for split in ("train", "eval")] == [3, 1]


@pytest.mark.nightly
def test_bad_records_exit_2_with_their_numbers_and_are_not_transformed(
    run_command, finished
):
    data = finished.recipe.parent / "records"
    for split in ("train", "eval", "test"):
        rows = [
            records.example(
                idx=[n], label=[n % 2], sentence1=[f"a {n}".encode()], sentence2=[b"b"]
            )
            for n in range(20)
        ]
        if split == "train":
            rows[3].features.feature["label"].int64_list.value[0] = 7
            rows[5].features.feature["sentence1"].bytes_list.value[0] = b" "
        records.write(data / f"{split}.tfrecord", rows)
    code, _, errors = run_command("--data", data)
    assert code == 2
    assert "train: label: Out-of-range values" in errors
    assert f"(rows idx 3 at {data}/train.tfrecord:4" in errors
    assert "train: sentence1: Empty text: in 1 example (rows idx 5 at " in errors
    assert "train.tfrecord:6" in errors
    assert "Transform" not in finished.latest_run()
