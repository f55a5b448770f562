"""Lists known vulnerabilities of all locked packages: `make audit`.

pip-audit asks a database for each package of the locks of both stacks and of the
runtime. What it reports is judged with tools/vulnerabilities.yaml, whose exceptions
have a reason and an end. A package that the database does not know counts as unchecked,
which fails: pip-audit itself would pass it.

pip-audit has its own environment, .venv-audit, made of tools/audit.txt:
    uv pip compile tools/audit.in --universal --python-version 3.10 --generate-hashes \
        --no-header --output-file tools/audit.txt
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic
import yaml

from pipeline.config.paths import REPOSITORY as ROOT

EXCEPTIONS_FILE = "tools/vulnerabilities.yaml"
PIP_AUDIT = ".venv-audit/bin/pip-audit"
_MAX_DAYS = 180  # of an exception
_SHOWN = 5  # names in one line
_UNREACHABLE = 2  # exit status


class AuditError(Exception):
    """The locks were not audited."""


class VulnerabilityException(pydantic.BaseModel, extra="forbid"):
    """A vulnerability that is accepted until a date.

    Attributes:
      id: Its id, or an alias.
      package: The package that has it.
      reason: Why it does not apply here, or cannot be fixed yet.
      date: When that was decided.
      expires: The last day of the exception.
    """

    id: str = pydantic.Field(min_length=1)
    package: str = pydantic.Field(min_length=1)
    reason: str = pydantic.Field(min_length=20)
    date: datetime.date
    expires: datetime.date

    @pydantic.model_validator(mode="after")
    def _check_days(self) -> VulnerabilityException:
        if not 0 <= (self.expires - self.date).days <= _MAX_DAYS:
            raise ValueError(
                f"{self.id}: expires is {self.expires}; it must be at most {_MAX_DAYS} "
                f"days after the date {self.date}"
            )
        return self


def read_locks(locks: Iterable[Path]) -> dict[str, str]:
    """Returns all packages of locks, `NAME==VERSION`, with the first lock of each.

    Markers do not count: one stack's packages are audited on the other's Python, too.
    """
    packages: dict[str, str] = {}
    for lock in locks:
        pins = re.findall(r"^[a-z0-9][^ ;\\]*", lock.read_text(), re.MULTILINE)
        for pin in pins:
            packages.setdefault(pin, lock.as_posix())
    return packages


def read_exceptions(path: Path) -> list[VulnerabilityException]:
    """Reads the exceptions.

    Raises:
      AuditError: An exception lacks a reason, a date or an end that is near.
    """
    try:
        entries = yaml.safe_load(path.read_text()) or []
        return [VulnerabilityException.model_validate(entry) for entry in entries]
    except (pydantic.ValidationError, yaml.YAMLError) as error:
        raise AuditError(f"{path}: {error}") from error


def ask(pip_audit: Path, packages: Iterable[str], service: str) -> dict[str, Any]:
    """Returns what pip-audit reports about packages.

    Args:
      pip_audit: The program.
      packages: `NAME==VERSION` each.
      service: The database, `osv` or `pypi`.

    Raises:
      AuditError: The program is missing, or the database is unreachable.
    """
    if not pip_audit.exists():
        raise AuditError(f"{pip_audit} is missing; `make audit` installs it")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        # Two versions of one package need two files: pip-audit refuses a double name.
        file.write("".join(f"{package}\n" for package in packages))
        file.flush()
        finished = subprocess.run(
            [
                *(pip_audit, "--requirement", file.name, "--no-deps", "--disable-pip"),
                *("--format", "json", "--progress-spinner", "off"),
                *("--vulnerability-service", service),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    try:
        return json.loads(finished.stdout)
    except ValueError as error:
        lines = finished.stderr.strip().splitlines() or ["no output"]
        raise AuditError(
            f"nothing was audited: pip-audit cannot read the database {service} "
            f"({lines[-1][:300]}); run `make audit` where api.osv.dev is reachable, or "
            "pypi.org with ARGS='--service pypi'"
        ) from error


def judge(
    answers: Iterable[Mapping[str, Any]],
    packages: Mapping[str, str],
    exceptions: Sequence[VulnerabilityException],
    today: datetime.date,
) -> list[str]:
    """Returns the problems: vulnerabilities without an exception, unchecked packages.

    Args:
      answers: What `ask` returned.
      packages: What `read_locks` returned.
      exceptions: The exceptions.
      today: Exceptions that ended before do not count.
    """
    problems, checked, used = [], set(), set()
    for dependency in (d for answer in answers for d in answer["dependencies"]):
        if "skip_reason" in dependency:
            continue
        pin = f"{dependency['name']}=={dependency['version']}"
        checked.add(pin)
        for found in dependency["vulns"]:
            names = {found["id"], *found.get("aliases", ())}
            matching = [
                exception
                for exception in exceptions
                if exception.package == dependency["name"] and exception.id in names
            ]
            used |= {exception.id for exception in matching}
            fixed = ", ".join(found["fix_versions"]) or "no version"
            what = f"{pin} ({packages.get(pin)}): {found['id']}, fixed in {fixed}"
            if not matching:
                problems.append(f"{what}; upgrade it, or argue in {EXCEPTIONS_FILE}")
            elif all(exception.expires < today for exception in matching):
                problems.append(f"{what}; its exception ended on {matching[0].expires}")
    unchecked = sorted(packages.keys() - checked)
    if unchecked:
        more = ", ..." if len(unchecked) > _SHOWN else ""
        problems.append(
            f"{len(unchecked)} of {len(packages)} packages are unknown to the database "
            f"and were not checked: {', '.join(unchecked[:_SHOWN])}{more}"
        )
    problems += [
        f"{exception.id} of {exception.package} is no longer reported; delete it from "
        f"{EXCEPTIONS_FILE}"
        for exception in exceptions
        if exception.id not in used and not unchecked
    ]
    return problems


def split_versions(packages: Iterable[str]) -> list[list[str]]:
    """Returns lists of packages, none of which has two versions of one package."""
    lists: list[dict[str, str]] = []
    for package in sorted(packages):
        name = package.partition("==")[0]
        free = next((other for other in lists if name not in other), None)
        if free is None:
            lists.append({name: package})
        else:
            free[name] = package
    return [list(part.values()) for part in lists]


def main(arguments: Sequence[str] | None = None) -> int:
    """Audits all locks; returns the exit status."""
    parser = argparse.ArgumentParser(prog="audit", description=main.__doc__)
    parser.add_argument("--service", choices=("osv", "pypi"), default="osv")
    parser.add_argument("--pip-audit", type=Path, default=ROOT / PIP_AUDIT)
    options = parser.parse_args(arguments)
    locks = [
        path.relative_to(ROOT)
        for pattern in ("stacks/*/*.lock", "deploy/runtime/locks/*.lock")
        for path in sorted(ROOT.glob(pattern))
    ]
    try:
        exceptions = read_exceptions(ROOT / EXCEPTIONS_FILE)
        packages = read_locks(ROOT / lock for lock in locks)
        packages = {pin: Path(p).parts[1] for pin, p in packages.items()}
        answers = [
            ask(options.pip_audit, part, options.service)
            for part in split_versions(packages)
        ]
    except AuditError as error:
        print(f"audit: {error}", file=sys.stderr)
        return _UNREACHABLE
    today = datetime.datetime.now(datetime.timezone.utc).date()
    problems = judge(answers, packages, exceptions, today)
    for problem in problems:
        print(problem)
    print(
        f"audit: {len(packages)} packages of {len(locks)} locks, {len(exceptions)} "
        f"exceptions, {len(problems)} problems"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
