"""The checks see what they are there to see."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_layers
import check_links
import check_namespaces
import check_prose
import check_style


def body(lines):
    return "".join(f"  call({i});\n" for i in range(lines))


class Functions(unittest.TestCase):
    def lengths(self, text):
        return [length for _, length in check_style.functions(text)]

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

    def test_the_subject_of_a_commit_is_looked_at(self):
        self.assertEqual(list(check_prose.check_subject("comm: name the rank that failed")), [])
        for subject in ("Name the rank", "comm: " + "x" * 70, "comm: Name the rank"):
            self.assertEqual(len(list(check_prose.check_subject(subject))), 1, subject)


class Namespaces(unittest.TestCase):
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


if __name__ == "__main__":
    unittest.main()
