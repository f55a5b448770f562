"""The files that the containers of a run leave below its directory."""

import json

import pytest

from pipeline import entrypoint
from pipeline.orchestrators import run_files


@pytest.fixture
def record(tmp_path):
    """Writes a record of a failure into a directory of the run."""

    def record(directory):
        (tmp_path / directory).mkdir(parents=True)
        file = tmp_path / directory / entrypoint.FAILURE_FILE.format(0)
        file.write_text(json.dumps({"exit_status": 2, "error": "x" * 9999}))

    return record


def test_failures_are_found_next_to_the_artifacts_and_not_in_them(tmp_path, record):
    record("Trainer/a-uuid")
    record("Transform/a-uuid/graph")
    (tmp_path / "Transform/a-uuid/executor-logs").write_text("done")
    (tmp_path / "a-file").write_text("")
    record("Champion_-12")  # as on Vertex AI
    failures = run_files.find_failures(str(tmp_path))
    assert failures.keys() == {"Champion", "Trainer"}
    assert failures["Trainer"].exit_status == 2


def test_long_line_is_cut(tmp_path, record):
    record("Trainer/a-uuid")
    (line,) = run_files.find_failures(str(tmp_path))["Trainer"].lines
    assert line == "x" * 2000 + "…"


def test_end_of_a_large_log_is_read(tmp_path):
    (tmp_path / "Trainer" / "a-uuid").mkdir(parents=True)
    log = tmp_path / "Trainer" / "a-uuid" / "executor-logs"
    log.write_text("ü" * run_files.TAIL_BYTES + "\nthe end\n")
    *_, last = run_files.find_log(str(tmp_path), "Trainer")
    assert last == "the end"


def test_run_without_files_has_no_failures_and_misses_nothing(tmp_path):
    missing = str(tmp_path / "missing")
    assert run_files.find_failures(missing) == {}
    assert run_files.find_log(missing, "Trainer") == []
    assert run_files.find_missing_results(missing) == ""


def test_file_system_that_is_unknown_here_is_named():
    with pytest.raises(
        run_files.UnreadableError, match=r"^s3://a/b cannot be read: .*s3"
    ):
        run_files.find_failures("s3://a/b")
