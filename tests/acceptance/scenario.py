"""Runs a file of unittest tests for CTest: scenario.py FILE_test.py [NAME…].

Prints each skipped test with its reason, and counts those that passed, were skipped or failed, as every C++ test program does. Exit code 0:
some passed and none failed; 77: every test was skipped; 1: a test failed, there is no test, or a name hides another of the same name.
"""
import ast
import collections
import importlib.util
import pathlib
import sys
import unittest

EXIT_FAILED = 1
EXIT_SKIPPED = 77


def hidden_names(text):
    """Classes of a file, and methods of a class, of which only the last with its name would run."""
    tree = ast.parse(text)
    for scope in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
        counts = collections.Counter(node.name for node in scope.body if isinstance(node, (ast.ClassDef, ast.FunctionDef)))
        yield from (f"{getattr(scope, 'name', 'the file')} has {count} definitions of {name}" for name, count in counts.items() if count > 1)


class CountingResult(unittest.TextTestResult):
    """Also counts the tests that passed: a test with a skipped part is none of them."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.num_passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.num_passed += 1


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def run(path, names=()):
    """Runs the tests of a file, or those named, and returns the exit code."""
    sys.path.insert(0, str(path.parent))
    module = load(path)
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    num_tests = suite.countTestCases()
    result = unittest.TextTestRunner(resultclass=CountingResult).run(suite)
    problems = list(hidden_names(path.read_text()))
    if num_tests == 0:
        problems.append("the file has no test")
    for test, reason in result.skipped:
        print(f"SKIPPED: {test.id()} -- {' '.join(reason.split())}")
    for problem in problems:
        print(f"FAILED: {path.name}: {problem}")
    num_skipped = num_tests - result.num_passed if result.wasSuccessful() else len(result.skipped)
    num_failed = num_tests - result.num_passed - num_skipped
    print(f"cases: {result.num_passed} passed, {num_skipped} skipped, {num_failed} failed", flush=True)
    if problems or not result.wasSuccessful():
        return EXIT_FAILED
    return EXIT_SKIPPED if result.num_passed == 0 else 0


if __name__ == "__main__":
    sys.exit(run(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]))
