"""The example alerts and the dashboard of `deploy/monitoring`."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from pipeline.config.paths import REPOSITORY
from pipeline.monitoring import gauges
from serving.monitoring import Metrics

DIRECTORY = REPOSITORY / "deploy" / "monitoring"
RULES = DIRECTORY / "rules.yaml"
SERIES = Path(__file__).parent / "rules_test.yaml"
NAME = re.compile(r"\b(?:serving|monitor)_[a-z_]+")


def exported():
    """Returns the names of all time series of the server and of `monitor`."""
    names = set()
    for registry in (Metrics().registry, gauges.build({}, {}, {})):
        for family in registry.collect():
            suffixes = {
                "counter": ("_total",),
                "histogram": ("_bucket", "_sum", "_count"),
            }.get(family.type, ("",))
            names |= {f"{family.name}{suffix}" for suffix in suffixes}
    return names


def alert_expressions():
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


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
    groups = yaml.safe_load(RULES.read_text())["groups"]
    assert raised == {rule["alert"] for group in groups for rule in group["rules"]}


def test_every_alert_is_raised_by_its_series():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool, of Prometheus, is not installed")
    subprocess.run([promtool, "check", "rules", RULES], check=True, timeout=60)
    subprocess.run([promtool, "test", "rules", SERIES], check=True, timeout=60)
