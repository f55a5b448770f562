"""Commands that a user can copy."""

import shlex

import pytest

from pipeline.config import invocation


@pytest.mark.parametrize("python", ["/opt/my python/bin/python", "bin/python"])
def test_command_is_quoted_for_a_shell(monkeypatch, python):
    monkeypatch.setattr(invocation.sys, "executable", python)
    arguments = ["run", "--config", "my data; $HOME/it's.yaml", "--reason", "TEXT", 3]
    words = shlex.split(invocation.command(*arguments))
    assert words[-8:] == ["-m", "pipeline", *map(str, arguments)]
    assert words[0].endswith(python.removeprefix("/"))
