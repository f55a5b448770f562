"""The commands about runs and served versions: tables, messages, speed."""

import json
import re
import subprocess
import sys

import pytest

from contracts.commits import Commit, Commits
from contracts.records.checks import ChecksReport
from contracts.records.evaluation import Verdict
from contracts.records.serving import ServingReport
from contracts.storage import file_lock
from pipeline.operations.override import require_refused
from pipeline.operations.run import Run
from report import run_metadata
from tests.refusals import refused
from tests.report import sample_parts, samples

LONG = "train.tsv:3: label is '7'; allowed are 0 to 1, " * 9


@pytest.fixture
def invoke(invoke_past):
    return invoke_past


def write_verdict(past, **fields):
    (verdict,) = past.execute("Evaluator", ["verdict: components.ModelVerdict"])
    content = Verdict(champion=None, metrics=[], **fields)
    past.write_json(verdict, "verdict.json", content.as_json())


def write_check(past, **fields):
    (blessing,) = past.execute("ServingCheck", ["blessing: InfraBlessing"])
    unknown = dict.fromkeys(("latency_ms", "rows_per_second", "load_seconds"))
    versions = {"tf_serving_version": "2.19", "text_version": "2.12"}
    check = ServingReport(
        rows=4, max_skew={}, peak_memory_bytes=0, **unknown, **versions, **fields
    )
    past.write_json(blessing, "serving_check.json", check.model_dump(mode="json"))


def joined(text):
    return " ".join(text.split())


def test_runs_fit_in_80_columns_with_the_version_or_the_reason(invoke, past):
    past.run("pushed", value=0.9321, pushed="/output/serving/tiny/1795571468258")
    past.run("refused", value=0.5, reason="accuracy is 0.5, the threshold is 0.9")
    past.run("data refused", reason=LONG)
    past.run("running")
    printed = invoke("runs")
    assert max(map(len, printed.splitlines())) <= 80
    for text in (
        "20260101-010000",
        "accuracy 0.9321",
        "1795571468258",
        "data refused",
        "interrupted",
    ):
        assert text in printed
    runs = json.loads(invoke("runs", "--json"))
    assert [run["state"] for run in runs] == [
        "interrupted",
        "data refused",
        "refused",
        "pushed",
    ]
    assert runs[1]["reason"] == LONG


def test_start_is_shown_in_local_time_and_written_in_utc(invoke, past, zone):
    past.run("refused", id="20251125-014907Z-123456", ended="2025-11-25T01:51:07Z")
    for name, shown in (
        ("Asia/Tokyo", "started 2025-11-25 10:49:07 JST, 2 min 00 s"),
        ("America/Los_Angeles", "started 2025-11-24 17:49:07 PST, 2 min 00 s"),
    ):
        zone(name)
        assert shown in joined(invoke("show", "20251125-014907"))
        assert "20251125-014907Z " in invoke("runs")
        (run,) = json.loads(invoke("runs", "--json"))
        assert run["started"] == "2025-11-25T01:49:07.123456+00:00"


def test_commits_of_code_and_recipe_are_shown_with_what_is_in_none(invoke, past):
    code = Commit(id="0123456789abcdef", changes=["modules/a.py"], is_submitted=True)
    recipe = Commit(id="fedcba9876543210", is_submitted=False)
    commits = Commits(code=code, recipe=recipe, recipe_file="recipe.yaml")
    past.run(commits=commits)
    shown = joined(invoke("show", "latest"))
    assert "code: commit 0123456789ab, with changes" in shown
    assert "recipe recipe.yaml: commit fedcba987654" in shown
    assert "warning: modules/a.py differs from commit 0123456789ab" in shown
    assert "warning: commit fedcba987654 is on no branch of a remote" in shown
    content = json.loads(invoke("show", "latest", "--json"))
    assert content["commits"] == commits.model_dump()
    past.run()
    assert "code:" not in invoke("show", "latest")


def test_search_is_shown_with_its_space_and_its_best_trial(invoke, past):
    search = sample_parts.search()
    report = samples.pushed().model_copy(update={"search": search})
    record = past.run()
    report.write(str(past.paths.run(record.id)))
    assert search.sentence in joined(invoke("show", "latest"))
    content = json.loads(invoke("show", "latest", "--json"))
    assert content["search"]["best"] == search.best
    assert content["search"]["space"] == search.space


def test_unfinished_run_is_shown_as_running(invoke, past):
    record = past.run("running")
    owner = f"process 1, run {past.paths.run(record.id)}\n"
    with file_lock.hold(past.paths.lock, owner):
        assert "running" in invoke("runs")
        assert "nothing to delete" in invoke("clean")
        assert "is in use by process 1" in invoke("clean", "--yes", exit_code=2)


