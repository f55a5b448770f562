"""Lists known vulnerabilities of all locked packages: `make audit`.

The database is OSV (https://osv.dev), or a mirror with its API. Exceptions, each with a
reason and an end, are in tools/vulnerabilities.yaml. OSV returns the same for a package
without vulnerabilities and for an unknown package, so each audit also looks for a known
vulnerability.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import http.client
import json
import os
import re
import sys
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import pydantic
import yaml

from pipeline.config.paths import REPOSITORY as ROOT

EXCEPTIONS_FILE = "tools/vulnerabilities.yaml"
DATABASE = "https://api.osv.dev"
_MAX_DAYS = 180  # of an exception
_BATCH = 1000  # queries of a request, OSV's limit
_SECONDS = 60  # for a request
_NOT_AUDITED = 2  # exit status
_NO_SOURCES = {"build", "dist", "output"}


class AuditError(Exception):
    """The locks were not audited."""


class Package(NamedTuple):
    """A version of a package.

    Attributes:
      ecosystem: OSV's name of the registry.
      name: Its name there.
      version: The locked version.
    """

    ecosystem: str
    name: str
    version: str


_KNOWN = Package("PyPI", "jinja2", "3.1.2")
_KNOWN_ID = "GHSA-h5c8-rqwp-cp95"
_PINS = {
    "PyPI": re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[.*?\])?==([^ ;\\\n]+)", re.M),
    "Go": re.compile(r"^(?:require)?\s+(\S+) v(\S+)", re.M),
}


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


class _Reference(pydantic.BaseModel):
    id: str


class _Result(pydantic.BaseModel):
    vulns: list[_Reference] = []
    next_page_token: str = ""


class _Batch(pydantic.BaseModel):
    """The response of /v1/querybatch: a result for each query, in their order."""

    results: list[_Result]


class _Range(pydantic.BaseModel):
    type: str
    events: list[dict[str, str]]


class _AffectedPackage(pydantic.BaseModel):
    name: str
    ecosystem: str


class _Affected(pydantic.BaseModel):
    package: _AffectedPackage | None = None
    ranges: list[_Range] = []


class _Advisory(pydantic.BaseModel):
    """The response of /v1/vulns/ID."""

    id: str
    aliases: list[str] = []
    withdrawn: str = ""
    affected: list[_Affected] = []

    def fixed_in(self, package: Package) -> set[str]:
        """Returns the versions of a package that fix it."""
        return {
            event["fixed"]
            for affected in self.affected
            if affected.package
            and affected.package.ecosystem == package.ecosystem
            and _normalize(affected.package.name) == _normalize(package.name)
            for versions in affected.ranges
            if versions.type != "GIT"
            for event in versions.events
            if "fixed" in event
        }


_Response = TypeVar("_Response", bound=pydantic.BaseModel)


@dataclasses.dataclass
class Vulnerability:
    """A vulnerability of a package.

    Attributes:
      names: Its ids in all databases.
      fixed: The versions that fix it.
    """

    names: set[str]
    fixed: set[str]


def find_locks(root: Path) -> list[Path]:
    """Returns all locks below a folder: lists with hashes, and go.mod."""
    locks = []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f[0] != "." and f not in _NO_SOURCES]
        locks += [
            path
            for path in (Path(folder, name) for name in files)
            if path.name == "go.mod"
            or (path.suffix in (".lock", ".txt") and "--hash=sha" in path.read_text())
        ]
    return sorted(locks)


def read_locks(locks: Iterable[Path], root: Path = ROOT) -> dict[Package, list[str]]:
    """Returns all packages of locks, and the locks of each, relative to a folder.

    Markers do not count: one stack's packages are audited on the other's Python, too.
    """
    packages = collections.defaultdict(list)
    for lock in locks:
        ecosystem = "Go" if lock.name == "go.mod" else "PyPI"
        for pin in _PINS[ecosystem].findall(lock.read_text()):
            packages[Package(ecosystem, *pin)].append(os.path.relpath(lock, root))
    return dict(packages)


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


def find_vulnerabilities(
    packages: Iterable[Package], database: str
) -> dict[Package, list[Vulnerability]]:
    """Returns the vulnerabilities of packages that a database knows.

    Args:
      packages: The packages.
      database: The URL of OSV or of a mirror.

    Raises:
      AuditError: The database is unreachable, or what it returned is incomplete.
    """
    ids: dict[Package, set[str]] = collections.defaultdict(set)
    queries = [(package, "") for package in (*packages, _KNOWN)]
    while queries:
        batch, queries = queries[:_BATCH], queries[_BATCH:]
        content = [
            {
                "package": {"ecosystem": package.ecosystem, "name": package.name},
                "version": package.version,
                **({"page_token": token} if token else {}),
            }
            for package, token in batch
        ]
        results = _request(_Batch, f"{database}/v1/querybatch", {"queries": content})
        if len(results.results) != len(batch):
            raise AuditError(f"nothing was audited: {database} skipped packages")
        for (package, _), result in zip(batch, results.results, strict=True):
            ids[package] |= {reference.id for reference in result.vulns}
            if result.next_page_token:
                queries.append((package, result.next_page_token))
    if _KNOWN_ID not in ids[_KNOWN]:
        raise AuditError(
            f"nothing was audited: {database} does not know {_KNOWN_ID} of "
            f"{_KNOWN.name} {_KNOWN.version}, so it may not know others"
        )
    advisories = {
        name: _request(_Advisory, f"{database}/v1/vulns/{name}")
        for name in sorted(set().union(*(ids[package] for package in packages)))
    }
    return {
        package: _merge([advisories[name] for name in sorted(ids[package])], package)
        for package in packages
    }


def _merge(advisories: Iterable[_Advisory], package: Package) -> list[Vulnerability]:
    """Merges the advisories of several databases on one vulnerability."""
    merged: list[Vulnerability] = []
    for advisory in advisories:
        if advisory.withdrawn:
            continue
        found = Vulnerability(
            {advisory.id, *advisory.aliases}, advisory.fixed_in(package)
        )
        for other in [other for other in merged if other.names & found.names]:
            merged.remove(other)
            found.names |= other.names
            found.fixed |= other.fixed
        merged.append(found)
    return merged


def _request(response: type[_Response], url: str, content: object = None) -> _Response:
    """Returns the response to a request, a POST if it has content."""
    data = None if content is None else json.dumps(content).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as opened:
            return response.model_validate_json(opened.read())
    except pydantic.ValidationError as error:
        reason = "it is not an API of OSV"
        raise AuditError(f"nothing was audited: {url}: {reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise AuditError(
            f"nothing was audited: {url}: {error}; run `make audit` where it is "
            "reachable, or name a mirror with ARGS='--database URL'"
        ) from error


def judge(
    found: Mapping[Package, Sequence[Vulnerability]],
    packages: Mapping[Package, Sequence[str]],
    exceptions: Sequence[VulnerabilityException],
    today: datetime.date,
) -> list[str]:
    """Returns the problems: vulnerabilities without an exception, unused exceptions.

    Args:
      found: What `find_vulnerabilities` returned.
      packages: What `read_locks` returned.
      exceptions: The exceptions.
      today: Exceptions that ended before do not count.
    """
    problems, used = [], set()
    for package, vulnerabilities in sorted(found.items()):
        for vulnerability in vulnerabilities:
            matching = [
                exception
                for exception in exceptions
                if _normalize(exception.package) == _normalize(package.name)
                and exception.id in vulnerability.names
            ]
            used |= {(exception.package, exception.id) for exception in matching}
            fixed = ", ".join(sorted(vulnerability.fixed)) or "no version"
            what = (
                f"{package.name} {package.version} ({', '.join(packages[package])}): "
                f"{', '.join(sorted(vulnerability.names))}, fixed in {fixed}"
            )
            if not matching:
                problems.append(f"{what}; upgrade it, or argue in {EXCEPTIONS_FILE}")
            elif all(exception.expires < today for exception in matching):
                problems.append(f"{what}; its exception ended on {matching[0].expires}")
    return problems + [
        f"{exception.id} of {exception.package} is no longer reported; delete it from "
        f"{EXCEPTIONS_FILE}"
        for exception in exceptions
        if (exception.package, exception.id) not in used
    ]


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Audits all locks; returns the exit status."""
    parser = argparse.ArgumentParser(prog="audit", description=main.__doc__)
    parser.add_argument("--database", default=DATABASE, help="URL of OSV or a mirror")
    options = parser.parse_args(arguments)
    try:
        exceptions = read_exceptions(ROOT / EXCEPTIONS_FILE)
        locks = find_locks(root)
        packages = read_locks(locks, root)
        found = find_vulnerabilities(packages, options.database.rstrip("/"))
    except AuditError as error:
        print(f"audit: {error}", file=sys.stderr)
        return _NOT_AUDITED
    today = datetime.datetime.now(datetime.timezone.utc).date()
    problems = judge(found, packages, exceptions, today)
    for problem in problems:
        print(problem)
    print(
        f"audit: {len(packages)} packages of {len(locks)} locks, {len(exceptions)} "
        f"exceptions, {len(problems)} problems"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
