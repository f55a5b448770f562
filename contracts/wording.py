"""How messages write counts."""


def count(number: float, noun: str, plural: str | None = None) -> str:
    """Returns a number with its noun: `1 row`, `1,200 rows`.

    Args:
      number: The number, which is rounded to a whole one.
      noun: The noun for one.
      plural: The noun for any other number. None appends an `s`.
    """
    whole = round(number)
    return f"{whole:,} {noun if whole == 1 else plural or noun + 's'}"
