"""The built site in a browser: it fits, it is found, and it needs nothing from the network.

`python -m sphinx docs docs/_build/html` builds it, and `python -m pytest -m browser tests/house`
looks at it with Playwright and an installed Chromium. `SCREENSHOTS=folder` keeps the pictures.
"""

import functools
import http.server
import importlib.util
import os
import shutil
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("SITE", ROOT / "docs" / "_build" / "html"))
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run"
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
# Pages that are looked at in both modes and at both widths: tables, formulas, pictures, code.
SEEN = ("index", "metrics", "losses", "mathematics", "gallery", "which", "comparison", "interop",
        "reference/metrics", "reference/generated/jaxrank.ndcg")  # fmt: skip
# The page that a search should lead to.
FIRST_HITS = {
  "ndcg": "reference/generated/jaxrank.ndcg.html",
  "average precision": "reference/generated/jaxrank.average_precision.html",
  "temperature": "temperature.html",
  "nan": "troubleshooting.html",
  "ties": "conventions.html",
}


class Quiet(http.server.SimpleHTTPRequestHandler):
  """A server without a log."""

  def log_message(self, *arguments):
    """Says nothing."""


@pytest.fixture(scope="module")
def address():
  """Where the site is served."""
  assert (SITE / "index.html").exists(), f"{SITE} has no site; run python -m sphinx docs {SITE}"
  handler = functools.partial(Quiet, directory=SITE)
  with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
  """Chromium, as the system has it."""
  api = pytest.importorskip("playwright.sync_api")
  found = next(filter(None, map(shutil.which, BROWSERS)), None)
  if not found:
    pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)}")
  with api.sync_playwright() as play:
    opened = play.chromium.launch(executable_path=found, args=OPTIONS.split())
    yield opened
    opened.close()


@pytest.fixture
def page(browser, address, request):
  """A tab, whose requests all go to the site."""
  scheme, size = getattr(request, "param", ("light", WIDE))
  context = browser.new_context(color_scheme=scheme, viewport=size, base_url=address)
  tab = context.new_page()
  elsewhere = []
  tab.on("request", lambda x: elsewhere.append(x.url) if not x.url.startswith(address) else None)
  yield tab
  context.close()
  assert not [url for url in elsewhere if not url.startswith("data:")]


def names():
  """The pages of the sidebar, and the reference."""
  spec = importlib.util.spec_from_file_location("navigation", ROOT / "docs" / "navigation.py")
  navigation = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(navigation)
  groups = navigation.GROUPS.values()
  listed = [page for group in groups for at in group.items() for page in (at[0], *at[1])]
  return [*dict.fromkeys((*listed, *SEEN))]


@pytest.mark.parametrize("page", [("light", WIDE), ("light", PHONE)], indirect=True)
def test_no_page_is_wider_than_the_screen(page):
  wide = []
  for name in names():
    page.goto(f"/{name}.html")
    if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
      wide.append(name)
  assert not wide


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_pages_can_be_looked_at(browser, address, scheme, size, tmp_path):
  folder = Path(os.environ.get("SCREENSHOTS", tmp_path))
  context = browser.new_context(color_scheme=scheme, viewport=size, base_url=address)
  tab = context.new_page()
  for name in SEEN:
    tab.goto(f"/{name}.html")
    path = folder / f"{name.replace('/', '-')}-{scheme}-{size['width']}.png"
    tab.screenshot(path=path)
    assert path.stat().st_size > 10_000
    broken = "[...document.images].filter(x => x.complete && !x.naturalWidth).map(x => x.src)"
    assert not tab.evaluate(broken)
  context.close()


def test_the_first_screen_has_a_picture_an_install_line_and_ten_lines_of_code(page):
  page.goto("/index.html")
  picture = page.locator("article img").first.bounding_box()
  blocks = page.locator("article div.highlight pre")
  install, code = blocks.nth(0), blocks.nth(1)
  assert "pip install" in install.inner_text()
  assert code.inner_text().strip().count("\n") >= 9
  for box in (picture, install.bounding_box(), code.bounding_box()):
    assert box["y"] + box["height"] <= WIDE["height"]


def test_links_of_the_sidebar_lead_to_pages(page):
  page.goto("/index.html")
  links = page.locator(".sidebar-tree a.reference")
  targets = {links.nth(i).evaluate("x => x.href") for i in range(links.count())}
  assert len(targets) >= 40
  for target in targets:
    assert page.goto(target).ok, target
    assert page.locator("article h1").count() == 1, target


def test_the_sidebar_is_short_and_closed(page):
  page.goto("/index.html")
  links = page.locator(".sidebar-tree a.reference")
  shown = [x for x in map(links.nth, range(links.count())) if x.is_visible()]
  assert len(shown) <= 15


@pytest.mark.parametrize("query", FIRST_HITS)
def test_a_search_finds_what_is_wanted_first(page, query):
  page.goto(f"/search.html?q={query}")
  first = page.locator("#search-results ul.search li a").first
  first.wait_for(timeout=20_000)
  assert first.get_attribute("href").partition("#")[0] == FIRST_HITS[query]
