"""The results of the checks of a model."""


def find(results, name):
    """Returns the result of a check by its name."""
    return next(result for result in results if result.name == name)


def read_table(result):
    """Returns the rows of the table of a result, as dictionaries by column."""
    table = result.table
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]
