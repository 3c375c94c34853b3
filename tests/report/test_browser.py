"""The page in a browser: it is drawn, sorted and pointed at as a reader would."""

import json

import pytest
from chromium import Page, find_chromium
from synthetic import (
    bounded_record,
    comparison_record,
    line_search_record,
    write_line_search,
    write_sweep,
)

from reproduce.report import write_report

PROGRAM = find_chromium()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs chromium or chrome on PATH")
LONG_NAME = "of_a_quantity_with_a_long_name"  # its link is wider than a phone
PHONE, DESKTOP = (390, 844), (1280, 900)  # CSS pixels


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report with every kind of figure but curves, open in a window of desktop size."""
    folder = tmp_path_factory.mktemp("browser")
    sweep = write_sweep(folder, bounded_record(), curves=False)
    write_line_search(sweep, line_search_record())
    record = comparison_record(comparison=LONG_NAME, unit="image")
    (sweep / f"comparison_{LONG_NAME}.json").write_text(json.dumps(record))
    write_report(folder)
    page = Page(PROGRAM, folder / "profile")
    page.open((folder / "report.html").as_uri(), *DESKTOP)
    yield page
    page.close()


@pytest.fixture
def phone(page):
    page.resize(*PHONE)
    yield page
    page.resize(*DESKTOP)


def figure(name: str) -> str:
    """JavaScript for the SVG of a figure, found by the ids that are its own."""
    return f"document.querySelector('figure [id^={name}-]').closest('svg')"


def tip(figure_name: str, start: str) -> str:
    """JavaScript for the first mark of a figure whose tip starts so."""
    return f"[...{figure(figure_name)}.querySelectorAll('.tip')].find((it) => it.dataset.tip.startsWith('{start}'))"


def shown(page: Page) -> str | None:
    return page.evaluate("document.getElementById('tip').hidden ? null : document.getElementById('tip').innerText")


def test_no_script_fails(page):
    # Table 1 twice with 11 columns, provenance 5, claims 3 and 5, goals 8, line search 11 and 7, comparison 5, points 7
    assert page.evaluate("document.querySelectorAll('th button').length") == 73
    assert page.errors == []


def test_every_figure_is_drawn(page):
    boxes = page.evaluate(
        "[...document.querySelectorAll('figure svg')].map((it) => it.getBoundingClientRect())"
        ".map((box) => [box.width, box.height])"
    )
    assert len(boxes) == 1 + 3 + 2  # Fig. 4, those of the sweep, Fig. 5 and the comparison
    assert all(width > 400 and height > 300 for width, height in boxes)


def test_a_click_on_a_heading_sorts_by_number(page):
    table = "[...document.querySelectorAll('#svhn-svhn-mini-scale ~ .table')][0]"
    column = 3
    values = f"[...{table}.querySelectorAll('tbody tr')].map((it) => it.cells[{column}].textContent)"
    missing = ["not measured"] * 2  # the first and the last goal's
    # S_min B_crit: 25.18 * 87.68, 42.28 * 128.1, 70.99 * 187.3, 119.2 * 273.7
    ascending = ["2,210", "5,420", "13,300", "32,600"]
    page.click(f"{table}.querySelectorAll('th button')[{column}]")
    assert page.evaluate(values) == ascending + missing
    page.click(f"{table}.querySelectorAll('th button')[{column}]")
    assert page.evaluate(values) == ascending[::-1] + missing
    page.click(f"{table}.querySelectorAll('th button')[{column}]")
    assert page.evaluate(values) == ascending + missing


def test_pointing_at_a_mark_shows_its_numbers(page):
    page.move_to(tip("fig4", "SVHN, mini scale, the run"))
    assert shown(page) == "SVHN, mini scale, the run\nB_crit at least 300 images\nB_simple 1,500 [1,360, 1,650] images"
    page.move_to("document.querySelector('h1')")
    assert shown(page) is None
    page.move_to(tip("svhn-mini-fig7", "B_crit at most 12 images"))
    assert shown(page) == "B_crit at most 12 images\ntrain error 0.5"


def test_the_nearest_of_close_marks_is_shown(page):
    # Goals share learning rates, a few pixels apart: closer than the circles are wide.
    for goal in ("0.5", "0.3", "0.2"):
        page.move_to(tip("svhn-mini-learning-rate", f"train error {goal}\\nbatch size 64\\n"))
        assert shown(page).startswith(f"train error {goal}\nbatch size 64\n")


def test_arrow_keys_step_through_a_figures_marks(page):
    page.evaluate(f"{figure('fig4')}.focus()")
    page.press("ArrowLeft")
    assert shown(page) == "SVHN, published\nB_crit 500\nB_simple 4,000"  # drawn last
    page.press("ArrowRight")
    first = shown(page)
    page.press("ArrowRight")
    assert shown(page) != first
    page.press("ArrowLeft")
    assert shown(page) == first
    page.press("Escape")
    assert shown(page) is None


def test_a_page_on_a_phone_does_not_scroll_sideways(phone):
    assert phone.evaluate("innerWidth") == PHONE[0]
    assert phone.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_tips_on_a_phone_stay_inside_the_window(phone):
    svg = figure("svhn-mini-tradeoff")
    phone.evaluate(f"{svg}.focus()")
    # The first mark is far left in a figure that is scrolled to the right, and the last one the other way round: each
    # comes into sight just inside the window's edge, and half of its tip would be outside.
    for key, scrolled in (("ArrowRight", 1_000), ("ArrowLeft", 0)):
        phone.evaluate(f"{svg}.parentElement.scrollLeft = {scrolled}")
        phone.press(key)
        left, right = phone.evaluate(
            "(({ left, right }) => [left, right])(document.getElementById('tip').getBoundingClientRect())"
        )
        assert 0 <= left < right <= PHONE[0]
