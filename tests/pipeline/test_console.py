"""The terminal shows what users wrote."""

import io

import pytest
from rich.padding import Padding
from rich.table import Table
from rich.tree import Tree

from pipeline.console import Console

WRITTEN = "[v1]/row100.csv:100: [/] [bold]:smile:"


def in_table(text):
    table = Table(text)
    table.add_row(text)
    return table


@pytest.mark.parametrize("draw", [str, in_table, Tree, lambda text: Padding(text, 1)])
def test_text_that_looks_like_markup_or_emoji_is_shown_as_it_is(draw):
    console = Console(file=io.StringIO(), width=80)
    console.print(draw(WRITTEN))
    assert WRITTEN in console.file.getvalue()
