"""`doctor` finds what would stop a run, and says what to do."""

import json
import os
import socket

import pytest
from click.testing import CliRunner

from ingest import examples
from pipeline.cli.main import main
from pipeline.config.recipe import load_config
from pipeline.local import checks
from serving.settings import ServerSettings
from tests import tiny

pytestmark = pytest.mark.slow  # TensorFlow


@pytest.fixture
def recipe(tmp_path):
    return tiny.write_config(tmp_path / "recipe.yaml")


@pytest.fixture
def doctor(recipe):
    """Runs the command; returns its exit status, and the checks by name."""

    def doctor(*arguments):
        command = ["doctor", "--config", str(recipe), "--json", *map(str, arguments)]
        result = CliRunner().invoke(main, command)
        found = {check.pop("name"): check for check in json.loads(result.stdout)}
        return result.exit_code, found

    return doctor


def test_machine_that_runs_the_recipe_has_no_error(doctor, recipe):
    status, found = doctor()
    assert status == 0, found
    assert {check["status"] for check in found.values()} <= {"ok", "warning"}
    assert found["packages"]["value"].startswith("TFX 1.")
    assert "cores" in found["CPU"]["value"]
    assert "2 layers x 16" in found["encoder"]["value"]
    assert "train, eval, test" in found["data"]["value"]
    assert str(recipe.parent / "output") in found["output"]["value"]
    assert not (recipe.parent / "output").exists()


def test_checks_of_the_model_are_read_as_by_a_run(doctor, recipe):
    status, found = doctor()
    assert (status, found["checks of the model"]["status"]) == (0, "ok")
    assert "required_rows" in found["checks of the model"]["value"]
    rows = recipe.parent / "rows.csv"
    rows.write_text("sentence1,sentence2,label\na,b,great\n")
    status, found = doctor("--set", f"checks.required_rows.file={rows}")
    assert (status, found["checks of the model"]["status"]) == (1, "error")
    assert f"{rows}:2: label is 'great'" in found["checks of the model"]["value"]


def test_errors_of_a_recipe_are_all_reported_and_exit_with_1(doctor, recipe):
    (recipe.parent / "encoder" / "vocab.txt").unlink()
    (recipe.parent / "data" / "eval.tsv").write_text("idx\tno_label\n1\t2\n")
    beam = "beam={runner: flink, job_server_jar: none.jar, master: 'localhost:1'}"
    status, found = doctor("--set", beam, "--output", recipe / "a")
    assert status == 1
    errors = {name for name, check in found.items() if check["status"] == "error"}
    assert errors >= {"encoder", "data", "output"}
    assert errors >= {"Beam's job server", "Flink"}
    assert "vocab.txt" in found["encoder"]["value"]
    assert "label" in found["data"]["value"]
    assert found["output"]["advice"] == "name another directory with --output DIR"


def test_what_a_run_would_refuse_at_its_start_is_an_error(doctor, recipe, monkeypatch):
    config = load_config(recipe)
    records = recipe.parent / "records [1]"
    written = recipe.parent / "records"
    examples.prepare(config.data.source, str(written), config.task)
    written.rename(records)
    monkeypatch.setenv("TF_CONFIG", "{oops")
    paths = ("--output", recipe.parent / "out*", "--data", records)
    status, found = doctor(*paths)
    assert status == 1
    assert "TensorFlow and Beam read * in" in found["output"]["value"]
    assert "TensorFlow and Beam read [ in" in found["data"]["value"]
    assert "TF_CONFIG: '{oops'" in found["TF_CONFIG"]["value"]
    _, found = doctor("--set", "trainer.strategy=one_device", "--output", "x" * 300)
    assert found["TF_CONFIG"]["value"] == "not used with trainer.strategy=one_device"
    assert found["output"]["status"] == "error"
    assert os.environ["TF_CONFIG"] == "{oops"  # as it was checked
    monkeypatch.delenv("TF_CONFIG")
    status, found = doctor("--set", "trainer.strategy=multi_worker_mirrored")
    assert status == 1
    assert "it names no cluster" in found["TF_CONFIG"]["value"]


def test_cluster_that_a_run_coordinates_is_named(doctor, monkeypatch):
    jobs = {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}
    content = {"cluster": jobs, "task": {"type": "chief", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(content))
    _, found = doctor("--set", "trainer.strategy=parameter_server")
    assert found["TF_CONFIG"]["status"] == "ok"
    cluster = "the cluster of trainer.strategy=parameter_server"
    assert found["TF_CONFIG"]["value"] == cluster


def test_gate_split_that_the_data_lack_is_an_error(doctor):
    status, found = doctor("--set", "evaluator.split=test_mismatched")
    assert status == 1
    assert found["data"]["status"] == "error"
    allowed = "the splits of the data, eval, test, train [E-settings-refused]"
    message = f"evaluator.split: 'test_mismatched'; allowed: {allowed}"
    assert found["data"]["value"] == message


def test_invalid_recipe_is_an_error_and_its_sources_are_not_checked(doctor):
    status, found = doctor("--set", "trainer.epochs=0")
    assert status == 1
    assert "trainer.epochs" in found["recipe"]["value"]
    assert "encoder" not in found


def test_port_in_use_names_the_option_that_picks_another():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        check = checks._check_port(bound.getsockname()[1], "--grpc-port")
    assert check.status == "warning"
    assert check.value == "address already in use"
    assert "serve --grpc-port 0" in check.advice


def test_packages_that_differ_from_the_lock_are_named(tmp_path, monkeypatch):
    stack = tmp_path / "1.16"
    stack.mkdir()
    python = "{}.{}".format(*checks.sys.version_info)
    (tmp_path / "stacks.txt").write_text(f"# a comment\n1.16 2.17 {python}\n")
    (stack / "requirements.lock").write_text(
        "# a comment\n"
        "click==0.1 ; python_version >= '3' \\\n    --hash=sha256:00\n    # via x\n"
        "No_Such.Package==1\n"
        "other==1 ; python_version < '3'\n"
    )
    monkeypatch.setattr(checks, "_STACKS", tmp_path)
    check = checks._check_packages()
    assert check.status == "error"
    assert check.value.startswith("missing: no-such-package; differ: click 8.")
    assert check.value.endswith("instead of 0.1")
    assert check.advice == "run `make install`"


def test_table_fits_a_terminal_of_80_columns(recipe):
    shown = CliRunner().invoke(
        main, ["doctor", "--config", str(recipe)], env={"COLUMNS": "80"}
    )
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "│ encoder " in shown.stdout


def test_ports_are_the_defaults_of_the_server():
    defaults = {"--grpc-port": ServerSettings.grpc_port, "--port": ServerSettings.port}
    assert defaults == checks.PORTS
