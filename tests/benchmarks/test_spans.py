import json
import subprocess
import sys
import time

import pytest

from benchmarks import pipeline_cost, spans


def test_span_has_its_own_seconds_without_those_of_spans_in_it():
    recorder = spans.Recorder()
    inner = recorder.wrap(lambda: time.sleep(0.2), spans.TRACE)
    outer = recorder.wrap(lambda: (time.sleep(0.1), inner()), spans.SAVE)
    outer()
    assert recorder.total(spans.TRACE) == pytest.approx(0.2, abs=0.08)
    assert recorder.total(spans.SAVE) == pytest.approx(0.1, abs=0.08)


def test_function_that_calls_itself_leaves_one_span():
    recorder = spans.Recorder()
    depth = iter(range(3))

    def nested():
        return next(depth, None) is not None and timed()

    timed = recorder.wrap(nested, spans.TRACE)
    timed()
    assert len(recorder.spans) == 1


def test_failure_leaves_its_span_and_is_not_hidden():
    recorder = spans.Recorder()

    def fail():
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        recorder.wrap(fail, spans.LOAD)()
    assert [kind for kind, _, _ in recorder.spans] == [spans.LOAD]


def test_module_of_the_current_directory_runs_as_ever_and_its_imports_are_told(
    tmp_path,
):
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.3)\n")
    (tmp_path / "program.py").write_text(
        "import gc, sys, slow\nprint(__name__, sys.argv[1:])\ngc.collect()\n"
    )
    done = subprocess.run(
        [sys.executable, pipeline_cost.WATCHED, "spans.json", "program", "--x", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "__main__ ['--x', '1']\n"
    found = json.loads((tmp_path / "spans.json").read_text())
    assert sum(s for kind, _, s in found if kind == spans.IMPORT) >= 0.3
    assert spans.COLLECT in {kind for kind, _, _ in found}
