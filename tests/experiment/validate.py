"""Validates YAML files with the reference implementation of JSON schema: validate.py SCHEMA FILE…

Exit status 0: all are valid; 1: some are not; 77: jsonschema or yaml is missing.
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

with open(sys.argv[1]) as file:
    schema = json.load(file)
validator_class = jsonschema.Draft202012Validator
validator_class.check_schema(schema)
validator = validator_class(schema)

status = 0
for name in sys.argv[2:]:
    with open(name) as file:
        document = yaml.load(file, Yaml12Loader)
    for error in validator.iter_errors(document):
        print(f"{name}: {'.'.join(map(str, error.absolute_path))}: {error.message[:300]}")
        status = 1
sys.exit(status)
