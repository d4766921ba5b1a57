"""config new --from: of fifty inputs as people have them, what is written passes check and trains, or the input is refused with what to do."""
import io
import json
import pathlib
import random
import tarfile
import unittest
import zipfile

from trainctl_process import png, run, temporary_directory

SHORT = ["--set", "train.early_stopping=null", "--set", "train.epochs=null", "--set", "train.steps=2", "--set", "train.eval_every=2",
         "--set", "checkpoint.every=0", "--set", "device.num_threads=1", "--set", "tracking.report=false"]
WORDS = ["red", "green", "blue"]


def rows(count, *cells, header="", separator=","):
    """A table; each cell is a function of the row's number."""
    lines = [header] if header else []
    return "\n".join(lines + [separator.join(str(cell(n)) for cell in cells) for n in range(count)]) + "\n"


def label(n):
    return ["yes", "no"][n % 2]


def sentence(n):
    return f"this is the story of number {n} and of its {WORDS[n % 3]} house by the sea"


def number(n):
    return round(random.Random(n).random() * 10, 3)


def picture(n):
    return png([bytes([n % 200] * 24)] * 8, 2, 3)


class Folder:
    """Files below a directory, by name."""

    def __init__(self, **files):
        self.files = files

    def write(self, root):
        for name, content in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return root


def photos(prefix="", classes=("dark", "light"), count=6):
    return {f"{prefix}{name}/{n}.png": picture(n + 20 * i) for i, name in enumerate(classes) for n in range(count)}


def archive(kind):
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as file:
            file.writestr("a.txt", "x")
    else:
        with tarfile.open(fileobj=buffer, mode="w") as file:
            file.addfile(tarfile.TarInfo("a.txt"))
    return buffer.getvalue()


def chat(n):
    return json.dumps({"messages": [{"role": "user", "content": f"question {n}"}, {"role": "assistant", "content": f"answer {n}"}]})


