"""Pages as a headless browser shows them. Chromium isn't installed by the set-up: without it, tests of what is drawn are skipped."""
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile


def find_browser():
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


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


def rendered(page):
    """(tables, facts) of the page as drawn; fails where its script did."""
    with tempfile.TemporaryDirectory(prefix="trainctl-browser-") as profile:
        command = [find_browser(), "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--virtual-time-budget=5000",
                   "--window-size=1400,1000", "--dump-dom", pathlib.Path(page).absolute().as_uri()]
        text = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    document = _Document()
    document.feed(text)
    assert "failure" not in document.ids, re.search(r'id="failure">([^<]*)', text)[1]
    return document.tables, document.facts
