"""Projected times grow with rows, encoder and machines as their formulas do."""

import dataclasses

import pytest
from click.testing import CliRunner

from benchmarks import projection
from benchmarks.projection import ENCODERS, Cost, Machines

COST = Cost(start=10.0, row=0.001)


def test_parameters_are_those_of_the_published_sizes():
    sizes = {name: encoder.parameters for name, encoder in ENCODERS.items()}
    assert sizes["minilm"] == 10_646_784
    assert sizes["bert-base"] == 85_054_464  # BERT's 110 million less the embeddings


def test_time_of_one_worker_is_its_start_plus_its_rows():
    part = projection.simulate_workers("Transform", 100_000, COST, Machines())
    assert part.seconds == pytest.approx(110)
    part = projection.simulate_workers("Transform", 100, COST, Machines())
    assert part.bottleneck == "start"


def test_workers_share_files_and_more_workers_than_files_gain_nothing():
    def seconds(workers, files):
        machines = Machines(workers=workers, files=files)
        return projection.simulate_workers("Transform", 10_000_000, COST, machines)

    assert seconds(8, 256).seconds == pytest.approx(10_000 / 8, rel=0.05)
    assert seconds(8, 4).seconds == pytest.approx(seconds(4, 4).seconds)
    assert seconds(8, 4).bottleneck == "files"
    # Nine files for eight workers: one of them takes two.
    assert seconds(8, 9).seconds > 1.5 * seconds(8, 256).seconds


def test_step_is_bound_by_products_then_by_links_then_by_input():
    def step(**machines):
        return projection.training_step(
            ENCODERS["minilm"], 53, batch=2048, machines=Machines(**machines)
        )

    one, two = step(gflops=1000), step(gflops=1000, devices=2)
    assert one[1] == two[1] == "matrix products"
    assert one[0] / two[0] == pytest.approx(2, rel=0.01)
    assert step(gflops=1000, devices=256, link_gbps=1)[1] == "links"
    assert step(gflops=100_000, devices=8, link_gbps=1000)[1] == "input"


def test_run_grows_with_the_encoder_and_with_its_rows():
    def seconds(encoder, rows):
        parts = projection.project(
            rows,
            ENCODERS[encoder],
            Machines(),
            evaluated=rows // 10,
            tokens=53,
            epochs=1,
            batch=32,
        )
        return {part.name: part.seconds for part in parts}

    small, large = seconds("minilm", 10**6), seconds("bert-base", 10**6)
    ratio = large["Trainer: steps"] / small["Trainer: steps"]
    assert ratio == pytest.approx(85_054_464 / 10_646_784, rel=0.02)
    assert large["Transform"] == small["Transform"]
    more = seconds("minilm", 10**8)
    assert more["Trainer: steps"] == pytest.approx(100 * small["Trainer: steps"])
    assert more["imports"] == small["imports"]


def test_table_has_a_column_for_each_number_of_rows():
    arguments = ["--rows", "4076", "--rows", "100000000", "--workers", "4"]
    result = CliRunner().invoke(projection.main, arguments)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert "4,076 rows" in lines[0]
    assert "100,000,000 rows" in lines[0]
    assert lines[-1].startswith("| all |")


def test_every_property_of_the_machines_is_an_option():
    names = {field.name for field in dataclasses.fields(Machines)}
    options = {option.name for option in projection.main.params}
    assert names < options
