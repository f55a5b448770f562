"""Redacts rows by a user's function before people see them."""

from __future__ import annotations

import json
import os
import pkgutil
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from contracts import fingerprint, user_modules, wording
from contracts.errors import UsageError

REDACTED = "[redacted]"
"""Replaces a text that is not shown."""


class Redaction:
    """Shows the texts of rows as a user's function returns them.

    Args:
      function: Gets the texts of a row by column. It returns the row to show, or None
        to show none of its texts.
    """

    def __init__(self, function: Callable[[dict[str, str]], Any]) -> None:
        self._function = function
        self._errors: Counter[str] = Counter()

    @classmethod
    def parse(cls, text: str, folder: str) -> Redaction | None:
        """Returns the redaction of a component's parameter.

        Args:
          text: JSON of `function`, as in `import_function`, and `directory`, which may
            be remote; `null` without a function.
          folder: Where the files of a remote directory are copied to.

        Returns:
          The redaction; None without a function.

        Raises:
          UsageError: The function cannot be imported.
        """
        content = json.loads(text)
        if content is None:
            return None
        target = os.path.join(folder, "redact")
        directory = user_modules.fetch(content["directory"], target)
        return cls(import_function(content["function"], directory))

    def redact_row(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Returns the texts of a row as they may be shown.

        A column that the function leaves out is shown as `REDACTED`, as are all columns
        if it returns None or fails.

        Args:
          texts: The texts by column.
        """
        hidden = dict.fromkeys(texts, REDACTED)
        try:
            row = self._function(dict(texts))
            if row is None:
                return hidden
            shown = {column: row.get(column, REDACTED) for column in texts}
            for text in shown.values():
                text.encode()  # fails unless it is a text that a file can have
        except (Exception, SystemExit) as error:  # noqa: BLE001 (of a user's code)
            # Without the message, which may quote the text.
            self._errors[type(error).__name__] += 1
            return hidden
        return shown

    @property
    def note(self) -> str:
        """The errors of the function; empty if there were none."""
        if not self._errors:
            return ""
        errors = ", ".join(f"{name} {count}" for name, count in self._errors.items())
        rows = wording.count(self._errors.total(), "row")
        return f"redact failed for {rows}, whose texts are not shown: {errors}"


def import_function(path: str, directory: str | None = None) -> Callable[..., Any]:
    """Imports a user's function.

    Args:
      path: `MODULE:FUNCTION`.
      directory: May contain the file of the module. None if it is installed, or on
        PYTHONPATH.

    Raises:
      UsageError: It cannot be imported, or it is not a function.
    """
    module, colon, name = path.partition(":")
    if not module or not colon or not name:
        raise UsageError("redact", path, "MODULE:FUNCTION", name="E-redact-not-allowed")
    file = fingerprint.find_file(module, directory) if directory else None
    if file:
        user_modules.refuse_name("redact", module)
    try:
        if file:
            user_modules.load_file(module, file, str(directory))
        function = pkgutil.resolve_name(path)
    except Exception as error:  # importing a module runs its code
        raise UsageError(
            "redact",
            f"{path} cannot be imported: {type(error).__name__}: {error}",
            advice=f"correct {file}"
            if file
            else "install the module, or add its directory to PYTHONPATH",
            name="E-redact-not-allowed",
        ) from error
    if not callable(function):
        raise UsageError("redact", path, "a function", name="E-redact-not-allowed")
    return function