# name of the file or directory: content, what the experiment has, or what the refusal says
TAKEN = {
    "numbers.csv": (rows(60, number, number, label, header="a,b,label"), "kind: table"),
    "called_name.csv": (rows(60, number, label, header="name,file_name"), "kind: table"),
    "name_is_label.csv": (rows(60, number, label, header="x,name: "), "kind: table"),
    "semicolons.csv": (rows(60, lambda n: f"{n},5", label, header="x;label", separator=";"), "kind: table"),
    "tabs.tsv": (rows(60, number, lambda n: f'"{label(n)}"', header='"x"\t"label"', separator="\t"), "kind: table"),
    "bars.csv": (rows(60, number, label, header="x|label", separator="|"), "kind: table"),
    "spaces.data": (rows(60, lambda n: f"A{n % 4}", lambda n: n, lambda n: n % 2 + 1, separator=" "), "kind: table"),
    "excel.csv": ("sep=;\n" + rows(60, number, label, header="x;label", separator=";"), "kind: table"),
    "mushrooms.csv": (rows(60, lambda n: "ep"[n % 2], lambda n: "xbf"[n % 3], lambda n: "sy"[n % 2], header="class,cap-shape,odor"), "label: class"),
    "no_header.csv": (rows(60, number, number, label), "kind: table"),
    "windows.csv": (rows(60, number, label, header="x,label").replace("\n", "\r\n"), "kind: table"),
    "mac.csv": (rows(60, number, label, header="x,label").replace("\n", "\r"), "kind: table"),
    "bom.csv": ("\ufeff" + rows(60, number, label, header="x,label"), "kind: table"),
    "twice.csv": (rows(60, number, number, label, header="x,x,label"), "kind: table"),
    "unnamed.csv": (rows(60, lambda n: n, number, label, header=",x,label"), "kind: table"),
    "missing.csv": (rows(60, lambda n: ["NA", "n/a", "#N/A", "<NA>", "-nan", "None"][n] if n < 6 else number(n), label, header="x,label"), "missing_values: mean"),
    "none.csv": (rows(60, number, lambda n: ["None", "a", "b"][n % 3], header="x,label"), "20 rows without a label"),
    "quoted_none.csv": (rows(60, number, lambda n: ['"None"', '"a"'][n % 2], header="x,label"), "kind: table"),
    "dates.csv": (rows(60, lambda n: f"2024-03-{n % 28 + 1:02d} 12:00:{n % 60:02d}", label, header="when,label"), "kind: table"),
    "regression.csv": (rows(60, number, lambda n: 500000 * number(n) + 100000.5, header="area,price"), "label_type: value"),
    "many_classes.csv": (rows(200, number, lambda n: f"k{n % 40}", header="x,label"), "kind: table"),
    "uneven.csv": (rows(100, number, lambda n: "rare" if n < 4 else "usual", header="x,label"), "f1_macro"),
    "yes_no.csv": (rows(60, number, lambda n: ["true", "false"][n % 2], header="x,null"), 'label: "null"'),
    "unicode.csv": (rows(60, number, lambda n: ["größer", "é"][n % 2], header="größe,klasse"), "kind: table"),
    "newline.csv": (rows(60, number, label, header='"a\nname: b",label'), "kind: table"),
    "quote.csv": (rows(60, number, label, header='"a ""b"" # c",label'), "kind: table"),
    "train.csv": (rows(60, number, label, header="x,label"), "kind: table"),
    "reviews.csv": (rows(40, sentence, label, header="text,label"), "kind: text_classification"),
    "reviews.jsonl": ("".join(json.dumps({"text": sentence(n), "label": label(n)}) + "\n" for n in range(40)), "kind: text_classification"),
    "short.jsonl": ("".join(json.dumps({"text": f"good {n}", "label": label(n)}) + "\n" for n in range(40)), "kind: text_classification"),
    "texts.jsonl": ("".join(json.dumps({"text": sentence(n)}) + "\n" for n in range(400)), "kind: text_lm"),
    "stars.jsonl": ("".join(json.dumps({"review": sentence(n), "stars": n / 7}) + "\n" for n in range(40)), "label_type: value"),
    "chat.jsonl": ("".join(chat(n) + "\n" for n in range(300)), "kind: chat"),
    "prompts.jsonl": ("".join(json.dumps({"prompt": f"p {n}", "completion": f"c {n}"}) + "\n" for n in range(300)), "kind: chat"),
    "book.txt": (sentence(1) * 400, "kind: text_lm"),
    "notes.md": ("# Notes\n" + sentence(1) * 400, "kind: text_lm"),
    "photos": (Folder(**photos()), "kind: image_folder"),
    "with_readme": (Folder(**photos(), **{"README.md": "# Photos\n", "notes.txt": "x", "labels.csv": "a,b\n1,2\n"}), "passed over: README.md, labels.csv and notes.txt"),
    "split": (Folder(**photos("train/"), **photos("validation/"), **photos("test/")), "split/test"),
    "train_and_test": (Folder(**photos("train/"), **photos("test/")), "eval: train_and_test/test"),
    "labelled": (Folder(**{f"{n}.png": picture(n) for n in range(8)}, **{"labels.csv": rows(8, lambda n: f"{n}.png", label, header="file,kind")}), "labels: {train: labelled/labels.csv"),
    "odd names": (Folder(**photos(classes=("a b", "# c", "name: d"))), "kind: image_folder"),
    "hub": (Folder(**{"data/train-00000-of-00001.jsonl": "".join(json.dumps({"text": sentence(n), "label": label(n)}) + "\n" for n in range(40)),
                      "README.md": "---\n"}), "kind: text_classification"),
    "corpus": (Folder(**{f"{n}.txt": sentence(n) * 60 for n in range(5)}, **{"meta.json": "{}"}), "passed over: meta.json"),
}
REFUSED = {
    "one.jpg": (b"\xff\xd8\xff\xe0", "is one image"),
    "book.xlsx": (archive("zip"), "is a spreadsheet"),
    "all.json": ('[{"a": 1}]', "is a JSON document"),
    "all.zip": (archive("zip"), "is an archive"),
    "all.tar": (archive("tar"), "is an archive"),
    "latin.csv": ("x,label\n1,caf\xe9\n".encode("latin1"), "latin.csv:2: byte 6 of the line, 0xe9, is not UTF-8"),
    "latin.txt": ("caf\xe9 ".encode("latin1") * 100, "is not UTF-8"),
    "torn.csv": ("a,label\n1,x\n1\n", "torn.csv:3: this row has 1 columns"),
    "numbers.jsonl": ("".join(json.dumps({"a": n, "label": n % 2}) + "\n" for n in range(40)), "has no member with texts"),
    "empty.csv": ("", "is empty"),
    "nothing": (Folder(**{"a.bin": b"\0"}), "has no data of a known kind"),
}


class ConfigNew(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(temporary_directory()))

    def write(self, name, content):
        path = self.root / name
        if isinstance(content, Folder):
            content.write(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def test_what_is_written_passes_check_and_trains(self):
        self.assertGreaterEqual(len(TAKEN) + len(REFUSED), 50)
        for number, (name, (content, has)) in enumerate(TAKEN.items()):
            with self.subTest(name):
                self.write(name, content)
                exp = f"exp{number}.yaml"
                made = run("config", "new", "--from", name, "--output", exp, cwd=self.root)
                self.assertEqual(made.returncode, 0, made.stderr)
                self.assertIn(has, (self.root / exp).read_text())
                checked = run("check", exp, cwd=self.root)
                self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr + (self.root / exp).read_text())
                trained = run("train", exp, "--run-dir", f"run{number}", *SHORT, cwd=self.root)
                self.assertEqual(trained.returncode, 0, trained.stderr)

    def test_what_is_no_data_is_refused_with_what_to_do(self):
        for name, (content, says) in REFUSED.items():
            with self.subTest(name):
                self.write(name, content)
                made = run("config", "new", "--from", name, cwd=self.root)
                self.assertEqual(made.returncode, 1, made.stdout)
                self.assertIn(says, made.stderr)
                self.assertIn("try:", made.stderr) if name not in ("torn.csv", "empty.csv") else None
                self.assertEqual(made.stdout, "")


if __name__ == "__main__":
    unittest.main()
