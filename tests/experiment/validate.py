"""Validates YAML files with the reference implementation of JSON schema: validate.py valid|invalid SCHEMA FILE…

Exit status 0: all are as the first argument says; 1: some are not; 77: jsonschema or yaml is missing.
"""
import json
import re
import sys

try:
    import jsonschema
    import yaml
except ImportError:
    sys.exit(77)


class Yaml12Loader(yaml.SafeLoader):
    """The core schema of YAML 1.2, as editors use it: 3e-3 is a number, `yes` and `on` are texts."""


Yaml12Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in [
    ("null", r"null|Null|NULL|~|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
]:
    Yaml12Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), first)

expected, schema_file, *names = sys.argv[1:]
with open(schema_file) as file:
    schema = json.load(file)
validator_class = jsonschema.Draft202012Validator
validator_class.check_schema(schema)
validator = validator_class(schema)

status = 0
for name in names:
    with open(name) as file:
        document = yaml.load(file, Yaml12Loader)
    errors = [f"{'.'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in validator.iter_errors(document)]
    if ("invalid" if errors else "valid") != expected:
        print(f"{name} isn't {expected}", *errors, sep="\n  ")
        status = 1
sys.exit(status)
