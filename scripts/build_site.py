#!/usr/bin/env python3
"""Builds the documentation site from docs/ with Sphinx, and fails at a warning or at a page that loads anything from elsewhere.

  build_site.py [DIRECTORY]      (default: build/site; open its index.html)

Runs with the Python of scripts/setup.sh --tests, which has Sphinx (third_party/pins/docs.txt).
"""
import html.parser
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PREFIX_PYTHON = ROOT / ".deps/python/bin/python3"
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
REMOTE = re.compile(r"(?:https?:)?//", re.I)
REMOTE_IN_CSS = re.compile(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)'\"\s]*", re.I)


class LoadedFiles(html.parser.HTMLParser):
    """What a browser loads for a page: scripts, styles, pictures and frames. Links that a reader follows are none of them."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found.append(dict(attributes).get(LOADING.get(tag)) or "")


def remote_loads(site):
    """Each file of the site that loads something over the network, with the address."""
    for page in sorted(site.rglob("*.html")):
        parser = LoadedFiles()
        parser.feed(page.read_text())
        yield from (f"{page.relative_to(site)}: {address}" for address in parser.found if REMOTE.match(address))
    for style in sorted(site.rglob("*.css")):
        yield from (f"{style.relative_to(site)}: {found}" for found in REMOTE_IN_CSS.findall(style.read_text()))


def main(arguments):
    if PREFIX_PYTHON.exists() and pathlib.Path(sys.prefix).resolve() != PREFIX_PYTHON.parent.parent.resolve():
        os.execv(PREFIX_PYTHON, [PREFIX_PYTHON, __file__, *arguments])
    site = pathlib.Path(arguments[0] if arguments else ROOT / "build/site").absolute()
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "--fresh-env", "--builder", "html",
               "--doctree-dir", str(site / ".doctrees"), str(ROOT / "docs"), str(site)]
    if subprocess.run(command).returncode != 0:
        sys.exit("build_site: the site has the faults above; without Sphinx, scripts/setup.sh --tests installs it")
    remote = list(remote_loads(site))
    if remote:
        sys.exit("\n".join([*remote, "build_site: these files load from elsewhere; the site must work offline"]))
    print(site / "index.html")


if __name__ == "__main__":
    main(sys.argv[1:])
