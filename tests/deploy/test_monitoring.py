"""The alerts and the dashboard of `deploy/monitoring`."""

import contextlib
import datetime
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import httpx
import pytest
import yaml

from pipeline.operations.monitoring import gauges
from serving.monitoring import Metrics
from tests.deploy.manifests import DEPLOY, manifests
from tests.serving import small_models
from tests.serving.conftest import running, wait_until

DIRECTORY = DEPLOY / "monitoring"
SERIES = Path(__file__).parent / "rules_test.yaml"
LISTENING = re.compile(r'msg="Listening on" address=(\S+)')
NAME = re.compile(r"\b(?:serving|monitor)_[a-z_]+")


def exported():
    """Returns the names of all time series of the server and of `monitor`."""
    names = set()
    for registry in (Metrics().registry, gauges.build({}, {}, (), ())):
        for family in registry.collect():
            suffixes = {
                "counter": ("_total",),
                "histogram": ("_bucket", "_sum", "_count"),
            }.get(family.type, ("",))
            names |= {f"{family.name}{suffix}" for suffix in suffixes}
    return names


def alerts():
    """Returns the rules by the name of their alert."""
    groups = manifests("monitoring")["PrometheusRule"]["spec"]["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def alert_expressions():
    return [rule["expr"] for rule in alerts().values()]


def panel_expressions():
    dashboard = json.loads((DIRECTORY / "dashboard.json").read_text())
    return [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]]


@pytest.mark.parametrize("expressions", [alert_expressions, panel_expressions])
def test_every_metric_is_one_that_is_exported(expressions):
    for expression in expressions():
        names = set(NAME.findall(expression))
        assert names, expression
        assert names <= exported(), expression


def test_every_metric_of_the_monitor_is_on_the_dashboard():
    shown = set(NAME.findall(" ".join(panel_expressions())))
    assert {name for name in exported() if name.startswith("monitor_")} <= shown


def test_every_alert_has_series_that_raise_it():
    tests = yaml.safe_load(SERIES.read_text())["tests"]
    raised = {
        expected["alertname"]
        for test in tests
        for expected in test["alert_rule_test"]
        if expected.get("exp_alerts")
    }
    assert raised == alerts().keys()


def program_of_prometheus(name):
    path = shutil.which(name)
    if path is None:
        if os.environ.get("PROMETHEUS_MUST_NOT_SKIP"):  # set by .ci/run
            pytest.fail(f"{name} is not on the PATH; in CI this test must not skip")
        pytest.skip(f"{name}, of Debian's package prometheus, is not installed")
    return path


@pytest.fixture
def rules(tmp_path):
    """A file with the rules as Prometheus reads them."""
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(manifests("monitoring")["PrometheusRule"]["spec"]))
    return path


def test_every_alert_is_raised_by_its_series(rules):
    promtool = program_of_prometheus("promtool")
    series = shutil.copy(SERIES, rules.parent)
    subprocess.run([promtool, "check", "rules", rules], check=True, timeout=60)
    subprocess.run([promtool, "test", "rules", series], check=True, timeout=60)


@contextlib.contextmanager
def started_prometheus(rules, targets):
    """Starts Prometheus, which scrapes servers; yields a reader of its API."""
    program = program_of_prometheus("prometheus")
    (endpoint,) = manifests("serving")["ServiceMonitor"]["spec"]["endpoints"]
    scrape = {
        "job_name": "serving",
        "metrics_path": endpoint["path"],
        "static_configs": [{"targets": targets}],
    }
    config = rules.parent / "prometheus.yaml"
    content = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [scrape],
    }
    config.write_text(yaml.safe_dump(content))
    command = [
        *(program, f"--config.file={config}", "--web.listen-address=127.0.0.1:0"),
        f"--storage.tsdb.path={rules.parent / 'data'}",
    ]

    def address():
        return LISTENING.search((rules.parent / "log").read_text())

    with (
        (rules.parent / "log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            wait_until(address)
            url = f"http://{address()[1]}/api/v1/"

            def read(path, key, **query):
                answer = httpx.get(url + path, params=query, trust_env=False)
                # Until its storage is ready it answers 503.
                return answer.json()["data"][key] if answer.status_code == 200 else []

            yield read
        finally:
            process.kill()


@pytest.mark.slow
def test_old_model_raises_the_alert_in_prometheus_and_a_new_one_does_not(
    rules, tmp_path
):
    times = {"old": 1_700_000_000, "new": int(time.time())}
    with contextlib.ExitStack() as stack:
        addresses = {}
        for name, pushed in times.items():
            directory = tmp_path / name
            small_models.save_counter(directory / str(pushed * 1000), 1)
            url = stack.enter_context(running(directory)).http.base_url
            addresses[name] = f"{url.host}:{url.port}"
        targets = list(addresses.values())
        read = stack.enter_context(started_prometheus(rules, targets))

        def scraped():
            found = read("query", "result", query="count(serving_model_age_seconds)")
            return [at for at, count in (r["value"] for r in found) if count == "2"]

        wait_until(scraped)
        (since,) = scraped()

        def evaluated():
            ends = [group["lastEvaluation"] for group in read("rules", "groups")]
            return ends and since < min(
                datetime.datetime.fromisoformat(end).timestamp() for end in ends
            )

        wait_until(evaluated)
        (alert,) = [a for a in read("alerts", "alerts") if a["state"] == "firing"]
    assert alert["labels"]["alertname"] == "BertServingOldModel"
    assert alert["labels"]["instance"] == addresses["old"]
