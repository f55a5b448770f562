"""The commands on runs and served versions: rollback, override and clean."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from pipeline.operations import releases
from pipeline.operations.runs import RunList
from serving import discovery
from tests.e2e.finished_run.components import EVERYTHING

pytestmark = pytest.mark.e2e


@pytest.fixture
def command(finished):
    """Runs a command on the output directory; returns what it printed."""

    def command(name, *arguments, exit_code=0):
        options = ["--config", str(finished.recipe)]
        result = CliRunner().invoke(main, [name, *map(str, arguments), *options])
        assert result.exit_code == exit_code, result.output
        return result.output

    return command


def served(finished):
    """Returns the version that a server of this project loads."""
    source = discovery.find_model(finished.paths.pushed)
    return max(source.scan())


def version(run):
    return int(run.pushed.name)


def test_rolled_back_model_is_not_pushed_again_and_clean_keeps_what_is_needed(
    run, start_training, finished, second, command
):
    first, newest = version(finished.run), version(second.run)
    assert served(finished) == newest

    printed = command("rollback", "--reason", "slow on long texts")
    assert f"version {first} is served; withdrawn: {newest}" in printed
    assert served(finished) == first
    again, executed = run(**second.settings)
    assert executed == {"AtomicPusher", "Report"}
    assert again.pushed is None
    assert again.refusal.startswith(f"the model is version {newest}, which was rolled")
    assert served(finished) == first
    listed = command("versions")
    assert "withdrawn" in listed
    assert "slow on long texts" in " ".join(listed.split())
    states = [run.state for run in RunList(finished.paths)]
    assert states == ["refused", "pushed", "pushed"]

    command("rollback", newest)
    assert served(finished) == newest
    before = {path for path in finished.paths.root.rglob("*") if path.is_dir()}
    command("clean", "--keep", "1")
    after = {path for path in finished.paths.root.rglob("*") if path.is_dir()}
    assert after == before
    assert "freed" in command("clean", "--keep", "1", "--yes")
    assert "nothing to delete" in command("clean", "--keep", "1", "--yes")

    kept, executed = run(**second.settings)
    assert executed == set()
    assert version(kept) == newest
    # Another training has the data of the run that is kept.
    executed = start_training(**second.settings, trainer__learning_rate=0.002)
    assert executed == {"Hyperparameters", "Trainer"}


def test_refused_model_is_not_pushed_until_an_override_records_who_and_why(
    run, run_command, finished, command
):
    threshold = "evaluator.thresholds={accuracy: 0.999}"
    code, output, _ = run_command("--set", threshold)
    assert code == 3, output
    last = output.splitlines()[-1]
    assert last.startswith("refused: accuracy is 0.")
    assert last.endswith("the threshold is 0.9990 [E-below-threshold]")
    assert [*finished.paths.pushed.iterdir()] == [finished.run.pushed]
    # Another threshold judges data and model again.
    judged = {"DataGate", "Evaluator", "ModelChecks", "AtomicPusher", "Report"}
    assert finished.executed() == judged

    # An earlier threshold let the same model pass.
    error = command("override", "latest", "--reason", "x", exit_code=2)
    assert "which is served already" in error
    shutil.rmtree(finished.run.pushed)
    error = command("override", "latest", "--reason", " ", exit_code=2)
    assert "--reason: empty" in error
    printed = command("override", "latest", "--reason", "the test rows are wrong")
    pushed = served(finished)
    assert f"pushed {finished.paths.pushed / str(pushed)}" in printed

    verdict = Path(finished.output("Evaluator", "verdict").uri, "verdict.json")
    override = json.loads(verdict.read_text())["override"]
    assert override["reason"] == "the test rows are wrong"
    assert override["version"] == pushed
    card = finished.paths.pushed / str(pushed) / "README.md"
    assert "the test rows are wrong" in card.read_text()
    release = releases.override_of(releases.read_journal(finished.paths.pushed), pushed)
    assert (release.by, release.run) == (
        override["by"],
        RunList(finished.paths)[0].id,
    )
    latest, *_ = json.loads(command("runs", "--json"))
    assert (latest["state"], Path(latest["pushed"]).name) == ("refused", str(pushed))
    assert "overridden: pushed" in command("show", "latest")
    again, executed = run(evaluator__thresholds={"accuracy": 0.999})
    assert executed == set()
    assert again.pushed is None
    assert again.verdict.override.version == pushed
    lineage = command("lineage", pushed)
    facts = ("the test rows are wrong", "data sha256")
    for text in (*facts, "Override", "Trainer", "Evaluator", "ModelChecks"):
        assert text in lineage
    assert "already" in command("override", "latest", "--reason", "x", exit_code=2)


def test_show_describes_a_run_in_80_columns(finished, command):
    shown = command("show", "latest")
    for text in (
        *EVERYTHING,
        "accuracy",
        "compared with a linear model on words (48 rows of train), accuracy is ",
        "serving check: passed on 16 rows",
        "run.log",
    ):
        assert text in shown
    described = json.loads(command("show", "latest", "--json"))
    assert described["state"] == "pushed"
    assert described["verdict"]["blessed"]
    assert len(described["components"]) == len(EVERYTHING)
