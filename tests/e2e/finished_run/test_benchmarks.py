"""Benchmarks of a finished run in their smallest form."""

import sys

import pytest

from benchmarks import (
    first_step,
    pipeline_cost,
    rounds,
    runtime,
    seeds,
    serving,
    serving_load,
    version_change,
)
from benchmarks.peers import first_step as first_step_peer
from pipeline.config.paths import REPOSITORY
from tests.benchmarks import peers_in_process

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]


def test_parts_of_run_fn_are_measured(finished):
    ours, converted = first_step.peers(finished.paths.root, finished.recipe)
    assert ours.settings["autograph_is_kept_out"]
    assert not converted.settings["autograph_is_kept_out"]
    # Not in the new process that `first_step_peer.prepare` starts for each round.
    figures = first_step_peer.measure(ours.settings)
    assert all(seconds > 0 for seconds in figures.values())
    parts = ("first_step", "evaluation", "export", "predictions")
    assert sum(figures[part] for part in parts) < figures["run_fn"]
    assert len(first_step.table({ours.name: [figures]}).splitlines()) == 2 + 6


def test_components_of_a_cached_run_are_measured(finished):
    output, recipe = finished.paths.root, finished.recipe
    figures = pipeline_cost.run(REPOSITORY, output, recipe, ())
    assert {"Transform", "Trainer", "Report"} < figures.keys()
    parts = sum(figures.values()) - figures[pipeline_cost.TOTAL]
    assert parts == pytest.approx(figures[pipeline_cost.TOTAL])
    assert figures["Trainer"] < figures[pipeline_cost.REST]


def test_figures_of_a_seed_are_those_of_its_record(finished):
    model_run = first_step.newest_artifact(finished.paths.root, "Trainer", "model_run")
    figures = seeds.measure(finished.config.task, model_run)
    split = finished.config.evaluator.split
    before, after = figures[split, "loss"]
    assert before is not None
    assert before != after
    gate = finished.run.metrics["accuracy"]
    assert figures[split, "accuracy"] == (None, pytest.approx(gate))
    (abstention,) = (p for p in finished.run.report.abstention if p.split == split)
    point = abstention.points[0]
    assert point.min_probability == 0.6
    assert figures[split, "share of rows from 0.6"] == (
        None,
        1 - point.abstained / abstention.rows,
    )
    assert figures[split, "their accuracy from 0.6"][1] == pytest.approx(
        point.accuracy, nan_ok=True
    )
    head, _, *lines = seeds.table([figures, figures]).splitlines()
    assert len(lines) == len(figures)
    assert head == "| split | figure | without | with | higher |"


def test_peers_serve_the_same_weights(finished, monkeypatch):
    peers_in_process.install(monkeypatch)
    run_rounds = rounds.run_rounds

    def run_without_server(peers, count):  # the next test starts one
        return run_rounds(
            [peer for peer in peers if peer.name != serving.SERVER], count
        )

    monkeypatch.setattr(rounds, "run_rounds", run_without_server)
    config = finished.config
    texts = serving.read_rows(config, None)
    results, differences = serving.measure(
        config, finished.paths.pushed, texts, 1, 0.2, None
    )
    same = [serving.OURS, serving.TUTORIAL, serving.RUNTIME]
    assert list(results) == [*same, serving.RUNTIME_INT8]
    assert all(differences[name] < 1e-5 for name in same)
    assert len(serving.speed_table(results).splitlines()) == 2 + 4


def test_server_is_compared_with_the_bare_model(finished, monkeypatch):
    peers_in_process.install(monkeypatch)
    (name, *_) = serving_load.SERVERS
    monkeypatch.setattr(serving_load, "SERVERS", {name: []})
    monkeypatch.setattr(serving_load, "SIZES", [1, 16])  # of 48 rows
    data = finished.config.data_source
    results = serving_load.measure(finished.paths.pushed, data, [1, 2], 0.2, 1)
    assert all(rounds.spread(results[name], f"rows/s at {n}").low > 0 for n in (1, 2))
    assert len(serving_load.table(results, [1, 2]).splitlines()) == 2 + 2 + 2


def test_runtime_is_compared_with_onnx_runtime_and_tensorflow(finished, monkeypatch):
    peers_in_process.install(monkeypatch)
    config = finished.config
    texts = serving.read_rows(config, None)
    results, metrics = runtime.measure(
        config, finished.paths.pushed, texts, 1, 0.2, sys.executable
    )
    assert runtime.row_table(results).count("\n") == 1 + 5
    assert runtime.batch_table(results).count("\n") == 1 + 4
    assert runtime.weights_table(results, metrics).count("\n") == 1 + 2
    assert runtime.start_table(results).count("\n") == 1 + 4


def test_requests_are_measured_while_the_version_changes(finished):
    columns = serving_load.find_columns(finished.paths.pushed)
    rows = serving_load.read_rows(finished.config.data_source, columns)
    results = version_change.measure(finished.paths.pushed, rows, columns, 0.5, 1)
    assert rounds.spread(results[version_change.CHANGE], "rows/s").low > 0
    assert len(version_change.table(results).splitlines()) == 2 + 2
