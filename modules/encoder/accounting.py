"""The account of every tensor: what is missing, unexpected, or of another shape."""

from __future__ import annotations

from collections.abc import Mapping

from modules.encoder.directory import EncoderError

Shape = tuple[int, ...]


def check_tensors(
    path: str, found: Mapping[str, Shape], expected: Mapping[str, Shape]
) -> None:
    """Compares the tensors that are stored with those that the encoder takes.

    Args:
      path: Where they are stored, for the message.
      found: Shape of each stored tensor by name.
      expected: Shape of each tensor that the encoder takes, by name.

    Raises:
      EncoderError: They differ; all that is missing, unexpected or of another shape is
        named.
    """
    reshaped = [
        f"{name} has shape {found[name]} in place of {expected[name]}"
        for name in sorted(found.keys() & expected.keys())
        if found[name] != expected[name]
    ]
    problems = [
        f"{what} {', '.join(names)}"
        for what, names in (
            ("missing", sorted(expected.keys() - found.keys())),
            ("unexpected", sorted(found.keys() - expected.keys())),
        )
        if names
    ]
    if problems or reshaped:
        raise EncoderError(f"{path}: {'; '.join(problems + reshaped)}")
