#!/usr/bin/env python3
"""What transformers' jinja2 makes of chat templates, for tests/chat_template.

  chat_templates.py published FILE DIRECTORY...   every .jinja file below the directories, with several conversations
  chat_templates.py jinja2 FILE DIRECTORY         the templates of Jinja2's own tests, in the sources below the directory
  chat_templates.py snippets FILE                 one template for each feature of the language
  chat_templates.py generated FILE COUNT          templates made by chance, the same for the same count

Writes a list of {name, template, variables, expected, error}: expected is {text, spans}, or null if Python raises.
"""
import ast
import datetime
import json
import pathlib
import random
import sys

try:
    from transformers.utils import chat_template_utils
except ImportError:
    sys.exit(77)

from chat_snippets import SNIPPETS, VARIABLES


class Today(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


chat_template_utils.datetime = Today

CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 3}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather's \"forecast\" <b>",
                                           "parameters": {"type": "object", "required": ["city"], "properties": {
                                               "city": {"type": "string", "description": "A city"},
                                               "days": {"type": "integer", "enum": [1, 2, 3]}}}}}]
USER, ASSISTANT = "user", "assistant"


def said(role, content, **more):
    return {"role": role, "content": content, **more}


CONVERSATIONS = {
    "one turn": [said(USER, "Hello, who are you?"), said(ASSISTANT, "I'm a model.")],
    "question": [said(USER, "Hello?")],
    "system": [said("system", "  Be brief. \n"), said(USER, "1+1?"), said(ASSISTANT, " 2 "), said(USER, "Sure?"), said(ASSISTANT, "Yes.\n")],
    "accents": [said(USER, "Grüezi 你好 🙂"), said(ASSISTANT, "Ça va? \"quoted\" 'single' <tag> \\n")],
    "thinking": [said(USER, "Why?"), said(ASSISTANT, "<think>\nhm\n</think>\n\nBecause.", reasoning_content="hm"), said(USER, "And?"),
                 said(ASSISTANT, "<think>more</think>So.")],
    "reasoning": [said(USER, "Why?"), said(ASSISTANT, "Because.", reasoning_content="let me see", thinking="let me see")],
    "parts": [said(USER, [{"type": "text", "text": "Look"}, {"type": "image"}]), said(ASSISTANT, [{"type": "text", "text": "Fine."}])],
    "tool": [said(USER, "Weather?"), said(ASSISTANT, "", tool_calls=[CALL]), said("tool", "sunny", name="weather", tool_call_id="abcdefghi"),
             said(ASSISTANT, "It is sunny.")],
    "numbered tool": [said(USER, "Weather?"), said(ASSISTANT, None, tool_calls=[{**CALL, "id": "abcdefghi"}]),
                      said("tool", "{\"a\": 1}", name="weather", tool_call_id="abcdefghi"), said(ASSISTANT, "Sunny.")],
    "wrong order": [said(ASSISTANT, "I begin."), said(ASSISTANT, "Again."), said(USER, "Hm."), said("critic", "No.")],
    "empty": [said(USER, ""), said(ASSISTANT, "")],
    "long": [said(USER if i % 2 == 0 else ASSISTANT, f"turn {i}\n" * i) for i in range(8)],
}
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def rendered(template, variables):
    """{text, spans} or null, and the error: what render_jinja_template does for one conversation."""
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
        blocks, spans = [], []
        with compiled.environment.activate_tracker(blocks, spans):
            for block in compiled.generate(**variables):
                blocks.append(block)
        return {"text": "".join(blocks), "spans": [list(span) for span in spans]}, ""
    except Exception as error:  # whatever a template can raise
        return None, f"{type(error).__name__}: {error}"


def case(name, template, variables):
    expected, error = rendered(template, variables)
    return {"name": name, "template": template, "variables": variables, "expected": expected, "error": error}


def published(directories):
    for directory in directories:
        for path in sorted(pathlib.Path(directory).rglob("*.jinja")):
            template = path.read_text()
            for name, messages in CONVERSATIONS.items():
                for more in ({}, {"tools": TOOLS}, {"enable_thinking": False}, {"documents": [{"title": "A", "text": "b"}]}):
                    for prompt in (False, True):
                        if (more and (prompt or name not in ("one turn", "tool"))) or (prompt and name in ("long", "empty")):
                            continue
                        variables = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": prompt, **SPECIAL, **more}
                        yield case(f"{path.name}: {name}, {list(more)} {prompt}", template, variables)


