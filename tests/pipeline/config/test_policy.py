"""A policy holds for all recipes of a project, and no recipe can leave it out."""

import re

import pytest

from pipeline.cli import options
from pipeline.config import policy
from pipeline.config.recipe import load_config, load_task
from tests.refusals import refused

FORBIDDEN = 'forbidden_columns: ["*mail", "client?s name"]\n'


@pytest.fixture
def project(tmp_path):
    """A directory with a policy, and a recipe below it."""
    (tmp_path / policy.FILE).write_text(FORBIDDEN)
    write_recipe(tmp_path / "teams" / "reviews")
    return tmp_path


def write_recipe(directory):
    directory.mkdir(parents=True)
    recipe = directory / "recipe.yaml"
    recipe.write_text(
        "name: tiny\ndata: {source: pairs}\nencoder: {source: bert}\n"
        "evaluator: {thresholds: {f1: 0.5}}\n"
    )
    return recipe


def forbidden(setting, column=""):
    """Expects that a column of a setting is forbidden."""
    got = re.compile(f"{re.escape(column)}['\"], which forbidden_columns of ")
    return refused("E-policy-refused", setting=setting, got=got)


SEVERAL = {"task.kind": "multilabel"}


@pytest.mark.parametrize(
    ("setting", "value", "column", "others"),
    [
        ("task.text_columns", ["a", "client_s_name"], "client_s_name", {}),
        ("task.label_column", "CLIENT'S  name", "CLIENT'S  name", {}),
        ("task.weight_column", "client-s-name", "client-s-name", {}),
        ("task.classes", ["joy", "client s name"], "client s name", SEVERAL),
    ],
)
def test_forbidden_column_is_refused_whatever_its_use(
    project, setting, value, column, others
):
    recipe = project / "teams" / "reviews" / "recipe.yaml"
    overrides = {**others, setting: value, "evaluator.thresholds": {"accuracy": 0.5}}
    assert load_config(recipe)
    for load in (load_config, load_task):
        with forbidden(setting, column) as caught:
            load(recipe, overrides)
        assert f"{project / policy.FILE} forbids ('client?s name')" in caught.value.got
        assert caught.value.advice == f"name another column in {recipe}"
    if others:  # a name in a column
        load_task(recipe, {**overrides, "task.label_separator": "|"})


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("client name", "ClientName client_name CLIENT-NAME client.name _clientname"),
        (
            "e-mail",
            "email E_Mail e\u2011mail e\u00admail \uff25mail e*mail e?mail E+MAIL",
        ),
        ("email", "e-mail e_mail 'E-Mail:' E\xa0mail e\u200bmail"),
        ("*mail*", "contact_e-mail Mailing-List mail"),
        ("n?me", "name N-me nome"),
        ("Stra\xdfe", "STRASSE stra-sse"),
        ("pre\u0301nom", "PR\xc9NOM pr\xe9-nom"),
        ("नाम", "_नाम_"),
        ("no. [1]", "no1 NO_1"),
    ],
)
def test_case_and_punctuation_of_a_forbidden_column_do_not_matter(pattern, names):
    rules = policy.Policy(forbidden_columns=["other", pattern])
    for name in [*names.split(" "), f" {pattern}\n"]:
        assert rules.find_forbidding(name) == pattern, name


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("client name", "clients_name name client client_names"),
        ("e-mail", "female mail e_mails \xe9mail"),
        ("n?me", "nme nooome"),
        ("नाम", "नम"),
        ("a.c", "abc"),
    ],
)
def test_column_with_other_letters_is_allowed(pattern, names):
    rules = policy.Policy(forbidden_columns=[pattern])
    for name in names.split(" "):
        assert rules.find_forbidding(name) is None, name


def test_nearer_policy_adds_to_one_above_it(project):
    recipe = project / "teams" / "reviews" / "recipe.yaml"
    recipe.with_name(policy.FILE).write_text("forbidden_columns: [phone]\n")
    for column in ("phone", "e-mail"):
        with forbidden("task.label_column", column):
            load_config(recipe, {"task.label_column": column})


def test_past_runs_of_a_recipe_that_is_forbidden_now_can_be_found(project):
    recipe = project / "teams" / "reviews" / "recipe.yaml"
    (project / policy.FILE).write_text("forbidden_columns: [label]\n")
    with forbidden("task.label_column", "label"):
        load_config(recipe)
    assert options.output_paths(recipe, str(project)).name == "tiny"


@pytest.mark.parametrize("where", ["command", "code", "target of a link"])
def test_recipe_outside_of_the_project_obeys_the_policy(
    project, tmp_path_factory, monkeypatch, where
):
    recipe = write_recipe(tmp_path_factory.mktemp("elsewhere") / "reviews")
    settings = {"task.label_column": "e-mail"}
    assert load_config(recipe, settings)
    if where == "command":
        monkeypatch.chdir(project / "teams")
    elif where == "code":
        monkeypatch.setattr(policy, "_CODE", project / "code")
    else:
        recipe.unlink()
        recipe.symlink_to(project / "teams" / "reviews" / "recipe.yaml")
    with forbidden("task.label_column", "e-mail"):
        load_config(recipe, settings)


@pytest.mark.parametrize(
    ("text", "setting", "field", "part"),
    [
        ("forbidden: [a]\n", "forbidden", "allowed", "forbidden_columns, require_com"),
        ("forbidden_columns: e-mail\n", "forbidden_columns", "allowed", "list"),
        (
            "require_commit: yes\n",
            "require_commit",
            "allowed",
            "'none', 'committed' or",
        ),
        ("branch: origin/main\n", "branch", "got", "but require_commit is none"),
        ("- a\n", "FILE", "got", "not a mapping"),
        ("a: [\n", "FILE", "got", "not valid YAML"),
        (b"\xff", "FILE", "got", "not valid YAML"),
        (None, "FILE", "got", "No such file"),  # a dangling link
    ],
)
def test_policy_that_cannot_be_read_refuses_every_recipe(
    project, text, setting, field, part
):
    file = project / policy.FILE
    file.unlink()
    if text is None:
        file.symlink_to(project / "missing")
    else:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    is_unreadable = setting == "FILE"
    name = "E-config-unreadable" if is_unreadable else "E-policy-refused"
    setting = str(file) if is_unreadable else setting
    with refused(name, setting=setting, **{field: re.compile(part)}) as caught:
        load_config(project / "teams" / "reviews" / "recipe.yaml")
    assert str(file) in str(caught.value)


def test_empty_policy_forbids_nothing(project):
    (project / policy.FILE).write_text("# nothing yet\n")
    recipe = project / "teams" / "reviews" / "recipe.yaml"
    assert load_config(recipe, {"task.label_column": "e-mail"})
