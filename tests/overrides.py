"""Settings as a user types them after `--set`, and their refusals."""

import re

from pipeline.config.recipe import load_config, parse_override
from tests.refusals import refused


def parse(text):
    """Returns the values of `KEY=VALUE; KEY=VALUE` by their keys."""
    return dict(map(parse_override, text.split("; ")))


def check_refused(recipe, text, field, part):
    """Asserts that the last setting is refused, or its section.

    Args:
      recipe: The file that the settings override.
      text: As for `parse`.
      field: A field of the error, such as `allowed`.
      part: A part of its text.
    """
    values = parse(text)
    *_, key = values
    part = re.compile(re.escape(part))
    with refused("E-settings-refused", **{field: part}) as caught:
        load_config(recipe, values)
    setting = caught.value.setting  # the section, if several settings contradict
    assert setting.startswith(key) or key.startswith(setting)
    assert str(recipe) not in str(caught.value)
