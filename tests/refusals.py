"""Expectations of errors by their fields, so that tests do not depend on wording."""

import contextlib
import re

import pytest

from contracts.errors import UsageError


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
