"""The documentation site: it builds without a warning, has every page in its navigation, and works offline."""
import pathlib
import subprocess
import sys
import unittest

from trainctl_process import ROOT, temporary_directory

sys.path.insert(0, str(ROOT / "scripts"))
import build_site  # noqa: E402 (a script of this tree)


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = pathlib.Path(cls.enterClassContext(temporary_directory()))
        cls.built = subprocess.run([sys.executable, ROOT / "scripts/build_site.py", cls.site], capture_output=True, text=True)

    def test_it_builds_without_a_warning(self):
        self.assertEqual(self.built.returncode, 0, self.built.stdout + self.built.stderr)
        self.assertEqual(self.built.stderr, "")

    def test_every_page_of_docs_is_a_page_of_the_site_with_a_navigation(self):
        pages = [path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")]
        self.assertGreater(len(pages), 60)
        index = (self.site / "index.html").read_text()
        for page in pages:
            html = (self.site / f"{page}.html").read_text()
            self.assertIn("sidebar-tree", html, page)
            if page.parts[0] != "decisions" and page.name != "index":
                self.assertIn(f'href="{page}.html"', index)

    def test_a_page_that_loads_from_elsewhere_is_noticed(self):
        directory = pathlib.Path(self.enterContext(temporary_directory()))
        (directory / "x.html").write_text('<link rel="stylesheet" href="https://example.org/a.css"><a href="https://example.org">read</a>')
        (directory / "x.css").write_text("@import '//example.org/b.css'; a { background: url(c.png) }")
        self.assertEqual(list(build_site.remote_loads(directory)), ["x.html: https://example.org/a.css", "x.css: @import '//example.org/b.css"])

    def test_a_link_without_a_target_fails_the_build(self):
        directory = pathlib.Path(self.enterContext(temporary_directory()))
        (directory / "conf.py").write_text("extensions = ['myst_parser']\nsource_suffix = {'.md': 'markdown'}\n")
        (directory / "index.md").write_text("# A page\n\n[nowhere](absent.md)\n")
        build = subprocess.run([sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", directory, directory / "out"],
                               capture_output=True, text=True)
        self.assertNotEqual(build.returncode, 0)
        self.assertIn("absent.md", build.stderr)


if __name__ == "__main__":
    unittest.main()
