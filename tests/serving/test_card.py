"""A model card as HTML: Markdown without raw HTML, pictures and foreign schemes."""

import re

import pytest

from serving import card

TABLE = "| class | rows |\n|---|--:|\n| a\\|b | 1 |\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none <b>known</b>", "<p>none &lt;b&gt;known&lt;/b&gt;</p>\n"),
        ("<div>\n\n**b**", "<p>&lt;div&gt;</p>\n<p><strong>b</strong></p>\n"),
        (r"\*a\* \<b>", "<p>*a* &lt;b&gt;</p>\n"),
        ("```\n    ```\n# a\n```", "<pre><code>    ```\n# a\n</code></pre>\n"),
    ],
)
def test_html_and_escaped_characters_are_text(text, expected):
    assert card.render(text) == expected


def test_picture_is_a_link():
    shown = card.render("![plot](https://a.example/p.png)")
    assert "<img" not in shown
    assert ">plot</a>" in shown


@pytest.mark.parametrize(
    "text",
    [
        "[a](javascript:alert(1))",
        "[a](data:text/html,b)",
        "[a](file:///etc/passwd)",
        "[a](/v1/models/m)",
        "[a]\n\n[a]: javascript:alert(1)",
        "<javascript:alert(1)>",
        "javascript:alert(1) README.md a@b.example",
    ],
)
def test_only_addresses_of_the_web_are_links(text):
    assert "href" not in card.render(text)


@pytest.mark.parametrize(
    "text", ["[a](https://a.example)", "<https://a.example>", "see https://a.example."]
)
def test_link_sends_no_referrer(text):
    assert '<a href="https://a.example" rel="noreferrer">' in card.render(text)


def test_lines_with_only_a_comment_are_not_shown():
    text = f"<!-- person: use -->\nFor all.\n<!-- end -->\n\n{TABLE}<!-- a -->\n"
    shown = card.render(text)
    assert shown.startswith("<p>For all.</p>\n<div")
    assert "--" not in shown
    assert "&lt;!-- a --&gt;" in card.render("```\n<!-- a -->\n```")


def test_tables_are_numbered_regions_without_styles():
    shown = card.render(f"{TABLE}\n{TABLE}")
    assert re.findall('aria-label="(.*?)"', shown) == ["Table 1", "Table 2"]
    assert shown.count('<th scope="col">') == 4
    assert shown.count("<td>a|b</td>\n<td>1</td>") == 2


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_metadata_are_shown_as_they_are(newline):
    text = "---\nlicense: <mit>\n\ntags: [a]\n---\n# A\n".replace("\n", newline)
    assert card.render(text) == (
        "<details><summary>Metadata</summary>"
        "<pre>license: &lt;mit&gt;\n\ntags: [a]\n</pre></details>\n<h1>A</h1>\n"
    )


def test_metadata_without_an_end_are_markdown():
    assert card.render("---\na: b") == "<hr />\n<p>a: b</p>\n"


def test_text_between_comments_is_shown():
    shown = card.render("<!-- a --> **not for production** <!-- b -->\n")
    assert "<strong>not for production</strong>" in shown


def test_large_card_is_shown_as_it_is():
    large = "[" * (1 << 17)
    assert card.render(large) == f"<pre>{large}</pre>\n"
