"""The served model is always the last one that passed every check."""

import json
import shutil
from pathlib import Path

import pytest

from contracts.errors import UsageError
from contracts.versions import exported_model, served_versions
from tests.e2e import released as released_lib
from tests.e2e.finished_run.components import COMPARED

pytestmark = pytest.mark.e2e


def values(run, kind):
    """Returns the values of a verdict's metrics by name."""
    return {m.metric: getattr(m, kind) for m in run.verdict.metrics}


def version(model):
    return int(model.name)


def test_every_metric_goes_through_a_release(second):
    released_lib.check(released_lib.Released(second.run))


@pytest.mark.nightly
def test_deleted_model_is_pushed_again_without_training(run, finished):
    shutil.rmtree(finished.run.pushed)
    again, executed = run()
    assert executed == {"AtomicPusher", "Report"}
    assert (again.pushed / "saved_model.pb").is_file()


def test_new_model_is_compared_with_the_served_one(run, finished, second):
    first, new = finished.run, second.run
    assert version(new.pushed) > version(first.pushed)
    assert first.pushed.is_dir()  # a server may still load it
    assert new.verdict.champion == str(first.pushed)
    # Chunks run in parallel, and the order of a sum changes its last bits.
    expected = pytest.approx(values(first, "value"), rel=1e-6, nan_ok=True)
    assert values(new, "champion") == expected

    again, executed = run(**second.settings)
    assert executed == set()
    assert again.verdict.champion == str(first.pushed)


@pytest.fixture
def champion_of_another_task(finished, tmp_path):
    """The served version, whose task has other classes."""
    pushed = finished.run.pushed
    other = tmp_path / "other"
    shutil.copytree(pushed, other)
    (other / served_versions.MANIFEST_FILE).unlink()
    (other / "fingerprint.pb").write_bytes(b"of another model")
    described = json.loads((other / exported_model.DESCRIPTION_FILE).read_text())
    described["classes"] = ["yes", "no"]
    (other / exported_model.DESCRIPTION_FILE).write_text(json.dumps(described))
    champion = pushed.with_name(str(version(pushed) + 1))
    served_versions.push(str(other), str(pushed.parent), champion.name)
    return champion


@pytest.mark.usefixtures("champion_of_another_task")
def test_champion_of_another_task_is_refused_before_training(run, finished):
    with pytest.raises(
        UsageError, match=r"classes .* instead of .*incompatible_champion"
    ):
        run(evaluator__incompatible_champion="refuse")
    reached = set(finished.latest_run())
    assert "ChampionCheck" in reached
    assert not reached & {"Transform", "Trainer"}


@pytest.mark.nightly
def test_champion_of_another_task_is_not_compared(run, champion_of_another_task):
    latest, executed = run()
    assert executed == set(COMPARED)
    assert latest.verdict.champion is None
    expected = f"not compared with the champion {champion_of_another_task}"
    assert expected in latest.verdict.summary
    assert version(latest.pushed) > version(champion_of_another_task)


def test_model_whose_predictions_differ_from_the_evaluated_ones_is_not_pushed(
    run, finished
):
    predictions = Path(finished.output("Trainer", "model_run").uri, "predictions")
    table = predictions / "eval.tsv"
    header, *rows = (line.split("\t") for line in table.read_text().splitlines())
    assert header[-2:] == ["probability_not_equivalent", "probability_equivalent"]
    swapped = [header, *([*row[:-2], row[-1], row[-2]] for row in rows)]
    table.write_text("\n".join("\t".join(row) for row in swapped) + "\n")

    latest, executed = run(serving__rows=8)
    assert executed == {"ServingCheck", "ModelChecks", "AtomicPusher", "Report"}
    assert latest.verdict.blessed
    assert any("differs" in reason for reason in latest.serving_check.reasons)
    assert latest.pushed is None
