#!/usr/bin/env python3
"""Made-up CSV tables, and what pandas reads from them, for tests/dataset/table_reference_test.cpp.

csv_tables.py DIRECTORY COUNT SEED    writes 0.csv, 1.csv, … and cases.json
"""
import csv
import io
import json
import math
import pathlib
import random
import sys

try:
    import pandas as pd
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
    return bool(present) and all(len(value) >= 10 and value[:4].isdigit() and value[4] in "-/" and value[7] == value[4] for value in present)


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


def main():
    directory, count, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    cases = []
    while len(cases) < count:
        data, reading, case, has_header = make(rng)
        path = directory / f"{len(cases)}.csv"
        path.write_bytes(data)
        try:
            frame = pd.read_csv(path, **reading)
        except (UnicodeError, ValueError, OverflowError):
            continue  # pandas reads no such table
        if frame.shape[1] < 2 or frame.isna().all().any():
            continue
        case["file"] = path.name
        case["columns"] = expected(frame, has_header)
        cases.append(case)
    for case in cases:
        for column in case["columns"]:
            if column["kind"] == "number":
                column["values"] = [repr(value) if value is not None and math.isinf(value) else value for value in column["values"]]
    (directory / "cases.json").write_text(json.dumps(cases))


main()
