"""Pages as a headless browser shows them. Chromium isn't installed by the set-up: without it, tests of what is drawn are skipped."""
import html
import html.parser
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from waits import PATIENCE_S


def find_browser():
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


def find_axe():
    """axe-core, which looks for what hinders people with a disability: the file that AXE names, or the one in Python's axe-playwright-python."""
    if "AXE" in os.environ:
        return pathlib.Path(os.environ["AXE"])
    package = importlib.util.find_spec("axe_playwright_python")
    return pathlib.Path(package.origin).parent / "axe.min.js" if package else None


def embedded_data(page):
    """The JSON that a page's scripts draw."""
    match = re.search(r'<script id="data" type="application/json">(.*?)</script>', pathlib.Path(page).read_text(), re.S)
    return json.loads(match[1])


class _Document(html.parser.HTMLParser):
    """Tables and facts by their data-name: rows of (data-value, text); and the ids that occur."""

    def __init__(self):
        super().__init__()
        self.tables, self.facts, self.ids = {}, {}, set()
        self._rows, self._cell, self._fact = None, None, None

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.add(attributes.get("id"))
        if tag == "table" and "data-name" in attributes:
            self._rows = self.tables.setdefault(attributes["data-name"], [])
        elif tag == "tr" and self._rows is not None:
            self._rows.append([])
        elif tag == "td" and self._rows is not None:
            self._cell = [attributes.get("data-value"), ""]
        elif tag == "dd" and "data-name" in attributes:
            self.facts[attributes["data-name"]] = attributes.get("data-value")

    def handle_data(self, data):
        if self._cell is not None:
            self._cell[1] += data

    def handle_endtag(self, tag):
        if tag == "td" and self._cell is not None:
            self._rows[-1].append(tuple(self._cell))
            self._cell = None
        elif tag == "table" and self._rows is not None:
            self._rows[:] = [row for row in self._rows if row]
            self._rows = None


def _drawn(page, width=1400):
    """The text of the page after its scripts have run; fails where one of them did."""
    with tempfile.TemporaryDirectory(prefix="trainctl-browser-") as profile:
        command = [find_browser(), "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--virtual-time-budget=20000",
                   f"--window-size={width},1000", "--dump-dom", pathlib.Path(page).absolute().as_uri()]
        text = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    failure = re.search(r'id="failure">([^<]*)', text)
    assert failure is None, failure[1]
    return text


def rendered(page):
    """(tables, facts) of the page as drawn; fails where its script did."""
    document = _Document()
    document.feed(_drawn(page))
    return document.tables, document.facts


_LOOK = """<script>{axe}</script><script>
addEventListener("load", () => setTimeout(() => axe.run(document, {{resultTypes: ["violations"]}}).then(found => {{
  const node = document.createElement("pre");
  node.id = "axe-found";
  node.textContent = JSON.stringify(found.violations.map(one => [one.impact, one.id, one.nodes.slice(0, 5).map(each => each.target.join(" ") + ": " + each.failureSummary)]));
  document.body.replaceChildren(node);
}}), 100));
</script></body>"""


def violations(page, scheme="light", width=1400):
    """What axe-core finds in the page in this color scheme: [impact, rule, [where and why, …]]."""
    text = pathlib.Path(page).read_text()
    text = text.replace("@media (prefers-color-scheme: dark)", "@media all" if scheme == "dark" else "@media not all").replace("color-scheme: light dark", f"color-scheme: {scheme}")
    text = text.replace("</body>", _LOOK.format(axe=find_axe().read_text()))
    with tempfile.TemporaryDirectory(prefix="trainctl-axe-") as directory:
        copy = pathlib.Path(directory) / "page.html"
        copy.write_text(text)
        found = re.search(r'<pre id="axe-found">(.*?)</pre>', _drawn(copy, width), re.S)
    assert found is not None, "axe-core did not end"
    return json.loads(html.unescape(found[1]))
