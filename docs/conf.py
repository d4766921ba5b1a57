"""Settings of the documentation site. `scripts/build_site.py` builds it with Sphinx from the Markdown files of this directory."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent

project = "trainctl"
author = "The trainctl contributors"
copyright = "The trainctl contributors, Apache-2.0"  # noqa: A001 (Sphinx asks for this name)
release = re.search(r'kVersion = "([^"]+)"', (ROOT / "src/core/version.h").read_text())[1]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
nitpicky = True  # a reference without a target is a warning, and the build fails at a warning

myst_heading_anchors = 6  # anchors as GitHub makes them, so that a link works in both places
myst_enable_extensions = ["colon_fence"]

html_theme = "furo"
html_title = f"trainctl {release}"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
pygments_style = "tango"
pygments_dark_style = "monokai"
