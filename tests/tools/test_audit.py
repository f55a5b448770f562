"""`make audit` against a recorded database of vulnerabilities."""

import datetime
import http.server
import json
import re
import shutil
import threading

import pytest

from pipeline.config.paths import REPOSITORY
from tools import audit

TODAY = datetime.date(2026, 11, 27)
JINJA = audit.Package("PyPI", "jinja2", "3.1.2")
ID = "GHSA-h5c8-rqwp-cp95"
# OSV's advisory without its texts and references.
ADVISORY = {
    "schema_version": "1.4.0",
    "id": ID,
    "modified": "2024-01-11T15:20:48Z",
    "published": "2024-01-11T15:20:48Z",
    "aliases": ["CVE-2024-22195"],
    "severity": [
        {
            "type": "CVSS_V3",
            "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:R/S:U/C:L/I:L/A:N",
        }
    ],
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "jinja2"},
            "ranges": [
                {
                    "type": "ECOSYSTEM",
                    "events": [{"introduced": "0"}, {"fixed": "3.1.3"}],
                }
            ],
        }
    ],
    "database_specific": {"cwe_ids": ["CWE-79"], "severity": "MODERATE"},
}
# The same vulnerability in PyPA's database, which OSV lists too.
PYSEC = {**ADVISORY, "id": "PYSEC-2026-1473", "aliases": ["CVE-2024-22195", ID]}
LOCK = """\
jinja2==3.1.2 ; python_version < '3.11' \\
    --hash=sha256:31351a702a408a9e7595a8fc6150fc3f43bb6bf7e319770cbc0db9df9437e852
    # via -r requirements.in
markupsafe==2.1.5 \\
    --hash=sha256:d283d37a890ba4c1ae73ffadf8046435c76e7bc2247bbb63c00bd1a709c6544b
"""


class Database:
    """OSV with a vulnerability; records the packages that it was asked for."""

    def __init__(self):
        self.queries = []
        self.advisories = [ADVISORY]
        self.page = 1000  # vulnerabilities of a response
        self.missing = 0  # results

    def query(self, content):
        results = []
        for query in content["queries"]:
            package = query["package"]
            pin = audit.Package(package["ecosystem"], package["name"], query["version"])
            self.queries.append(pin)
            start = int(query.get("page_token", 0))
            known = self.advisories if pin == JINJA else []
            result = {}
            if page := known[start : start + self.page]:
                result["vulns"] = [
                    {"id": advisory["id"], "modified": advisory["modified"]}
                    for advisory in page
                ]
            if start + self.page < len(known):
                result["next_page_token"] = str(start + self.page)
            results.append(result)
        return {"results": results[self.missing :]}

    def get(self, path):
        return {f"/v1/vulns/{known['id']}": known for known in self.advisories}[path]


@pytest.fixture
def database():
    """A server of a database; `url` is its address."""
    known = Database()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            self.respond(known.get(self.path))

        def do_POST(self):
            assert self.path == "/v1/querybatch"
            length = int(self.headers["Content-Length"])
            self.respond(known.query(json.loads(self.rfile.read(length))))

        def respond(self, content):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        known.url = f"http://127.0.0.1:{server.server_port}"
        yield known
        server.shutdown()
        thread.join()


@pytest.fixture
def tree(tmp_path):
    """A folder with a lock of a vulnerable package."""
    lock = tmp_path / "tree" / "tools" / "any.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(LOCK)
    return tmp_path / "tree"


def test_known_vulnerability_is_found_with_its_lock_and_its_fix(database, tree, capsys):
    assert audit.main(["--database", database.url], tree) == 1
    assert capsys.readouterr().out == (
        f"jinja2 3.1.2 (tools/any.lock): CVE-2024-22195, {ID}, fixed in 3.1.3; upgrade "
        "it, or argue in tools/vulnerabilities.yaml\n"
        "audit: 2 packages of 1 locks, 0 exceptions, 1 problems\n"
    )


def test_locks_without_a_vulnerability_are_a_success(database, tree, capsys):
    lock = tree / "tools" / "any.lock"
    lock.write_text(LOCK.replace("3.1.2", "3.1.3"))
    assert audit.main(["--database", database.url], tree) == 0
    assert capsys.readouterr().out == (
        "audit: 2 packages of 1 locks, 0 exceptions, 0 problems\n"
    )


def test_all_packages_of_the_committed_locks_are_looked_up(
    database, capsys, monkeypatch
):
    monkeypatch.setattr(audit, "_BATCH", 500)
    audit.main(["--database", database.url])
    expected = audit.read_locks(audit.find_locks(REPOSITORY))
    assert set(database.queries) == {*expected, JINJA}
    assert len(expected) > 500