def jinja2_tests(directories):
    """Of every function of the tests: the templates that are plain texts, with the values that the function renders with."""
    for path in (path for directory in directories for path in sorted(pathlib.Path(directory).rglob("tests/test_*.py"))):
        functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        for function in functions:
            templates, variables = [], [{}]
            for call in (node for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                try:
                    if call.func.attr == "from_string":
                        templates.append(ast.literal_eval(call.args[0]))
                    elif call.func.attr in ("render", "render_async"):
                        values = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
                        if values and json.loads(json.dumps(values)) == values:
                            variables.append(values)
                except (ValueError, TypeError, IndexError):
                    continue  # made by a program
            for number, (template, values) in enumerate((template, values) for template in templates for values in variables):
                # Here |safe is a text as any other; jinja2's would escape what it formats.
                if isinstance(template, str) and "|safe).format" not in template:
                    yield case(f"{path.name}, {function.name} {number}", template, {**VARIABLES, **values})


def snippets():
    for template in SNIPPETS:
        yield case(template[:40], template, VARIABLES)


class Generator:
    """Expressions and statements by chance. Most have the right types; some are errors."""

    def __init__(self, random):
        self.random = random

    def pick(self, *choices):
        return self.random.choice(choices)

    def number(self, depth):
        if depth <= 0:
            return self.pick("0", "1", "2", "7", "n", "m", "2.5", "-3", "true", "loop_count")
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self.pick(f"({a} {self.pick('+', '-', '*', '//', '%', '/')} {b})", f"({self.text(depth - 1)})|length",
                         f"({self.items(depth - 1)})|length", f"({a} if {self.truth(depth - 1)} else {b})", f"({self.text(depth - 1)})|int",
                         f"[{a}, {b}]|max", f"({a})|abs", f"-{a}", f"({self.text(depth - 1)}).find({self.text(0)})",
                         f"({self.text(depth - 1)}).count('a')")

    def text(self, depth):
        if depth <= 0:
            return self.pick("'a'", "'B c'", "s", "t", "''", "'  x '", "'ä🙂'", "u", "d.k", "'x,y,z'", "missing", "'\\n'", '"it\'s"')
        a, b = self.text(depth - 1), self.text(depth - 1)
        return self.pick(f"({a} + {b})", f"({a} ~ {self.number(depth - 1)})", f"({a})|{self.pick('trim', 'upper', 'lower', 'title', 'capitalize')}",
                         f"({a}).{self.pick('strip', 'lstrip', 'rstrip', 'upper', 'lower', 'title', 'swapcase')}()",
                         f"({a})[{self.pick(0, 1, -2)}:{self.pick(2, 5, -1)}]", f"({a})[{self.number(0)}]", f"({a})|replace({self.text(0)}, {self.text(0)})",
                         f"({a}).replace({self.text(0)}, 'q')", f"({self.items(depth - 1)})|join({self.text(0)})", f"({a}).split({self.text(0)})[0]",
                         f"({self.any(depth - 1)})|string", f"({self.any(depth - 1)})|tojson", f"({a} if {self.truth(depth - 1)} else {b})",
                         f"({a} or {b})", f"({a} and {b})", f"({a})|default({b}, true)", f"({self.items(depth - 1)})|first", f"({a})[::-1]",
                         f"({a}) * {self.pick('0', '2', '3')}", f"'%s|%d' % ({a}, {self.number(0)})", f"({a}).strip({self.text(0)})")

    def items(self, depth):
        if depth <= 0:
            return self.pick("l", "[]", "[1, 2, 3]", "['b', 'a', 'C']", "messages", "range(4)|list", "'abc'|list", "d.values()|list")
        a, b = self.items(depth - 1), self.items(depth - 1)
        return self.pick(f"({a} + {b})", f"({a})[{self.pick(0, 1, -2)}:]", f"({a})|{self.pick('list', 'reverse|list', 'unique|list', 'sort')}",
                         f"({self.text(depth - 1)}).split()", f"({a})[::{self.pick('2', '-1')}]", f"({a})|select('string')|list",
                         f"({a})|map('string')|list", f"({a})|map('length')|list", f"({a})|rejectattr('role', 'equalto', 'user')|list",
                         f"({a})|selectattr('content')|list", f"d.items()|list", f"({a})|map(attribute='role')|list",
                         f"[{self.any(depth - 1)}, {self.any(depth - 1)}]", f"d|dictsort", f"({a})|select('in', {b})|list",
                         f"({self.text(depth - 1)}).split({self.text(0)})", f"({self.text(depth - 1)}).splitlines()")

    def truth(self, depth):
        if depth <= 0:
            return self.pick("true", "false", "(n > 2)", "(missing is defined)", "(s is string)", "(d is mapping)", "(none is none)")
        a, b = self.any(depth - 1), self.any(depth - 1)
        x, y = self.number(depth - 1), self.number(depth - 1)
        tests = ("defined", "none", "string", "mapping", "iterable", "number", "sequence", "integer", "float", "boolean", "true", "false")
        return self.pick(f"({a} == {b})", f"({x} < {y})", f"({x} <= {y} < 9)", f"({a}) is {self.pick('', 'not ')}{self.pick(*tests)}",
                         f"({self.any(0)} in {self.items(depth - 1)})", f"({self.text(0)} not in {self.text(depth - 1)})",
                         f"not {self.truth(depth - 1)}", f"({self.truth(depth - 1)} {self.pick('and', 'or')} {self.truth(depth - 1)})",
                         f"({self.text(depth - 1)}).{self.pick('startswith', 'endswith')}({self.text(0)})",
                         f"({self.text(depth - 1)}).{self.pick('isdigit', 'isalpha', 'isupper', 'isspace', 'isalnum', 'islower')}()",
                         f"({x} is {self.pick('odd', 'even')})", f"({a} != {b})", f"({self.text(depth - 1)} < {self.text(0)})", f"({x}) is divisibleby 2")

    def any(self, depth):
        return self.pick(self.number, self.text, self.items, self.truth, lambda _: self.pick("d", "none", "f", "missing", "d.x", "{'q': 1, 'r': [s]}"))(depth)

    def tag(self, inner):
        return "{%" + self.pick("", "", "-", "+") + f" {inner} " + self.pick("", "", "-", "+") + "%}"

    def data(self):
        return self.pick("", " ", "\n", "text", "  \n  ", "a\n", "\n\n b ", "{# note #}", "{#- note -#} ", " end\n")

    def statement(self, depth):
        value = self.any(self.random.randrange(3))
        output = "{{" + self.pick("", "-") + f" {value} " + self.pick("", "-") + "}}"
        if depth <= 0:
            return self.pick(output, self.data(), self.tag(f"set v = {value}"), "{{ v }}", self.tag(f"set ns.a = {value}"), "{{ ns.a }}")
        body, more = self.body(depth - 1), self.body(depth - 1)
        truth = self.truth(self.random.randrange(2))
        return self.pick(
            output, self.tag(f"if {truth}") + body + self.tag("else") + more + self.tag("endif"),
            self.tag(f"if {truth}") + body + self.tag(f"elif {self.truth(1)}") + more + self.tag("endif"),
            self.tag(f"for v in {self.items(1)}") + body + "{{ loop.index }}{{ v }}" + self.tag("endfor"),
            self.tag(f"for x in {self.items(0)} if {truth}") + body + self.tag(f"if {truth}") + self.pick("{% break %}", "{% continue %}")
            + self.tag("endif") + more + self.tag("else") + "none" + self.tag("endfor"),
            self.tag("set v") + body + self.tag("endset"), self.tag("generation") + body + self.tag("endgeneration"),
            self.tag(f"macro f{depth}(a, b={self.text(0)})") + "{{ a }}" + body + "{{ b }}" + self.tag("endmacro") + "{{ f%d(%s) }}" % (depth, value),
            self.tag("raw") + "{{ raw }} {% x" + self.tag("endraw"), self.tag("filter upper") + body + self.tag("endfilter"),
            self.tag(f"with w = {value}") + body + "{{ w }}" + self.tag("endwith"))

    def body(self, depth):
        return "".join(self.data() + self.statement(depth) for _ in range(self.random.randrange(1, 4))) + self.data()


def generated(count):
    generator = Generator(random.Random(20))
    for i in range(count):
        template = "{% set ns = namespace(a=1) %}" + generator.body(i % 3)
        yield case(f"generated {i}", template, VARIABLES)


def main():
    part, path, *more = sys.argv[1:]
    cases = {"published": lambda: published(more), "jinja2": lambda: jinja2_tests(more), "snippets": snippets, "generated": lambda: generated(int(more[0]))}[part]()
    # Filters make lists here, and generators in jinja2, which it can neither print nor write as JSON.
    kept = [one for one in cases if "generator" not in one["error"] and "<generator object" not in (one["expected"] or {"text": ""})["text"]]
    pathlib.Path(path).write_text(json.dumps(kept))


if __name__ == "__main__":
    main()
