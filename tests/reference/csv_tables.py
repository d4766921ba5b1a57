#!/usr/bin/env python3
"""Tables, and what pandas and pyarrow read from them, for tests/dataset/table_reference_test.cpp.

  csv_tables.py made DIRECTORY COUNT SEED    made-up CSV files
  csv_tables.py csv DIRECTORY                the examples of csvkit, and the tables of scikit-learn
  csv_tables.py parquet DIRECTORY            pyarrow's own test files, and every type, encoding and codec that pyarrow writes

Each writes cases.json into DIRECTORY, beside the files that it makes. A case without columns is a file that must be refused.
With TRAINCTL_CORPORA=FOLDER, the files of FOLDER/csv and FOLDER/parquet are cases too.
"""
import decimal as decimals
import itertools
import json
import math
import os
import pathlib
import random
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from tokenizer_corpus import data, one  # noqa: E402

try:
    import numpy
    import pandas as pd
    import pyarrow
    import pyarrow.parquet
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)

MISSING = ["", "NA", "NaN", "nan", "null", "NULL", "None", "n/a", "N/A", "#N/A", "<NA>", "-nan", "-NaN", "#NA",
           "#N/A N/A", "1.#QNAN", "-1.#IND", "?"]
WORDS = ["red", "green", "blue", "thé", "café", "Zürich", "naïve", "x y", "10 km", "a-b", "on", "No", "yes", "1a", "v2",
         "O'Neil", "#7", "50%", "e5", "1e", "0x1F", "1_000", "--", "+", ".", "e", "inf.", "Infinit", "nano", "True?"]


def number_cell(kind, rng, decimal):
    if kind == "integer":
        text = str(rng.choice([rng.randint(-9, 9), rng.randint(-10**6, 10**6), 2**53 + rng.randint(0, 3), rng.randint(-2**62, 2**62)]))
    elif kind == "seconds":
        text = str(1_700_000_000 + rng.randint(0, 5))
    elif kind == "padded":
        text = f"{rng.randint(0, 99):05d}"
    elif kind == "truth":
        text = rng.choice(["True", "False"])
    elif kind == "exponent":
        text = rng.choice([f"{rng.uniform(-1, 1):.17e}", f"{rng.randint(1, 9)}e{rng.randint(-30, 30)}",
                           f"{rng.randint(1, 9)}E+{rng.randint(0, 30):02d}", "1e-400", "4.9e-324", "1.7976931348623157e308"])
    else:
        value = rng.choice([rng.random(), rng.uniform(-1e6, 1e6), rng.gauss(0, 1) * 10.0 ** rng.randint(-20, 20)])
        text = rng.choice([repr(value), f"{value:.3f}", f"{value:+.2f}", f"{rng.randint(0, 99)}.", f".{rng.randint(0, 99)}", f"-.{rng.randint(1, 9)}"])
    return text.replace(".", decimal)


def column_of(kind, rows, rng, decimal, words):
    if kind == "word":
        return [rng.choice(words) for _ in range(rows)]
    if kind == "quoted":
        return [rng.choice(["a,b", "c;d", 'he said "no"', "two\nlines", "tab\there", "x|y", "plain"]) for _ in range(rows)]
    if kind == "date":
        style = rng.choice(["%Y-%m-%d", "%Y/%m/%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+02:00", "%Y-%m-%d %H:%M:%S.250"])
        return [(pd.Timestamp("1969-12-25") + pd.Timedelta(rng.randint(0, 2 * 10**9), "s")).strftime(style) for _ in range(rows)]
    return [number_cell(kind, rng, decimal) for _ in range(rows)]


def write_cell(text, separator, rng, always, line_end):
    if separator == " " and (not text or " " in text or "\t" in text):
        return '"' + text.replace('"', '""') + '"'
    if always or any(sign in text for sign in [separator, '"', "\n", "\r"]):
        return '"' + text.replace('"', '""') + '"'
    return rng.choice(["", "", "", " "]) + text if separator != " " else text


