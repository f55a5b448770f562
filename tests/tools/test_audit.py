"""`make audit`: what it makes of the answers of pip-audit."""

import datetime
import itertools
import re

import pytest

from pipeline.config.paths import REPOSITORY
from tools import audit

TODAY = datetime.date(2026, 11, 27)
PACKAGES = {"jinja2==3.1.2": "1.16", "numpy==1.26.4": "1.16"}
# As pip-audit 2.10.1 writes them.
FOUND = {
    "id": "PYSEC-2024-1",
    "fix_versions": ["3.1.3"],
    "aliases": ["CVE-2024-22195", "GHSA-h5c8-rqwp-cp95"],
    "description": "The xmlattr filter.",
}
CLEAN = {"name": "numpy", "version": "1.26.4", "vulns": []}
JINJA = {"name": "jinja2", "version": "3.1.2", "vulns": [FOUND]}
# Recorded where the index has no answers: pip-audit ends with status 0.
SKIPPED = {
    "name": "jinja2",
    "skip_reason": "Dependency not found on PyPI and could not be audited: jinja2 "
    "(3.1.2)",
}
UNREACHABLE = """#!/bin/sh
echo "requests.exceptions.ConnectionError: Failed to resolve 'api.osv.dev'" >&2
exit 1
"""


def judge(*dependencies, exceptions=(), today=TODAY):
    answers = [{"dependencies": list(dependencies), "fixes": []}]
    return audit.judge(answers, PACKAGES, exceptions, today)


def exception(**changes):
    fields = {
        "id": "GHSA-h5c8-rqwp-cp95",
        "package": "jinja2",
        "reason": "Only our own templates are rendered.",
        "date": "2026-11-01",
        "expires": "2027-03-01",
    }
    return audit.VulnerabilityException.model_validate(fields | changes)


def test_vulnerability_is_a_problem_with_its_fix():
    (problem,) = judge(JINJA, CLEAN)
    assert problem == (
        "jinja2==3.1.2 (1.16): PYSEC-2024-1, fixed in 3.1.3; upgrade it, or argue in "
        "tools/vulnerabilities.yaml"
    )


@pytest.mark.parametrize("name", [FOUND["id"], *FOUND["aliases"]])
def test_exception_of_any_name_of_a_vulnerability_counts(name):
    assert judge(JINJA, CLEAN, exceptions=[exception(id=name)]) == []


def test_exception_of_another_package_does_not_count():
    other = exception(package="numpy")
    assert "PYSEC-2024-1" in judge(JINJA, CLEAN, exceptions=[other])[0]


def test_exception_counts_on_its_last_day_and_not_after_it():
    last, exceptions = datetime.date(2027, 3, 1), [exception()]
    assert judge(JINJA, CLEAN, exceptions=exceptions, today=last) == []
    after = last + datetime.timedelta(days=1)
    (problem,) = judge(JINJA, CLEAN, exceptions=exceptions, today=after)
    assert "its exception ended on 2027-03-01" in problem


def test_exception_of_what_is_no_longer_reported_is_to_be_deleted():
    fixed = {**JINJA, "vulns": []}
    (problem,) = judge(fixed, CLEAN, exceptions=[exception()])
    assert problem.startswith("GHSA-h5c8-rqwp-cp95 of jinja2 is no longer reported")


@pytest.mark.parametrize("dependencies", [(SKIPPED, CLEAN), (CLEAN,)])
def test_package_that_the_database_does_not_know_is_a_problem(dependencies):
    (problem,) = judge(*dependencies)
    assert problem == (
        "1 of 2 packages are unknown to the database and were not checked: "
        "jinja2==3.1.2"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2027-03-01", "2027-06-01", "must be at most 180 days after the date"),
        ("2027-03-01", "2026-10-01", "must be at most 180 days after the date"),
        ("Only our own templates are rendered.", "fine", "at least 20 characters"),
        ("expires", "until", "Field required"),
        ("[", "]", "test.yaml"),
    ],
)
def test_exception_without_reason_or_near_end_is_refused(tmp_path, old, new, message):
    path = tmp_path / "test.yaml"
    content = f"[{exception().model_dump_json()}]"
    path.write_text(content)
    assert audit.read_exceptions(path) == [exception()]
    path.write_text(content.replace(old, new))
    with pytest.raises(audit.AuditError, match=message):
        audit.read_exceptions(path)


def test_locks_of_both_stacks_are_audited_on_any_python():
    locks = sorted(REPOSITORY.glob("stacks/*/*.lock"))
    packages = audit.read_locks(locks)
    assert {"tfx==1.16.0", "tfx==1.21.0"} <= packages.keys()
    pins = [line for lock in locks for line in lock.read_text().splitlines()]
    pins = {re.split("[ ;]", line)[0] for line in pins if re.match("[a-z0-9]", line)}
    assert packages.keys() == pins
    assert all(" " not in package and "==" in package for package in packages)
    parts = audit.split_versions(packages)
    assert sorted(itertools.chain(*parts)) == sorted(packages)
    for part in parts:
        names = [package.partition("==")[0] for package in part]
        assert len(names) == len(set(names))


def test_unreachable_database_is_one_line_and_no_success(tmp_path, capsys):
    program = tmp_path / "pip-audit"
    program.write_text(UNREACHABLE)
    program.chmod(0o755)
    assert audit.main(["--pip-audit", str(program)]) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("audit: nothing was audited: pip-audit cannot read the da")
    assert "Failed to resolve 'api.osv.dev'" in errors
    assert errors.count("\n") == 1


def test_locks_of_the_runtime_are_audited_too(tmp_path, capsys):
    program = tmp_path / "pip-audit"
    program.write_text("#!/bin/sh\necho '{\"dependencies\": []}'\n")
    program.chmod(0o755)
    assert audit.main(["--pip-audit", str(program)]) == 1
    locks = list((REPOSITORY / "deploy/runtime/locks").iterdir())
    assert f" packages of {4 + len(locks)} locks, " in capsys.readouterr().out
    assert {"huggingface-hub", "onnxruntime"} <= {
        pin.partition("==")[0] for pin in audit.read_locks(locks)
    }


def test_missing_program_is_one_line_with_what_installs_it(tmp_path, capsys):
    assert audit.main(["--pip-audit", str(tmp_path / "pip-audit")]) == 2
    assert capsys.readouterr().err == (
        f"audit: {tmp_path}/pip-audit is missing; `make audit` installs it\n"
    )


def test_committed_exceptions_are_valid():
    audit.read_exceptions(REPOSITORY / audit.EXCEPTIONS_FILE)
