"""A search by Vertex AI Vizier, on a stand-in for the service."""

import math

import pytest
from google.cloud.aiplatform_v1 import Trial as RemoteTrial

from contracts.errors import UsageError
from contracts.settings.tuner import Range
from modules.training import vizier
from modules.training.trials import Trial
from tests.modules.training import vizier_server

SPACE = {
    "learning_rate": Range(1e-5, 1e-3, is_log=True),
    "batch_size": Range(8, 64, is_log=False),
    "epochs": [2, 3, 4],
    "decay_start": ["after_warmup", "first_step"],
}
OWN = {
    "learning_rate": 3e-5,
    "batch_size": 16,
    "epochs": 3,
    "decay_start": "after_warmup",
    "dropout": 0.1,
}


@pytest.fixture
def service(monkeypatch):
    """The stand-in."""
    with vizier_server.running() as (service, connect):
        monkeypatch.setattr(vizier, "connect", connect)
        yield service


def study(space=SPACE, **options):
    return vizier.Study("project", "europe-west4", "key", space, **options)


def ended(suggestion, number=0, state="completed", value=0.5, at=10):
    evaluations = [] if value is None else [(at, value)]
    return Trial(
        number, suggestion.params, "key", True, state, value, evaluations, reason="x"
    )


def remote(service):
    """Returns the trials of the only study."""
    (trials,) = service.trials.values()
    return trials


def test_first_trial_takes_the_settings_that_are_in_the_space(service):
    first = study().propose([], fixed=OWN | {"batch_size": 128})
    assert first.params["learning_rate"] == 3e-5
    assert 8 <= first.params["batch_size"] <= 64
    (spec,) = (each.study_spec for each in service.studies.values())
    rate, size, epochs, decay = spec.parameters
    assert rate.double_value_spec.max_value == 1e-3
    assert rate.scale_type == rate.ScaleType.UNIT_LOG_SCALE
    assert size.scale_type == rate.ScaleType.UNIT_LINEAR_SCALE
    assert list(epochs.discrete_value_spec.values) == [2, 3, 4]
    assert "categorical_value_spec" in decay


def test_settings_have_the_types_of_the_space(service):
    params = study().propose([]).params
    assert {name: type(value) for name, value in params.items()} == {
        "learning_rate": float,
        "batch_size": int,
        "epochs": int,
        "decay_start": str,
    }


def test_pending_trial_is_proposed_again_after_a_restart(service):
    first = study().propose([])
    assert study().propose([]) == first  # killed before it was recorded
    assert study().propose([], fixed=first.params) == first
    assert len(service.studies) == 1
    assert len(remote(service)) == 1


def test_search_whose_record_was_deleted_begins_again(service):
    opened = study({"epochs": [2, 3]})
    first = opened.propose([], fixed={"epochs": 2})
    opened.complete([ended(first)])
    opened = study({"epochs": [2, 3]}, is_new=True)
    assert opened.propose([], fixed={"epochs": 2}).params == first.params
    assert [trial.state.name for trial in remote(service)] == ["ACTIVE"]


def test_pending_trial_with_other_settings_than_the_running_one_is_refused(service):
    pending = study().propose([], fixed=OWN)
    other = {**pending.params, "epochs": 7 - pending.params["epochs"]}
    with pytest.raises(UsageError, match="delete the study"):
        study().propose([], fixed=other)


def test_results_reach_the_service_once(service):
    opened = study()
    done = []
    for state, value in (("completed", 0.7), ("pruned", 0.3), ("failed", None)):
        done.append(ended(opened.propose(done), len(done), state, value))
    opened.complete(done)
    opened.complete(done)
    states = RemoteTrial.State
    assert [trial.state for trial in remote(service)] == [
        *(states.SUCCEEDED, states.SUCCEEDED, states.INFEASIBLE)
    ]
    first, second, _ = remote(service)
    assert first.final_measurement.metrics[0].value == 0.7
    assert second.final_measurement.metrics[0].value == 0.3


def test_recorded_trials_are_added_to_a_study_that_lacks_them(service):
    opened = study()
    done = [ended(opened.propose([], fixed=OWN))]
    done.append(ended(opened.propose(done), 1))
    service.trials = {name: [] for name in service.trials}
    pending = study().propose([])  # of this client, and not of the record
    third = study().propose(done)
    assert third == pending
    assert [trial.state.name for trial in remote(service)] == [
        *("ACTIVE", "SUCCEEDED", "SUCCEEDED")
    ]


def test_trial_below_the_median_is_pruned_from_the_half_of_its_training_on(service):
    opened = study()
    first = opened.propose([])
    assert not opened.is_below_median(first, {10: 0.8, 20: 0.9}, epochs=2)
    second = opened.propose([ended(first, value=0.9, at=20)])
    assert not opened.is_below_median(second, {10: 0.5}, epochs=4)
    # Resumed: the first evaluation is reported again.
    assert opened.is_below_median(second, {10: 0.5, 20: 0.6}, epochs=4)
    assert [m.step_count for m in remote(service)[1].measurements] == [10, 20]


def test_trial_whose_metric_is_nan_is_pruned_from_the_half_of_its_training_on(service):
    opened = study()
    first = opened.propose([])
    assert not opened.is_below_median(first, {20: None}, epochs=2)  # the only one
    second = opened.propose([ended(first, value=0.9, at=20)])
    assert not opened.is_below_median(second, {10: None}, epochs=4)
    assert opened.is_below_median(second, {20: math.nan}, epochs=4)
    assert not remote(service)[1].measurements


def test_no_proposal_is_left_in_a_space_whose_settings_have_been_tried(service):
    opened = study({"epochs": [2, 3]})
    done = []
    while proposed := opened.propose(done):
        done.append(ended(proposed, len(done)))
    assert {trial.values["epochs"] for trial in done} == {2, 3}


def test_missing_credentials_are_reported_with_the_settings(monkeypatch, tmp_path):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    message = r"vizier.*project project, region europe-west4.*none\.json.*optuna"
    with pytest.raises(UsageError, match=message):
        study()