def test_advisories_of_two_databases_and_pages_are_one_problem(database, tree):
    database.advisories = [ADVISORY, PYSEC, {**ADVISORY, "id": "GHSA-1", "aliases": []}]
    database.advisories += [{**ADVISORY, "id": "GHSA-2", "withdrawn": "2024-02-01"}]
    database.page = 1
    packages = audit.read_locks(audit.find_locks(tree))
    found = audit.find_vulnerabilities(packages, database.url)
    names = [vulnerability.names for vulnerability in found[JINJA]]
    assert names == [{"GHSA-1"}, {ID, "PYSEC-2026-1473", "CVE-2024-22195"}]


@pytest.mark.parametrize("fault", ["unknown", "incomplete", "other", "closed"])
def test_database_that_cannot_be_trusted_is_one_line_and_no_success(
    database, tree, capsys, fault
):
    url = database.url
    if fault == "unknown":
        database.advisories = []
    elif fault == "incomplete":
        database.missing = 1
    elif fault == "other":
        database.query = lambda _: {"packages": []}
    else:
        url = "http://127.0.0.1:9"  # no server has this port
    expected = {
        "unknown": f"{url} does not know {ID} of jinja2 3.1.2, so it may not "
        "know others",
        "incomplete": f"{url} skipped packages",
        "other": f"{url}/v1/querybatch: it is not an API of OSV",
        "closed": f"{url}/v1/querybatch: <urlopen error [Errno 111] Connection "
        "refused>; run `make audit` where it is reachable, or name a mirror with "
        "ARGS='--database URL'",
    }
    assert audit.main(["--database", url], tree) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors == f"audit: nothing was audited: {expected[fault]}\n"


def judge(*, exceptions=(), today=TODAY, vulnerable=True):
    vulnerability = audit.Vulnerability({ID, "CVE-2024-22195"}, {"3.1.3"})
    found = {JINJA: [vulnerability] if vulnerable else []}
    return audit.judge(found, {JINJA: ["a.lock"]}, exceptions, today)


def exception(**changes):
    fields = {
        "id": ID,
        "package": "jinja2",
        "reason": "Only our own templates are rendered.",
        "date": "2026-11-01",
        "expires": "2027-03-01",
    }
    return audit.VulnerabilityException.model_validate(fields | changes)


@pytest.mark.parametrize("name", [ID, "CVE-2024-22195"])
@pytest.mark.parametrize("package", ["jinja2", "Jinja2"])
def test_exception_of_any_name_of_a_vulnerability_counts(name, package):
    assert judge(exceptions=[exception(id=name, package=package)]) == []


def test_exception_of_another_package_does_not_count():
    other = exception(package="numpy")
    assert ID in judge(exceptions=[other])[0]


def test_exception_counts_on_its_last_day_and_not_after_it():
    last, exceptions = datetime.date(2027, 3, 1), [exception()]
    assert judge(exceptions=exceptions, today=last) == []
    after = last + datetime.timedelta(days=1)
    (problem,) = judge(exceptions=exceptions, today=after)
    assert "its exception ended on 2027-03-01" in problem


def test_exception_of_what_is_no_longer_reported_is_to_be_deleted():
    (problem,) = judge(exceptions=[exception()], vulnerable=False)
    assert problem.startswith(f"{ID} of jinja2 is no longer reported")


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


def test_every_lock_of_the_tree_is_audited_on_any_python():
    locks = audit.find_locks(REPOSITORY)
    assert [str(lock.relative_to(REPOSITORY)) for lock in locks] == [
        "benchmarks/peers/requirements.lock",
        *(f"deploy/runtime/locks/py3.{minor}.lock" for minor in range(10, 14)),
        *(
            f"stacks/{s}/{n}.lock"
            for s in ("1.16", "1.21")
            for n in ("gpu", "requirements")
        ),
        "tools/docs/requirements.lock",
        "tools/prism/go.mod",
        "tools/sbom.txt",
        "tools/tf_serving_stack.txt",
    ]
    packages = audit.read_locks(locks)
    assert ("PyPI", "tfx", "1.16.0") in packages
    assert ("PyPI", "tfx", "1.21.0") in packages
    assert any(package.ecosystem == "Go" for package in packages)
    for lock in locks:
        pins = {
            re.split(r"[ ;\\]", line)[0]
            for line in lock.read_text().splitlines()
            if re.match("[a-z0-9]", line) and lock.name != "go.mod"
        }
        found = {f"{p.name}=={p.version}" for p in audit.read_locks([lock])}
        assert found == pins or lock.name == "go.mod"


def test_new_lock_is_audited_and_an_environment_is_not(tree):
    for name in ("new.txt", "a/b/new.lock", ".venv/b.lock", "build/b.lock"):
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LOCK)
    (tree / "plain.txt").write_text("jinja2==3.1.2\n")
    shutil.copy(REPOSITORY / "tools" / "prism" / "go.mod", tree / "go.mod")
    found = [str(lock.relative_to(tree)) for lock in audit.find_locks(tree)]
    assert found == ["a/b/new.lock", "go.mod", "new.txt", "tools/any.lock"]


def test_committed_exceptions_are_valid():
    audit.read_exceptions(REPOSITORY / audit.EXCEPTIONS_FILE)
