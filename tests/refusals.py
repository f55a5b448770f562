"""Expectations of errors by their fields, so that tests do not depend on wording."""

import contextlib
import re

import pytest

from contracts.errors import UsageError
from pipeline import exit_status


@contextlib.contextmanager
def refused(name, kind=UsageError, **fields):
    """Expects an error of usage.

    Args:
      name: Its stable name, such as `E-settings-refused`.
      kind: Its class.
      **fields: Other fields; a compiled pattern is searched in the field.
    """
    with pytest.raises(kind) as caught:
        yield caught
    check(caught.value, name=name, **fields)


def check(error, **fields):
    """Asserts the fields of an error; see `refused`."""
    for field, expected in fields.items():
        value = getattr(error, field)
        if isinstance(expected, re.Pattern):
            assert expected.search(value or ""), (field, str(error))
        else:
            assert value == expected, (field, str(error))


def check_command(result, name, *parts):
    """Asserts that a command was refused.

    Args:
      result: The result of click's runner.
      name: The stable name of the error.
      *parts: Parts of the message: values, options, rows.
    """
    assert result.exit_code == exit_status.USAGE, result.output
    message = " ".join(result.stderr.split())
    assert message.endswith(f" [{name}]"), message
    for part in parts:
        assert part in message, message
