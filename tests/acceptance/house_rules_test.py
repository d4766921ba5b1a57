"""The checks see what they are there to see."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_layers
import check_links
import check_namespaces
import check_prose
import check_style
import count_tests
import mass
import scenario


def body(lines):
    return "".join(f"  call({i});\n" for i in range(lines))


class Functions(unittest.TestCase):
    def lengths(self, text):
        return [length for _, length in mass.functions(text)]

    def test_a_function_is_measured_from_its_first_line_to_its_brace(self):
        self.assertEqual(self.lengths("namespace a {\nint f(int x,\n      int y) {\n" + body(3) + "}\n}\n"), [6])

    def test_methods_count_each_and_their_class_does_not(self):
        self.assertEqual(self.lengths("class X final : public Y {\n public:\n  void f() {\n" + body(2) + "  }\n  void g() const override {\n  }\n};\n"), [4, 2])

    def test_lambdas_and_loops_belong_to_their_function(self):
        self.assertEqual(self.lengths("void f() {\n  for (int i : x) {\n  }\n  run([&](int y) {\n  });\n}\n"), [6])

    def test_braces_in_texts_and_comments_are_no_braces(self):
        self.assertEqual(self.lengths('void f() {\n  g("{", \'{\', R"(}}\n)");  // {\n  /* { */\n}\n'), [5])

    def test_a_test_case_is_a_function(self):
        self.assertEqual(self.lengths('TEST_CASE("a sentence", "[x]") {\n' + body(61) + "}\n"), [63])


class Words(unittest.TestCase):
    def test_names_that_say_nothing_are_seen(self):
        for name in ("src/core/utils.h", "src/common/text.h", "src/x/misc_functions.cpp", "src/helpers/a.h"):
            self.assertTrue(list(check_style.check_words(name, "")), name)
        self.assertFalse(list(check_style.check_words("src/core/text.h", "")))

    def test_unfinished_work_is_seen(self):
        self.assertTrue(list(check_style.check_words("a.cpp", "int x;  // TO" "DO: y\n")))


class Tree(unittest.TestCase):
    def test_the_files_of_the_tree_are_those_that_git_would_take(self):
        patterns = ["/.git", "/build", "*.pyc", "__pycache__"]
        for name in ("build", "src/__pycache__", "scripts/a.pyc", ".git"):
            self.assertTrue(check_style.is_ignored(name, patterns), name)
        for name in ("src/build", "src/a.cpp", ".gitignore"):
            self.assertFalse(check_style.is_ignored(name, patterns), name)


class Links(unittest.TestCase):
    def test_a_link_that_leads_nowhere_is_seen(self):
        page = check_links.ROOT / "docs/plan.md"
        self.assertEqual(list(check_links.broken_links(page, "[a](images.md) [b](https://pytorch.org) `[c](nowhere.md)`\n")), [])
        self.assertEqual(len(list(check_links.broken_links(page, "[a](nowhere.md)\n[b](images.md#no-such-heading)\n"))), 2)


class Prose(unittest.TestCase):
    def problems(self, name, text):
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / name
        path.write_text(text)
        return list(check_prose.check_file(path))

    def test_a_fragment_is_seen(self):
        self.assertEqual(len(self.problems("a.h", "/// Of the parameter.\nint a;\n/// The parameter.\n/// As it is.\nint b;\n")), 1)

    def test_a_long_sentence_is_seen(self):
        words = "word " * 25
        self.assertEqual(self.problems("a.md", f"{words}.\n\n| {words} {words} |\n```\n{words} {words}\n```\n# {words} {words}\n"), [])
        self.assertEqual(len(self.problems("a.md", f"Short.\n\n- {words}\n  and more. Short again.\n")), 1)
        self.assertEqual(self.problems("a.md", f"{words} `a few more words` [link](a/b.md).\n")[0].split(": ")[1], "a sentence of 27 words")
        self.assertEqual(len(self.problems("a.h", f"/// {words}\n/// more.\nint a;\n")), 1)

    def test_sources_are_checked_too(self):
        self.assertEqual(len(self.problems("a.cpp", "/// Of the parameter.\nint a;\n// Of no interest.\n")), 1)

    def test_an_error_without_its_subject_is_seen(self):
        self.assertEqual(self.problems("a.cpp", 'throw core::Error(path + " is damaged: it ends at byte 3").hint("italic");\n'), [])
        self.assertEqual(len(self.problems("a.cpp", 'throw core::Error(\n    "its axis is " + axis);\n')), 1)
        self.assertEqual(len(self.problems("a.cpp", 'return error.hint("it holds runs");\n')), 1)

    def test_an_error_that_says_cannot_twice_is_seen(self):
        self.assertEqual(self.problems("a.cpp", 'throw core::system_error("open", path.string());\n'), [])
        self.assertEqual(len(self.problems("a.cpp", 'throw core::system_error("cannot open", path.string());\n')), 1)

    def test_the_subject_of_a_commit_is_looked_at(self):
        self.assertEqual(list(check_prose.check_subject("comm: name the rank that failed")), [])
        for subject in ("Name the rank", "comm: " + "x" * 70, "comm: Name the rank"):
            self.assertEqual(len(list(check_prose.check_subject(subject))), 1, subject)


class LibraryNamespaces(unittest.TestCase):
    def problems(self, name, text):
        return list(check_style.check_namespaces(pathlib.Path(name), name, text))

    def test_a_declaration_in_a_librarys_namespace_is_seen(self):
        undeclared = "namespace at::native {\nvoid mkldnn_matmul(const at::Tensor& left);\n}\n"
        self.assertEqual(len(self.problems("src/kernels/product.cpp", undeclared)), 1)
        self.assertEqual(self.problems("src/kernels/product.cpp", "namespace trainctl {\nnamespace {\n}\n}\n"), [])
        self.assertEqual(self.problems("third_party/gloo_headers/gloo/context.h", "namespace c10d {\n}\n"), [])


class Layers(unittest.TestCase):
    GRAPH = {"core": ([], False), "model": (["core"], True), "task": (["core", "model"], True)}

    def problems(self, own, text, torch=True):
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "a.cpp"
        path.write_text(text)
        return list(check_layers.check_file(self.GRAPH, path, own, self.GRAPH[own][0], torch))

    def test_only_dependencies_are_included(self):
        self.assertEqual(self.problems("task", '#include "core/text.h"\n#include "model/model.h"\n#include "task/inner.h"\n'), [])
        self.assertEqual(len(self.problems("model", '#include "task/task.h"\n')), 1)

    def test_inner_headers_stay_inside(self):
        self.assertEqual(len(self.problems("task", '#include "model/materialize.h"\n')), 1)

    def test_torch_stays_where_it_may_be_seen(self):
        self.assertEqual(len(self.problems("core", "#include <ATen/core/Tensor.h>\n", torch=False)), 1)

    def test_a_cycle_is_found(self):
        graph = {"a": (["b"], False), "b": (["a"], False)}
        self.assertIn("a", check_layers.closure(graph, "a"))

    def test_a_cycle_of_sub_folders_is_found(self):
        self.assertIsNone(check_layers.find_cycle({"a/": {"b/": ""}, "b/": {"c.h": ""}, "d.cpp": {"a/": ""}}))
        self.assertEqual(check_layers.find_cycle({"a/": {"b/": ""}, "b/": {"c.h": ""}, "c.h": {"a/": ""}}), ["a/", "b/", "c.h"])


class Namespaces(unittest.TestCase):
    def problems(self, texts):
        types, found = {}, []
        for name, text in texts.items():
            found += check_namespaces.check_file(check_namespaces.ROOT / name, text, types)
        return [*found, *check_namespaces.check_types(types)]

    def test_two_types_of_one_name_are_seen(self):
        one = "namespace trainctl::core {\nstruct Part {\n};\n}  // namespace trainctl::core\n"
        hidden = "namespace trainctl::core {\nnamespace {\nstruct Part {\n};\n}  // namespace\n}  // namespace trainctl::core\n"
        self.assertEqual(self.problems({"src/core/a.h": one, "src/core/b.cpp": hidden, "src/page/c.h": one.replace("core", "page")}), [])
        self.assertRegex(self.problems({"src/core/a.h": one, "src/core/d.h": one})[0], "src/core/d.h:2: trainctl::core::Part is defined in src/core/a.h:2")

    def test_another_folders_namespace_is_seen(self):
        self.assertEqual(self.problems({"src/core/a.cpp": "namespace trainctl::core::inner {\n}  // namespace trainctl::core::inner\n"}), [])
        self.assertEqual(len(self.problems({"src/core/a.cpp": "namespace trainctl::model {\n}  // namespace trainctl::model\n"})), 1)
        self.assertEqual(len(self.problems({"apps/trainctl/engine/a.cpp": "namespace trainctl::cli {\n}  // namespace trainctl::cli\n"})), 1)


class Skips(unittest.TestCase):
    PASSING = "    def test_a(self):\n        pass\n"
    SKIPPED = "    def test_b(self):\n        self.skipTest('no b here')\n"

    def outcome(self, body):
        """The exit code of a file of tests, and its last line."""
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "some_test.py"
        path.write_text("import unittest\n\n\nclass Some(unittest.TestCase):\n" + body)
        result = subprocess.run([sys.executable, scenario.__file__, path], capture_output=True, text=True)
        return result.returncode, result.stdout.splitlines()[-1]

    def test_a_file_of_which_every_test_was_skipped_is_skipped(self):
        self.assertEqual(self.outcome(self.PASSING), (0, "cases: 1 passed, 0 skipped, 0 failed"))
        self.assertEqual(self.outcome(self.PASSING + self.SKIPPED), (0, "cases: 1 passed, 1 skipped, 0 failed"))
        self.assertEqual(self.outcome(self.SKIPPED), (77, "cases: 0 passed, 1 skipped, 0 failed"))
        whole_class = "    @classmethod\n    def setUpClass(cls):\n        raise unittest.SkipTest('nothing here')\n\n" + self.PASSING + self.SKIPPED
        self.assertEqual(self.outcome(whole_class), (77, "cases: 0 passed, 2 skipped, 0 failed"))
        part = "    def test_a(self):\n        with self.subTest('x'):\n            self.skipTest('no x here')\n"
        self.assertEqual(self.outcome(part), (77, "cases: 0 passed, 1 skipped, 0 failed"))

    def test_a_file_without_a_test_or_with_a_hidden_one_fails(self):
        self.assertEqual(self.outcome("    pass\n"), (1, "cases: 0 passed, 0 skipped, 0 failed"))
        self.assertEqual(self.outcome(self.PASSING + self.PASSING)[0], 1)
        self.assertEqual(self.outcome(self.SKIPPED + "    def test_c(self):\n        self.fail()\n"), (1, "cases: 0 passed, 1 skipped, 1 failed"))

    def test_the_last_line_counts_no_skip_as_passed(self):
        report = ('<testsuite><testcase name="one" time="1.5"><system-out>SKIPPED: a: b -- no GPU here\ncases: 5 passed, 1 skipped, 0 failed\n</system-out></testcase>'
                  '<testcase name="two" time="0"><skipped message="SKIP_RETURN_CODE=77"/><system-out>SKIPPED: c -- no Pillow\ncases: 0 passed, 1 skipped, 0 failed\n'
                  '</system-out></testcase><testcase name="three" time="20"><system-out></system-out></testcase>')
        failed = '<testcase name="four" time="3"><failure/><system-out>cases: 1 passed, 0 skipped, 1 failed\n</system-out></testcase>'
        self.assertEqual(count_tests.summary_of(f"{report}</testsuite>"), "2 tests (5 cases) passed, 0 failed, 1 skipped: two: no Pillow; "
                         "of tests that passed, 1 case skipped: no GPU here (1 of one)")
        self.assertTrue(count_tests.summary_of(f"{report}{failed}</testsuite>").startswith("2 tests (5 cases) passed, 1 failed: four; 1 skipped: two"))
        self.assertEqual([line.split()[-1] for line in count_tests.slowest_of(f"{report}{failed}</testsuite>")], ["three", "four", "one", "two"])


if __name__ == "__main__":
    unittest.main()
