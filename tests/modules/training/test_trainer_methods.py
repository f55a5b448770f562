"""Every public method of the Model Garden's trainer, under three strategies."""

import pytest

from tests import tiny
from tests.modules.training import trainer_methods
from tests.modules.training.train_process import (
    TrainProcess,
    parameter_server_tasks,
    results_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

ROWS = 44  # in batches of 8, the last one of 4
STRATEGIES = {"one_device": 1, "mirrored": 2, "parameter_server": 1}


@pytest.fixture(
    scope="module",
    params=["one_device", "mirrored", "parameter_server"],
)
def strategy(request):
    return request.param


@pytest.fixture(scope="module")
def calls(strategy, tmp_path_factory):
    """What the calls returned in a process, or in a cluster of four."""
    directory = tmp_path_factory.mktemp(strategy)
    tiny.write_encoder(directory / "encoder")
    for seed, split in enumerate(("train", "eval")):
        tiny.write_transformed(directory / f"{split}.gz", ROWS, seed)
    tasks = [None]
    if strategy == "parameter_server":
        tasks = parameter_server_tasks(workers=2)
    settings = {
        "directory": str(directory),
        "strategy": strategy,
        "devices": STRATEGIES[strategy],
    }
    processes = [
        TrainProcess(
            settings, directory / f"{index}.txt", task, trainer_methods.call_all
        )
        for index, task in enumerate(tasks)
    ]
    try:
        return results_of(processes[-1].wait())
    finally:
        for process in processes:
            process.kill()


def assert_evaluated(result):
    """Compares an evaluation with that of a second model on one device."""
    for name, value in result["expected"].items():
        assert result["evaluated"][name] == pytest.approx(value, rel=1e-4)


def test_train_begins_each_loop_before_it_has_an_iterator_and_counts_anew(calls):
    steps = trainer_methods.STEPS
    assert calls["train"]["begins"] == [[0, False], [steps, True]]
    # One batch of an epoch has 4 rows.
    assert set(calls["train"]["examples"]) <= {steps * 8, steps * 8 - 4}
    losses = calls["train"]["losses"]
    assert losses[1] < losses[0]
    assert calls["train"]["train_loss"] == 0  # for the next loop


def test_validation_loss_and_metrics_are_those_of_the_evaluation(calls):
    result = calls["train"]
    assert_evaluated(result)
    expected = result["expected"]
    assert result["validation_loss"] == pytest.approx(
        expected["validation_loss"], rel=1e-4
    )
    assert result["validation_metrics"] == pytest.approx(
        {"accuracy": expected["accuracy"]}
    )


def test_while_loop_evaluates_some_steps_and_refuses_all(calls):
    assert_evaluated(calls["only_evaluate"])
    error = calls["only_evaluate"]["evaluate_all"]
    assert error.startswith("ValueError: Looping until exhausted is not supported")


def test_evaluation_loop_with_a_state(calls, strategy):
    if strategy == "parameter_server":
        error = calls["state"]["error"]
        assert error.startswith("ValueError: Stateful eval loop is not supported")
        return
    assert calls["state"] == {"rows": [8, 8, 8], "sum": 24}


def test_trainer_without_evaluation_needs_no_evaluation_data(calls):
    assert calls["only_train"]["examples"] >= 8 * trainer_methods.STEPS - 4
    assert "AttributeError" in calls["only_train"]["error"]


def test_trainer_without_training_needs_no_training_data(calls):
    assert_evaluated(calls["only_evaluate"])
    assert "AttributeError" in calls["only_evaluate"]["train"]


def test_datasets_of_the_caller_are_used(calls):
    result = calls["own_datasets"]
    assert_evaluated(result)
    assert result["evaluated"] != calls["only_evaluate"]["evaluated"]
    assert result["examples"] == 4 * trainer_methods.STEPS


def test_exporter_keeps_the_checkpoint_of_the_best_evaluation(calls):
    result = calls["own_datasets"]
    assert result["is_kept"]
    before, after = result["losses"]
    assert result["best"] == [before, min(before, after)]
    assert "info.json" in result["files"]
    assert any(name.endswith(".index") for name in result["files"])


def test_function_with_an_input_context_argument_receives_it(calls, strategy):
    result = calls["input_context"]
    replicas = STRATEGIES[strategy]
    assert {tuple(context) for context in result["contexts"]} == {(1, replicas)}
    count = 2 * replicas
    assert result["rows"] == [list(range(n, n + count)) for n in (5, 6, 7)]


def test_datasets_are_distributed_with_input_options(calls, strategy):
    from_function, *from_dataset = calls["input_options"]["rows"]
    assert from_function == list(range(5, 5 + 2 * STRATEGIES[strategy]))
    shared = [] if strategy == "parameter_server" else [[5, 6]]
    assert from_dataset == shared
