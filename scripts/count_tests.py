#!/usr/bin/env python3
"""Says in one line what a CTest run passed, failed and skipped, with the reasons: count_tests.py build/release/tests.xml.
The ten slowest tests go to standard error.

CTest writes the file with --output-junit. Each test program ends its output with `cases: N passed, N skipped, N failed`, after a line
`SKIPPED: CASE -- REASON` for each skipped case. A skipped case never counts as passed, nor does a test of which every case was skipped.
"""
import collections
import re
import sys
import xml.etree.ElementTree

SKIPPED_CASE = re.compile(r"^SKIPPED: .* -- (.+)$", re.MULTILINE)
COUNTS = re.compile(r"^cases: (\d+) passed, (\d+) skipped, (\d+) failed$", re.MULTILINE)
SLOWEST = 10


def counted(number, noun):
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tests_of(text):
    return list(xml.etree.ElementTree.fromstring(text).iter("testcase"))


def slowest_of(text):
    """A line for each of the tests that took longest."""
    tests = sorted(tests_of(text), key=lambda test: -float(test.get("time")))[:SLOWEST]
    return [f"{float(test.get('time')):7.1f} s  {test.get('name')}" for test in tests]


def summary_of(text):
    """The line for a JUnit document."""
    passed, num_cases, failed, skipped, in_part = 0, 0, [], [], collections.defaultdict(collections.Counter)
    for test in tests_of(text):
        name, output = test.get("name"), test.findtext("system-out") or ""
        reasons = SKIPPED_CASE.findall(output)
        if test.find("skipped") is not None:
            skipped.append(f"{name}: {' / '.join(dict.fromkeys(reasons)) or test.find('skipped').get('message')}")
        elif test.find("failure") is not None:
            failed.append(name)
        else:
            passed += 1
            num_cases += sum(int(count) for count, _, _ in COUNTS.findall(output))
            for reason in reasons:
                in_part[reason][name] += 1
    line = f"{counted(passed, 'test')} ({counted(num_cases, 'case')}) passed, {len(failed)} failed"
    if failed:
        line += f": {', '.join(failed)}"
    line += f"{';' if failed else ','} {len(skipped)} skipped"
    if skipped:
        line += ": " + "; ".join(skipped)
    if in_part:
        num_skipped = sum(sum(names.values()) for names in in_part.values())
        line += f"; of tests that passed, {counted(num_skipped, 'case')} skipped: " + "; ".join(
            f"{reason} ({', '.join(f'{count} of {name}' for name, count in names.items())})" for reason, names in in_part.items())
    return line


if __name__ == "__main__":
    document = open(sys.argv[1], encoding="utf-8", errors="replace").read()
    print("", "the slowest:", *slowest_of(document), sep="\n", file=sys.stderr)
    print(summary_of(document))