def make(rng):
    """Returns a file's bytes, how pandas reads it, and how the experiment names its label."""
    separator = rng.choice([",", ",", ",", ";", ";", "\t", "|", ":", " "])
    decimal = rng.choice([".", ","]) if separator in ";\t|" else "."
    encoding = rng.choice(["utf-8"] * 4 + ["utf-8-sig", "latin1", "cp1252", "utf-16", "utf-16-le"])
    line_end = rng.choice(["\n", "\n", "\r\n", "\r"])
    rows = rng.randint(3, 40)
    words = rng.sample(WORDS, rng.randint(2, 8))
    kinds = [rng.choice(["integer", "seconds", "padded", "truth", "exponent", "decimal", "decimal", "word", "word", "quoted", "date"])
             for _ in range(rng.randint(1, 6))]
    if separator in ": ":
        kinds = [kind for kind in kinds if kind != "date"] or ["integer"]
    columns = [column_of(kind, rows, rng, decimal, words) for kind in kinds]
    for kind, column in zip(kinds, columns):
        if kind not in ("word", "quoted", "truth") and rng.random() < 0.4:
            for row in rng.sample(range(rows), rng.randint(1, max(1, rows // 4))):
                column[row] = rng.choice(MISSING)
    labels = [rng.choice(["yes", "no", "maybe"]) for _ in range(rows)]
    names = [rng.choice(["x", "y", "größe", "a b", "n1", "x.1", "ratio", "día"]) for _ in kinds]
    place = rng.randint(0, len(kinds))
    columns.insert(place, labels)
    names.insert(place, "the label")
    has_header = rng.random() < 0.8
    quotes_all = rng.random() < 0.15
    lines = []
    if has_header:
        lines.append(separator.join(write_cell(name, separator, rng, quotes_all, line_end).strip() for name in names))
    for row in range(rows):
        lines.append(separator.join(write_cell(column[row], separator, rng, quotes_all, line_end) for column in columns))
        if rng.random() < 0.03:
            lines.append("")
    excel = rng.random() < 0.1 and separator in ",;"
    text = (f"sep={separator}" + line_end if excel else "") + line_end.join(lines) + rng.choice(["", line_end])
    text = text.encode(encoding, "replace").decode(encoding)
    reading = {"sep": r"\s+" if separator == " " else separator, "decimal": decimal, "encoding": encoding,
               "header": 0 if has_header else None, "skiprows": 1 if excel else 0, "na_values": ["?"],
               "skipinitialspace": True}
    named = "the label" if has_header else str(place + 1)
    known = {} if encoding.startswith("utf-8") else {"encoding": encoding}
    if rng.random() < 0.2:
        known["separator"] = "whitespace" if separator == " " else separator
    if rng.random() < 0.2:
        known["decimal"] = "comma" if decimal == "," else "point"
    if not has_header:
        known["header_lines"] = 0
    return text.encode(encoding), reading, {"label": named, "known": known}, has_header


def days(value):
    moment = pd.to_datetime(value, utc=True) if isinstance(value, str) else value
    return (moment - pd.Timestamp("1970-01-01", tz="UTC")) / pd.Timedelta(1, "D")


def is_date(values):
    present = [value for value in values if isinstance(value, str)]
    if not present or not all(len(value) >= 10 and value[:4].isdigit() and value[4] in "-/" and value[7] == value[4] for value in present):
        return False
    return not pd.to_datetime(pd.Series(present), format="mixed", utc=True, errors="coerce").isna().any()


def expected(frame, has_header):
    columns = []
    for number, name in enumerate(frame.columns):
        series = frame[name]
        values = [None if pd.isna(value) else value for value in series.tolist()]
        present = [value for value in values if value is not None]
        if all(isinstance(value, (bool, int, float)) for value in present):
            kind, values = "number", [None if value is None else float(value) for value in values]
        elif is_date(values):
            kind, values = "date", [None if value is None else days(value) for value in values]
        else:
            kind, values = "category", ["" if value is None else str(value) for value in values]
        columns.append({"name": str(name) if has_header else str(number + 1), "kind": kind, "values": values})
    return columns


def made(directory, count, seed):
    rng = random.Random(seed)
    cases = []
    while len(cases) < count:
        content, reading, case, has_header = make(rng)
        path = directory / f"{len(cases)}.csv"
        path.write_bytes(content)
        try:
            frame = pd.read_csv(path, **reading)
        except (UnicodeError, ValueError, OverflowError):
            continue  # pandas reads no such table
        if frame.shape[1] < 2 or frame.isna().all().any():
            continue
        case["file"] = str(path)
        case["columns"] = expected(frame, has_header)
        cases.append(case)
    return cases


# How pandas must read files that say it nowhere.
READING = {
    "test_utf16_big.csv": {"encoding": "utf-16"}, "test_utf16_little.csv": {"encoding": "utf-16"}, "test_latin1.csv": {"encoding": "latin1"},
}


def users_files(part):
    folder = os.environ.get("TRAINCTL_CORPORA")
    return [path for path in sorted((pathlib.Path(folder) / part).rglob("*")) if path.is_file()] if folder else []


def csv_case(path):
    reading = {"na_values": ["?"], "skipinitialspace": True, "sep": "\t" if path.suffix == ".tsv" else ",", **READING.get(path.name, {})}
    case = {"file": str(path), "label": "1", "known": {"encoding": reading["encoding"]} if "encoding" in reading else {}}
    try:
        frame = pd.read_csv(path, **reading)
    except (UnicodeError, ValueError, OverflowError):
        return case
    if not isinstance(frame.index, pd.RangeIndex):
        return None  # rows are longer than the header, and pandas takes their first cells for an index
    frame.columns = [str(name) for name in frame.columns]
    texts = pd.read_csv(path, dtype=str, **reading).set_axis(frame.columns, axis=1)  # labels are as they are written
    labels = [name for name in frame.columns if all(isinstance(text, str) and text == text.strip() for text in texts[name])]
    if frame.shape[1] < 2 or len(frame) == 0 or not labels:
        return None
    case["label"] = labels[-1]
    if case["label"].isdigit():
        case["known"]["header_lines"] = 1
    case["columns"] = expected(frame, True)
    for column in case["columns"]:
        if column["name"] == case["label"]:
            column["values"] = texts[case["label"]].tolist()
    return case


def csv_cases():
    examples, photos = one(data("csv_examples"), "examples"), one(data("photos"), "sklearn") / "datasets/data"
    paths = [path for path in sorted(examples.rglob("*")) if path.suffix in (".csv", ".tsv")]
    paths += [photos / f"{name}.csv" for name in ("iris", "wine_data", "breast_cancer")]
    return [case for case in map(csv_case, [*paths, *users_files("csv")]) if case]


def parquet_columns():
    """Arrays of 40 rows of every type."""
    rng = random.Random(3)
    rows = 40

    def array(type, values):
        return pyarrow.array([None if i % 9 == 4 else value for i, value in enumerate(values)], type)

    for bits in (8, 16, 32, 64):
        for name, low, high in ((f"int{bits}", -2 ** (bits - 1), 2 ** (bits - 1) - 1), (f"uint{bits}", 0, 2**bits - 1)):
            yield name, array(getattr(pyarrow, name)(), [low, high, 0, 1] + [rng.randint(low, high) for _ in range(rows - 4)])
    for name, type in (("float16", numpy.float16), ("float32", numpy.float32), ("float64", numpy.float64)):
        info = numpy.finfo(type)
        values = [info.max, info.min, info.tiny, info.smallest_subnormal, -0.0, float("nan")] + [rng.gauss(0, 1) for _ in range(rows - 6)]
        yield name, array(getattr(pyarrow, name)(), [type(value) for value in values])
    yield "bool", array(pyarrow.bool_(), [rng.random() < 0.5 for _ in range(rows)])
    for type in (pyarrow.decimal128(9, 2), pyarrow.decimal128(38, 10), pyarrow.decimal256(60, 5), pyarrow.decimal128(18, 18)):
        exponent = decimals.Decimal(1).scaleb(-type.scale)
        yield str(type), array(type, [rng.randint(-(10 ** min(type.precision, 17)) + 1, 10 ** min(type.precision, 17) - 1) * exponent for _ in range(rows)])
    seconds = [rng.randint(-2**31, 2**32) for _ in range(rows)]
    for unit, zone in itertools.product(("s", "ms", "us", "ns"), (None, "UTC", "Europe/Zurich")):
        factor = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
        yield f"timestamp {unit} {zone}".replace("/", "-"), array(pyarrow.timestamp(unit, zone), [second * factor + rng.randrange(factor) for second in seconds])
    yield "date32", array(pyarrow.date32(), [second // 86_400 for second in seconds])
    yield "date64", array(pyarrow.date64(), [second // 86_400 * 86_400_000 for second in seconds])
    words = [rng.choice(["red", "größe", "", "NA", "None", "1", "a,b", "two\nlines", "日本", "nul\0inside"]) for _ in range(rows)]
    for type in (pyarrow.string(), pyarrow.large_string(), pyarrow.string_view()):
        yield str(type), array(type, words)
    yield "dictionary", array(pyarrow.string(), words).dictionary_encode()
    yield "dictionary of numbers", array(pyarrow.int64(), [rng.randint(0, 5) for _ in range(rows)]).dictionary_encode()
    yield "null", pyarrow.nulls(rows)
    yield "binary", array(pyarrow.binary(), [b"x"] * rows)
    yield "time32", array(pyarrow.time32("s"), [5] * rows)
    yield "time64", array(pyarrow.time64("us"), [5] * rows)
    yield "duration", array(pyarrow.duration("s"), [5] * rows)
    yield "list", array(pyarrow.list_(pyarrow.int64()), [[1, 2]] * rows)
    yield "struct", array(pyarrow.struct([("a", pyarrow.int64())]), [{"a": 1}] * rows)


def parquet_kind(type):
    kinds = pyarrow.types
    if kinds.is_dictionary(type):
        return parquet_kind(type.value_type)
    if kinds.is_boolean(type) or kinds.is_integer(type) or kinds.is_floating(type) or kinds.is_decimal(type) or kinds.is_null(type):
        return "number"
    if kinds.is_date(type) or kinds.is_timestamp(type):
        return "date"
    return "category" if kinds.is_string(type) or kinds.is_large_string(type) or kinds.is_string_view(type) else None


def parquet_value(value, kind):
    if kind == "category":
        return "" if value is None else value
    if value is None or value != value:
        return None
    if kind == "number":
        return float(value)
    moment = pd.Timestamp(value)
    return days(moment if moment.tzinfo else moment.tz_localize("UTC"))


def parquet_case(path):
    case = {"file": str(path), "label": "1", "known": {}}
    try:
        table = pyarrow.parquet.ParquetFile(path).read()
    except (pyarrow.ArrowException, OSError):
        return case
    columns, labels = [], []
    for name, column in zip(table.column_names, table.columns):
        if kind := parquet_kind(column.type):
            values = column.to_pylist()
            columns.append({"name": name, "kind": kind, "values": [parquet_value(value, kind) for value in values]})
            if kind == "category" and column.null_count == 0 and all(values):
                labels.append(name)
    if len(set(table.column_names)) < len(table.column_names) or len(columns) < 2 or not labels or len(table) == 0:
        return None
    case["label"], case["columns"] = labels[-1], columns
    case["features"] = [column["name"] for column in columns if column["name"] != case["label"]]
    return case


def parquet_cases(directory):
    labels = pyarrow.array([["dog", "cat", "bird", "NA"][i % 4] for i in range(40)])
    written = {}
    for name, array in parquet_columns():
        written[name] = (pyarrow.table({"x": array, "y": list(range(40)), "label": labels}), {})
        if parquet_kind(array.type) and array.null_count < len(array):
            whole = pyarrow.array([value for value in array.to_pylist() if value is not None], array.type)
            written[name + " without nulls"] = (pyarrow.table({"x": whole, "label": labels[:len(whole)]}), {})
    flat = pyarrow.table({name: array for name, array in parquet_columns() if parquet_kind(array.type)} | {"label": labels})
    for codec, version, pages in itertools.product(("none", "snappy", "gzip", "brotli", "lz4", "zstd"), ("1.0", "2.4", "2.6"), ("1.0", "2.0")):
        written[f"{codec} {version} {pages}"] = (flat, {"compression": codec, "version": version, "data_page_version": pages, "row_group_size": 17,
                                                         "coerce_timestamps": None if version == "2.6" else "us", "allow_truncated_timestamps": True})
    numbers = flat.select(["int32", "int64", "float32", "float64", "string", "label"])
    for encoding, columns in {"DELTA_BINARY_PACKED": ("int32", "int64"), "BYTE_STREAM_SPLIT": ("int32", "int64", "float32", "float64"),
                              "DELTA_LENGTH_BYTE_ARRAY": ("string", "label"), "DELTA_BYTE_ARRAY": ("string", "label"), "PLAIN": numbers.column_names}.items():
        written[encoding] = (numbers, {"use_dictionary": False, "column_encoding": {column: encoding for column in columns}})
    written["RLE"] = (flat.select(["bool", "label"]), {"use_dictionary": False, "column_encoding": {"bool": "RLE"}, "data_page_version": "2.0"})
    written["int96"] = (flat.select(["timestamp us None", "timestamp ns UTC", "label"]), {"use_deprecated_int96_timestamps": True})
    written["small pages"] = (flat, {"data_page_size": 64, "write_batch_size": 8, "dictionary_pagesize_limit": 32})
    written["checksums"] = (flat, {"write_page_checksum": True})
    written["no rows"] = (flat.slice(0, 0), {})
    paths = []
    for name, (table, options) in written.items():
        paths.append(directory / f"{name}.parquet")
        pyarrow.parquet.write_table(table, paths[-1], **options)
    paths += sorted((pathlib.Path(pyarrow.__file__).parent / "tests/data/parquet").glob("*.parquet"))
    return [case for case in map(parquet_case, [*paths, *users_files("parquet")]) if case]


def main():
    part, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    warnings.simplefilter("ignore")
    if part == "made":
        cases = made(directory, int(sys.argv[3]), int(sys.argv[4]))
    else:
        cases = csv_cases() if part == "csv" else parquet_cases(directory)
    for case in cases:
        for column in case.get("columns", []):
            column["values"] = [repr(value) if isinstance(value, float) and math.isinf(value) else value for value in column["values"]]
    (directory / "cases.json").write_text(json.dumps(cases))


main()