def test_run_that_ended_before_its_first_component_is_shown(invoke, past):
    record = past.run("data refused", reason=LONG)
    shown = invoke("show", "latest")
    assert record.id in shown
    assert LONG.strip() in joined(shown)


def test_outputs_that_left_the_cache_are_shown_as_marked(invoke, past):
    past.run()
    first, _ = past.execute("Transform", ["examples: Examples", "graph: Graph"])
    run_metadata.mark_as_deleted(past.paths.metadata, [first.id])
    assert "done 2, 1 marked as deleted" in joined(invoke("show", "latest"))


def test_rollback_requires_a_recipe_if_several_push(invoke, past):
    for name in ("tiny", "other"):
        (past.paths.pushed.parent / name).mkdir(parents=True)
    assert "name one with --config" in joined(invoke("rollback", exit_code=2))


@pytest.mark.parametrize(
    ("state", "reason", "message"),
    [
        ("pushed", "", "was not refused: it pushed"),
        ("data refused", "label is '7'", "no refused model: data refused; `show "),
        ("failed", "loss is NaN", "no refused model: failed; `show "),
        ("running", "", "no refused model: interrupted"),
        ("refused", "", "were deleted; run it again"),
    ],
)
def test_only_a_refused_model_can_be_overridden(invoke, past, state, reason, message):
    past.run(state, reason=reason)
    printed = invoke("override", "latest", "--reason", "x", exit_code=2)
    assert message in joined(printed)


def test_model_that_failed_the_serving_check_cannot_be_overridden(invoke, past):
    past.run("refused")
    write_verdict(past, blessed=False, splits=["eval"])
    write_check(past, reasons=["serving_default differs by 0.5"])
    printed = joined(invoke("override", "latest", "--reason", "x", exit_code=2))
    assert "the serving check failed, which cannot be overridden; `show " in printed


def write_checks(past, results):
    (blessing,) = past.execute("ModelChecks", ["blessing: InfraBlessing"])
    past.write_json(
        blessing, ChecksReport.FILE, ChecksReport(results=results).as_json()
    )


def test_checks_that_no_code_knows_are_shown_without_their_rows(invoke, past):
    record = past.run("refused")
    results = sample_parts.checks("refused")
    write_checks(past, results)
    lines = invoke("show", "latest").splitlines()
    assert (
        "✕ refused Regions: accuracy differs most between north and (missing); add "
        "rows of the region (missing) (checks.by_region) [E-region]"
    ) in lines
    assert "✓ passed Speed: a request takes 0.98 of the time" in lines
    assert "not applicable: Required rows" in lines
    shown = invoke("show", "latest", "--json")
    checks = json.loads(shown)["checks"]
    assert [check["status"] for check in checks] == [
        *("refused", "warning", "passed", "not applicable")
    ]
    assert checks[0]["table"]["rows"][0][0] == "north"
    assert sample_parts.TEXTS[0] not in shown
    # The report also has those after the push.
    later = results[2].model_copy(update={"title": "Later"})
    report = samples.refused().model_copy(update={"checks": [later]})
    report.write(str(past.paths.run(record.id)))
    assert "✓ passed Later: " in invoke("show", "latest")


def test_model_that_only_a_check_refused_can_be_overridden(past):
    run = Run(past.paths, past.run("refused"))
    write_verdict(past, blessed=True, splits=["eval"])
    past.execute("Trainer", ["model: Model"])
    with refused("E-override-not-refused", got=re.compile("by the gate")):
        require_refused(run)
    write_checks(past, sample_parts.checks("refused"))
    run = Run(past.paths, run.record)
    require_refused(run)
    assert "accuracy differs most" in run.refusal


@pytest.mark.parametrize(("split", "chose"), [("eval", True), ("test", False)])
def test_show_says_that_the_evaluated_rows_also_chose_the_model(
    invoke, past, split, chose
):
    past.run("pushed")
    write_verdict(past, blessed=True, splits=[split])
    printed = joined(invoke("show", "latest"))
    assert ("The rows of eval also chose the model" in printed) == chose


def test_unknown_model_has_no_lineage(invoke, past):
    past.run()
    assert "has no such version" in joined(invoke("lineage", "7", exit_code=2))


READ_ONLY = """
import sys
from click.testing import CliRunner
from pipeline.cli.main import main
for command in (["runs"], ["show", "latest"], ["versions"], ["clean"], ["rollback"]):
    CliRunner().invoke(main, [*command, "--output", sys.argv[1]])
print([name for name in ("tensorflow", "tfx") if name in sys.modules])
"""


@pytest.mark.slow
def test_tensorflow_and_tfx_are_not_imported(past):
    past.run()
    command = [sys.executable, "-c", READ_ONLY, str(past.paths.root)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n", result.stderr
