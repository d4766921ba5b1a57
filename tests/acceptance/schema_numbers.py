"""Every place of a JSON schema where a number may stand, each in the smallest document that has it."""
import json


def least(node, schema):
    """A value that the schema takes here: the default, or the simplest one."""
    node = resolved(node, schema)
    if node.get("default") is not None:
        return node["default"]
    if "const" in node:
        return node["const"]
    if "enum" in node:
        return node["enum"][0]
    if "anyOf" in node:
        return least(node["anyOf"][0], schema)
    if node["type"] == "object":
        return {key: least(node["properties"][key], schema) for key in node.get("required", [])}
    if node["type"] == "array":
        return [least(node["items"], schema)] * node.get("minItems", 1)
    if node["type"] in ("integer", "number"):
        return max(node.get("minimum", 1), 1)
    return {"string": "x", "boolean": True, "null": None}[node["type"]]


def resolved(node, schema):
    while "$ref" in node:
        node = {**schema["$defs"][node["$ref"].removeprefix("#/$defs/")], **{key: value for key, value in node.items() if key != "$ref"}}
    return node


def places(node, schema, seen):
    """(path, a number that the schema takes there, document of a number). A key that several kinds share stands once a kind."""
    node = resolved(node, schema)
    for option in node.get("anyOf", []):
        yield from places(option, schema, seen)
    if node.get("type") in ("integer", "number"):
        yield "", least(node, schema), lambda value: value
    elif node.get("type") == "array":
        rest = least(node, schema)[1:]
        for path, valid, document in places(node["items"], schema, seen):
            yield f"[0]{path}", valid, lambda value, document=document: [document(value), *rest]
    elif node.get("type") == "object":
        required = {key: least(node["properties"][key], schema) for key in node.get("required", [])}
        for key, child in node["properties"].items():
            identity = node.get("title"), key, json.dumps(child, sort_keys=True)
            if identity in seen:
                continue
            seen.add(identity)
            for path, valid, document in places(child, schema, seen):
                kind = f"{{{node['title']}}}" if "title" in node else ""
                yield f"{kind}.{key}{path}", valid, lambda value, key=key, document=document: {**required, key: document(value)}


def numbers_of_schema(schema):
    """As `places`, of the document of a whole experiment: its section, path, number and section's value."""
    for section, node in schema["$defs"]["whole"]["properties"].items():
        for path, valid, document in places(node, schema, set()):
            yield section, section + path, valid, document
