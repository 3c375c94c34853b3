"""Markdown and HTML of the same blocks."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from reproduce.report.document import Bullets, Code, Heading, Link, Paragraph, Picture, Table
from reproduce.report.html import render_html
from reproduce.report.markdown import escape, render_markdown

SVG = (
    '<?xml version="1.0"?>\n<svg width="1pt"><defs><path id="a"/></defs>'
    '<use xlink:href="#a"/><g clip-path="url(#a)"/></svg>\n'
)
TABLE = Table(
    "Goals <of> B_crit", ("goal", "a|b"), (("error 0.1", "21 [18, 25]"), ("<script>", "*star*"), ("<i>" * 12, ""))
)


@pytest.fixture
def page(tmp_path: Path) -> str:
    (tmp_path / "mnist" / "mini").mkdir(parents=True)
    (tmp_path / "mnist" / "mini" / "fig7.svg").write_text(SVG)
    (tmp_path / "fig4.svg").write_text(SVG)
    blocks = [
        Heading(1, "Title & more"),
        Paragraph("B_crit & S_min <b>"),
        Bullets(("one", "two")),
        Code("run <this>"),
        TABLE,
        Table("Folded", ("a",), (("1",),), folded=True),
        Picture(Path("mnist/mini/fig7"), "described", "caption"),
        Picture(Path("fig4"), 'a "quoted" one', "caption"),
    ]
    return render_html(blocks, tmp_path)


def test_html_escapes_text_and_sets_symbols(page):
    assert "B<sub>crit</sub> &amp; S<sub>min</sub> &lt;b&gt;" in page
    assert '<td class="short">&lt;script&gt;</td>' in page
    assert "<title>Title &amp; more</title>" in page
    assert "<td>" + "&lt;i&gt;" * 12 + "</td>" in page  # a cell that is long enough to wrap
    assert "run &lt;this&gt;" in page


def test_html_fetches_nothing(page):
    for trace in ("http://", "https://", "src=", "<link", "@import"):
        assert trace not in page
    assert "prefers-color-scheme" in page
    assert "addEventListener" in page


def test_ids_of_two_figures_do_not_clash(page):
    assert page.count('id="mnist-mini-fig7-a"') == 1
    assert page.count('id="fig4-a"') == 1
    assert 'xlink:href="#fig4-a"' in page
    assert "url(#mnist-mini-fig7-a)" in page
    assert 'aria-label="a &quot;quoted&quot; one"' in page
    assert "<?xml" not in page


def test_html_is_balanced(page):
    class Balance(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open = []

        def handle_starttag(self, tag, attrs):
            if tag != "meta":
                self.open.append(tag)

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

    parser = Balance()
    parser.feed(page)
    assert parser.open == []


def test_markdown_table_and_escapes():
    text = render_markdown([TABLE])
    assert text.splitlines() == [
        "**Goals &lt;of> B_crit**",
        "",
        "| goal | a\\|b |",
        "| --- | --- |",
        "| error 0.1 | 21 [18, 25] |",
        "| &lt;script> | \\*star\\* |",
        "| " + "&lt;i>" * 12 + " |  |",
    ]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("B_crit of svhn_vae", "B_crit of svhn_vae"),
        ("_private", "\\_private"),
        ("[a](http://b)", "[a]\\(http://b)"),
        ("two\nlines", "two lines"),
        ("`code`", "\\`code\\`"),
    ],
)
def test_markdown_escapes_only_what_would_act(text, escaped):
    assert escape(text) == escaped


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("MNIST (mnist), mini scale", "mnist-mnist-mini-scale"),
        ("Noise scale against critical batch size (Fig. 4)", "noise-scale-against-critical-batch-size-fig-4"),
        ("my_task, mini scale", "my_task-mini-scale"),
        ("Self-play: 5 & 5", "self-play-5--5"),
    ],
)
def test_anchors_are_those_of_github(heading, anchor):
    assert Heading(2, heading).anchor == anchor
    assert Heading(2, heading).link("there") == Link("there", f"#{anchor}")


def test_links_in_both_documents(tmp_path):
    file = Link("B_crit <of> it", "mnist/mini/a&b.json")
    blocks = [Heading(2, "A b"), Bullets((Heading(2, "A b").link(),)), Paragraph(file), Table("t", ("a",), ((file,),))]
    markdown = render_markdown(blocks)
    assert "- [A b](#a-b)\n" in markdown
    assert markdown.count("[B_crit &lt;of> it](mnist/mini/a&b.json)") == 2
    page = render_html(blocks, tmp_path)
    assert '<h2 id="a-b">A b</h2>\n<nav><ul>\n<li><a href="#a-b">A b</a></li>\n</ul></nav>' in page
    link = '<a href="mnist/mini/a&amp;b.json">B<sub>crit</sub> &lt;of&gt; it</a>'
    assert f"<p>{link}</p>" in page
    assert f'<td class="short">{link}</td>' in page


def test_markdown_points_to_the_png():
    text = render_markdown([Picture(Path("mnist/mini/fig7"), "described", "caption")])
    assert text == "![described](mnist/mini/fig7.png)\n\ncaption\n"
