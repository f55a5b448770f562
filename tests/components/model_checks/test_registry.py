"""Checks are found by their files; a user's own ones are loaded by their names."""

import inspect
import json
import re
import sys

import numpy as np
import pydantic
import pytest

from components.model_checks import registry
from components.model_checks.check import Check
from components.model_checks.checks.required_rows import RequiredRows
from contracts import user_modules
from contracts.errors import SettingError
from contracts.settings.checks import CheckSettings
from contracts.storage import files
from pipeline.config import typed_yaml
from pipeline.config.paths import REPOSITORY
from pipeline.config.recipe import Config
from tests.components.model_checks.toys import Toy
from tests.refusals import refused

MODULE = """
from components.model_checks import Check, CheckResult, CheckSettings
import helper_of_a_test


class MySettings(CheckSettings):
    limit: float = 0.5
    ends: tuple[int, int] = (0, 1)


class MyCheck(Check):
    Settings = MySettings
    title = helper_of_a_test.TITLE

    def run(self, model, data, settings):
        return CheckResult(status="passed", sentence=f"below {settings.limit}")


class Other:
    pass


class Abstract(Check):
    title = "It does not run"


class Untitled(Check):
    run = MyCheck.run
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with a user's module and its import."""
    (tmp_path / "own_of_a_test.py").write_text(MODULE)
    (tmp_path / "helper_of_a_test.py").write_text("TITLE = 'Mine'\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield str(tmp_path)
    for name in ("own_of_a_test", "helper_of_a_test"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", registry.find_checks())
def test_each_file_of_the_package_has_one_check_with_documented_settings(name):
    check = registry.find_checks()[name]
    assert isinstance(check, Check)
    assert check.title
    settings = type(check).Settings
    assert settings.__doc__


def test_own_check_is_loaded_with_its_settings_and_imports(folder):
    sections = {"own_of_a_test:MyCheck": {"limit": 0.1, "ends": [2, 3]}}
    sections["required_rows"] = {"action": "ignore"}
    (configured,) = registry.configure(sections, folder)
    assert configured.check.title == "Mine"
    assert configured.settings.ends == (2, 3)
    assert configured.module == "own_of_a_test"
    assert configured.check.run(None, None, configured.settings).sentence == "below 0.1"
    json_again = configured.settings.model_dump(mode="json")
    assert json_again == {
        "action": "refuse",
        "timeout": 600,
        "limit": 0.1,
        "ends": [2, 3],
    }
    # An installed module needs no directory.
    name = f"{RequiredRows.__module__}:RequiredRows"
    assert registry.load_own(name, None)[1] == RequiredRows.__module__


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("own_of_a_test:Other", "Other is not a class derived from Check"),
        ("own_of_a_test:Abstract", "Abstract has no method run"),
        ("own_of_a_test:Untitled", "Untitled has no title"),
        ("own_of_a_test:Missing", "own_of_a_test has no class Missing"),
        ("missing_of_a_test:MyCheck", "cannot be imported: ModuleNotFoundError: No"),
        ("broken_of_a_test:MyCheck", "ZeroDivisionError: division by zero; correct "),
        ("json:MyCheck", "is a module of Python"),
        ("contracts:MyCheck", "is a module of this package"),
        ("serving:MyCheck", "is a module of this package"),
        ("yaml:MyCheck", "is a module of an installed package"),
    ],
)
def test_own_check_that_cannot_be_loaded_is_refused_by_name(folder, name, got):
    for file in ("broken_of_a_test", "json", "contracts", "serving", "yaml"):
        with open(f"{folder}/{file}.py", "w") as module:
            module.write("1 / 0\n")
    with pytest.raises(SettingError) as caught:
        registry.load_own(name, folder)
    assert caught.value.setting == f"checks.{name}"
    assert got in str(caught.value)
    assert json.__name__ == sys.modules["json"].__name__ == "json"
    assert "broken_of_a_test" not in sys.modules


def test_setting_that_an_own_check_does_not_have_is_an_error(folder):
    with pytest.raises(pydantic.ValidationError, match="limt"):
        registry.configure({"own_of_a_test:MyCheck": {"limt": 1}}, folder)


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("checks.linear_model.action", ["checks", "linear_model", "action"]),
        ("checks.mine:Check", ["checks", "mine:Check"]),
        ("checks.a.b:Check.deep.key", ["checks", "a.b:Check", "deep", "key"]),
        ("trainer.optimization.a:b", ["trainer", "optimization", "a:b"]),
    ],
)
def test_key_is_split_around_the_name_of_a_check(key, parts):
    assert registry.split_key(key) == parts


def test_setting_that_does_not_fit_the_task_has_its_dotted_key():
    class Picky(RequiredRows):
        def validate(self, settings, task, slice_columns):
            raise SettingError(task, f"not of {slice_columns}")

    for setting, key in (("least", "checks.mine.least"), (None, "checks.mine")):
        with refused("E-settings-refused", setting=key, got="not of ['region']"):
            registry.validate("mine", Picky(), CheckSettings(), setting, ["region"])


def test_checks_of_a_parameter_are_loaded_from_a_copy_of_a_remote_directory(
    folder, tmp_path
):
    section = {"own_of_a_test:MyCheck": {}}
    text = json.dumps({"sections": section, "directory": folder})
    copies = tmp_path / "copies"
    (configured,) = registry.parse(text, str(copies))
    assert configured.name == "own_of_a_test:MyCheck"
    assert not copies.exists()
    assert registry.parse("{}", str(copies)) == []

    remote = "ram://checks_of_a_test"
    for name in ("helper_of_a_test.py", "own_of_a_test.py"):
        files.copy(f"{folder}/{name}", f"{remote}/{name}")
    text = json.dumps({"sections": section, "directory": remote})
    sys.modules.pop("own_of_a_test")
    (configured,) = registry.parse(text, str(copies))
    copied = inspect.getsourcefile(type(configured.check))
    assert copied == str(copies / "checks" / "own_of_a_test.py")
    assert user_modules.fetch(None, "unused") is None


def test_check_of_the_page_runs_as_written(folder, tmp_path):
    page = (REPOSITORY / "docs" / "checks.md").read_text()
    _, _, page = page.partition("## Your own")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    assert code.count("\n") <= 18  # with its import and blank lines
    (tmp_path / "my_checks.py").write_text(code)
    (section,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S)
    sections = typed_yaml.load(section, Config)["checks"]
    (configured,) = registry.configure(sections, folder)
    sys.modules.pop("my_checks")

    def predict(texts):
        loud = np.array([row[0].isupper() for row in texts])
        return np.stack([1.0 - loud, loud], axis=1)

    toy = Toy(rows={"eval": [("quiet", 0), ("LOUD", 0)]}, models={"candidate": predict})
    result = toy.run(configured.check, **sections["my_checks:UpperCase"])
    assert result.status == "warning"
    assert result.sentence == "50% of the classes change"


def test_check_that_overwrites_a_hook_judges_data():
    class Plain(Check):
        def run(self, model, data, settings):
            raise NotImplementedError

    assert registry.judges_data(RequiredRows())
    assert not registry.judges_data(Plain())
