"""A model that fails a check is not pushed, and only changed checks run again."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline import exit_status
from pipeline.cli.main import main
from pipeline.config import tfx_names
from pipeline.operations.runs import RunList
from prediction.saved_model.saved_model_predictor import SavedModelPredictor
from report.content import Report
from tests.e2e import failing_checks
from tests.e2e.check_results import find
from tests.e2e.failing_checks import OWN, TEXTS
from tests.e2e.finished_run.components import COMPARED

pytestmark = pytest.mark.e2e

CHECKED = {"ModelChecks", "AtomicPusher", "Report"}


@pytest.fixture
def folder(finished):
    """The directory of the recipe, with required rows and an own check."""
    with failing_checks.beside(finished.recipe):
        yield finished.recipe.parent


@pytest.fixture
def kept(finished):
    """Returns a function: the names of the checks that ran since its last call."""
    directory = finished.paths.artifacts / tfx_names.CHECK_RESULTS
    before = set(directory.iterdir())

    def kept():
        new = set(directory.iterdir()) - before
        before.update(new)
        return sorted(json.loads(path.read_text())["result"]["name"] for path in new)

    return kept


def weights(version):
    return Path(version, "variables", "variables.data-00000-of-00001").read_bytes()


def test_model_that_fails_required_rows_is_not_pushed_until_fewer_are_required(
    run_command, finished, second, folder, kept
):
    """The first run's model is compared with the second one's, then pushed again."""
    served = sorted(finished.paths.pushed.iterdir())
    file = f"checks.required_rows.file={folder / 'must_pass.csv'}"
    code, output, _ = run_command("--set", file)
    assert code == exit_status.REFUSED, output
    last = output.splitlines()[-1]
    sentence = "1 of 2 required rows is predicted right, and least is 1"
    assert last.startswith(f"refused: {sentence}; see the missed rows in the report")
    assert "train: it has 2 rows of checks.required_rows.file" in output
    assert sorted(finished.paths.pushed.iterdir()) == served
    assert finished.executed() == {"DataGate", *COMPARED}

    run = RunList(finished.paths).find("latest")
    assert run.state == "refused"
    (row,) = find(Report.read(str(run.directory)).checks, "required_rows").rows
    assert list(row.texts.values()) == TEXTS
    model = SavedModelPredictor(str(finished.run.pushed))
    (predicted,) = model.predict([TEXTS])
    assert row.facts["prediction"] == predicted.value != row.facts["label"]
    probability = row.facts[f"P({predicted.value})"]
    assert probability == pytest.approx(predicted.probability, abs=1e-5)
    assert row.facts["champion"] in ("right", "wrong")
    page = (run.directory / "report.html").read_text()
    for text in (*TEXTS, f"<dt>P({predicted.value})</dt>", f"{probability:.3f}"):
        assert text in page
    options = ["--config", str(finished.recipe)]
    shown = CliRunner().invoke(main, ["show", "latest", *options]).output
    assert f"refused Required rows: {sentence}" in shown

    assert "required_rows" in kept()
    changed = ("checks.required_rows.least=0.5", "checks.latency.max_ratio=1000")
    options = [option for setting in (file, *changed) for option in ("--set", setting)]
    code, output, _ = run_command(*options)
    assert code == 0, output
    assert finished.executed() == {"DataGate", *CHECKED}
    assert kept() == ["latency", "required_rows"]
    (pushed,) = {*finished.paths.pushed.iterdir()} - {*served}
    assert output.splitlines()[-1] == f"pushed {pushed}"
    first, new = finished.run.pushed, second.run.pushed
    assert int(pushed.name) > int(new.name)
    graphs = {(path / "saved_model.pb").read_bytes() for path in (first, pushed)}
    assert len(graphs) == 1
    assert weights(pushed) == weights(first) != weights(new)
    run = RunList(finished.paths).find("latest")
    latency = find(run.checks, "latency")
    assert latency.status == "passed"
    assert min(latency.figures["model (ms)"], latency.figures["champion (ms)"]) > 0


@pytest.mark.nightly
def test_own_check_refuses_a_model_until_a_module_that_it_imports_is_edited(
    run, finished, folder, kept
):
    refused, executed = run(**{f"checks.{OWN}": {}})
    assert executed == CHECKED
    assert refused.pushed is None
    assert refused.reason.endswith(f"least is 1.1 (checks.{OWN}) [E-check-failed]")
    assert find(refused.checks, OWN).status == "refused"
    assert kept() == [OWN]

    (folder / failing_checks.OWN_LIMITS).write_text("LEAST = 0.1\n")
    passed, executed = run(**{f"checks.{OWN}": {}})
    assert executed == CHECKED
    assert passed.pushed == finished.run.pushed
    assert find(passed.checks, OWN).status == "passed"
    assert kept() == [OWN]
