"""The recipe that `init` writes is read back equal, whatever the data hold."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.config import typed_yaml
from pipeline.config.recipe import Config, load_config
from pipeline.onboarding.recipe_settings import ProjectSettings

# Lone surrogates come from JSON, and from file names that are not UTF-8.
ODD = "\x00\x07\x1b\x7f\x80\x85\x92\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800\udc80"
BOUNDS = "evaluator: {thresholds: {f1: 0.5}}\n"
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)


@given(TEXTS, TEXTS, TEXTS)
@example("Customer\nrating", "Children\x92s", "a\r\nb")
@example(ODD, f"{ODD}: # ", "\U0001f600 'größe' \"1.20\" \\")
@example("no", "1e5", "2026-01-31")
@example("- a", "? b", "%YAML 1.1\n---\n...")
def test_values_and_reasons_are_read_back(label, name, reason):
    values, text = write(label, name, reason)
    assert typed_yaml.load(text, Config) == values
    assert text.encode().count(b"\n") == write("a", "b", "c")[1].count("\n")


def write(label, name, reason):
    """Returns settings, and a recipe of them."""
    values = {
        "name": "project",
        "task": {"label_column": label, "classes": [name, label]},
        "data": {"source": f"/data/{name}"},
        "evaluator": {"thresholds": {f"recall/{name}": 0.5}},
    }
    reasons = {"task.classes": f"the 2 values of {reason}", "name": f"{reason}!"}
    head = f"From {reason}.".replace("\n", "") + "\nRun it."
    return values, ProjectSettings(values, reasons).to_yaml(head)


def test_examples_of_checks_are_valid_without_their_comment_signs(tmp_path):
    _, text = write("label", "a", "b")
    _, _, examples = text.rpartition("# checks:\n")
    lines = re.sub("^# ", "", f"# checks:\n{examples}", flags=re.M)
    checks = typed_yaml.load(lines, Config)["checks"]
    path = tmp_path / "recipe.yaml"
    path.write_text(f"name: a\ntask: mrpc\nencoder: {{source: b}}\n{BOUNDS}{lines}")
    config = load_config(path)
    assert config.checks.required_rows.file == str(tmp_path / "must_pass.csv")
    assert dict(config.checks.sections()).keys() >= checks.keys()
    assert "my_checks:MyCheck" in checks
    values = {"checks": {"required_rows": {"action": "warn"}}}
    assert "MyCheck" not in ProjectSettings(values, {}).to_yaml("")


@given(TEXTS, TEXTS)
@example("Customer\nrating", "Children\x92s")
@example(ODD, "x" * 2000)
def test_settings_of_a_run_are_read_back(label, name):
    settings = {
        "task": {"label_column": label, "classes": [name, f"{name}2"]},
        "evaluator": {"thresholds": {f"recall/{name}": 0.5}},
    }
    assert typed_yaml.load(typed_yaml.dump(settings), Config) == settings
