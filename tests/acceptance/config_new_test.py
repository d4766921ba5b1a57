"""config new --from: of a hundred inputs as people have them, what is written passes check and trains, or the input is refused with what to do."""
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


def lines(count, row):
    """JSON lines; `row` is a function of the row's number."""
    return "".join(json.dumps(row(n)) + "\n" for n in range(count))


def frame(**arguments):
    """A Parquet file that pandas writes: x, y, and an index that `arguments` change. None without pandas."""
    try:
        import pandas
        import pyarrow
    except ImportError:
        return None
    del pyarrow
    table = pandas.DataFrame({"x": [number(n) for n in range(60)], "y": [label(n) for n in range(60)]})
    for method, given in arguments.items():
        table = getattr(table, method)(**given)
    buffer = io.BytesIO()
    table.to_parquet(buffer)
    return buffer.getvalue()


def answered(n):
    return {"role": "assistant", "content": f"answer {n}"}


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
    "pairs.jsonl": (lines(40, lambda n: {"premise": sentence(n), "hypothesis": sentence(n + 1), "label": label(n)}), "text_pair: hypothesis"),
    "pairs.csv": (rows(40, sentence, sentence, label, header="sentence2,sentence1,label"), "text: sentence1, text_pair: sentence2"),
    "titles.csv": (rows(40, sentence, number, label, header="text,stars,label"), "not read: stars"),
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
    # An index of pandas is no column.
    "shuffled.parquet": (frame(sample={"frac": 1, "random_state": 0}), "__index_level_0__: left out, the index of a pandas.DataFrame"),
    "ranged.parquet": (frame(), "# seen: 60 rows\n#   x: number"),
    "named.parquet": (frame(rename_axis={"mapper": "row"}, sample={"frac": 1, "random_state": 0}), "row: left out, the index of a pandas.DataFrame"),
    "with_index.parquet": (frame(reset_index={}), "#   index: number"),
    # Sets are called so in any case.
    "Capitals": (Folder(**photos("Train/"), **photos("Test/")), "train: Capitals/Train\n  eval: Capitals/Test"),
    "CAPITALS": (Folder(**photos("TRAIN/"), **photos("VAL/"), **photos("TEST/")), "eval: CAPITALS/VAL\n  test: CAPITALS/TEST"),
    "sets": (Folder(**photos("training_set/"), **photos("test_set/")), "train: sets/training_set\n  eval: sets/test_set"),
    "segments": (Folder(**photos("seg_train/seg_train/"), **photos("seg_test/seg_test/"), **{f"seg_pred/{n}.png": picture(n) for n in range(3)}),
                 "train: segments/seg_train/seg_train\n  eval: segments/seg_test/seg_test"),
    "years": (Folder(**photos("train2017/"), **photos("val2017/")), "eval: years/val2017"),
    "unpacked": (Folder(**photos("unpacked/")), "train: unpacked/unpacked"),
    "flat_test": (Folder(**photos("train/"), **{f"test/{n}.png": picture(n) for n in range(6)}), "eval_fraction"),
    "vehicles": (Folder(**photos(classes=("bus", "car", "train"))), "of 3 classes"),
    "Files": (Folder(**{"Train.CSV": rows(60, number, label, header="x,label"), "Test.CSV": rows(60, number, label, header="x,label")}), "eval: Files/Test.CSV"),
    "texts": (Folder(**{f"{name}.txt": sentence(1) * 400 for name in ("train", "valid", "test")}), "files: texts/valid.txt"),
    "chats": (Folder(**{"train.jsonl": "".join(chat(n) + "\n" for n in range(300)), "test.jsonl": "".join(chat(n) + "\n" for n in range(40))}),
              "kind: chat\n  train: chats/train.jsonl\n  eval: chats/test.jsonl"),
    # Pictures apart from the table of their labels.
    "dogs": (Folder(**{f"train/{n:02d}.png": picture(n) for n in range(20)}, **{f"test/{n:02d}.png": picture(n) for n in range(5)},
                    **{"labels.csv": rows(20, lambda n: f"{n:02d}", label, header="id,breed")}), "labels: {train: dogs/labels.csv, file: id, label: breed}"),
    # Numbers may name columns.
    "index_and_numbers.csv": (rows(60, lambda n: n, lambda n: n % 3, lambda n: n % 5, lambda n: n % 2, header=",0,1,2"), "# seen: 60 rows\n"),
    "numbers_from_1.csv": (rows(60, lambda n: n, lambda n: n % 3, lambda n: n % 2, header="1,2,3"), "classes 0 30, 1 30"),
    "numbers_from_0.csv": (rows(60, lambda n: number(n) + 0.5, number, label, header="0,1,2"), "# seen: 60 rows\n"),
    "years.csv": (rows(60, lambda n: f"k{n}", lambda n: 400 + 7 * n, lambda n: 401 + 9 * n, label, header="country,2019,2020,grown"), "# seen: 60 rows\n"),
    "words_and_index.csv": (rows(60, lambda n: n, lambda n: WORDS[n % 3], label, header=",color,class"), "label: class"),
    "rows_of_numbers.csv": (rows(60, lambda n: n % 7, lambda n: n % 7 + 1, lambda n: n % 2), "# seen: 60 rows, without a header"),
    # A competition's test set has no labels.
    "kaggle": (Folder(**{"train.csv": rows(60, lambda n: n, number, label, header="id,x,target"), "test.csv": rows(60, lambda n: n, number, header="id,x"),
                         "sample_submission.csv": rows(60, lambda n: n, lambda n: "no", header="id,target")}), "test.csv has no labels in column target"),
    "blank_test": (Folder(**{"train.csv": rows(60, number, label, header="x,y"), "test.csv": rows(60, number, lambda n: "", header="x,y")}), "eval_fraction"),
    "unlabelled_texts": (Folder(**{"train.jsonl": lines(60, lambda n: {"text": sentence(n), "label": label(n)}),
                                   "test.jsonl": lines(20, lambda n: {"text": sentence(n)})}), "eval_fraction"),
    "two_different.csv": (rows(60, lambda n: n % 2, label, header="x,y"), "classes no 30, yes 30"),
    "three_different.csv": (rows(60, lambda n: n % 3, lambda n: label(n % 3), header="x,y"), "classes yes 40, no 20"),
    # What looks like a label, and is none.
    "crawled.jsonl": (lines(400, lambda n: {"text": sentence(n), "timestamp": f"2024-01-{n % 28 + 1:02d}", "url": f"https://example.org/{n}"}), "kind: text_lm"),
    "pile.jsonl": (lines(400, lambda n: {"text": sentence(n), "meta": {"set": "a"}}), "kind: text_lm"),
    "numbered.jsonl": (lines(400, lambda n: {"id": n, "text": sentence(n)}), "kind: text_lm"),
    "yes_or_no.jsonl": (lines(60, lambda n: {"question": sentence(n), "answer": label(n)}), "kind: text_classification"),
    "trailing.csv": (rows(60, number, number, label, lambda n: "", header="a,b,y,"), "features: [a, b]"),
    "valueless.csv": (rows(60, number, lambda n: "", label, header="a,b,y"), "features: [a]"),
    "books": (Folder(**{f"{n}.md": sentence(n) * 60 for n in range(3)}, **{"README.md": "# Books"}), "files: [books/0.md, books/1.md, books/2.md]"),
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
    "photos_and_masks": (Folder(**{f"{folder}/{n}.png": picture(n) for folder in ("images", "masks") for n in range(6)}), "a folder 'images'"),
    "VOC": (Folder(**{f"{folder}/{n}.png": picture(n) for folder in ("JPEGImages", "SegmentationClass") for n in range(6)}), "a folder 'JPEGImages'"),
    "masks_by_set": (Folder(**{f"{name}/{folder}/{n}.png": picture(n) for name in ("train", "val") for folder in ("images", "masks") for n in range(6)}), "a folder 'images'"),
    "labels": (Folder(**{f"{folder}/train/{n}.png": picture(n) for folder in ("images", "labels") for n in range(6)}), "a folder 'images'"),
    "boxes": (Folder(**{f"train/images/{n}.png": picture(n) for n in range(6)}, **{f"train/labels/{n}.txt": "0 0.5 0.5 1 1" for n in range(6)},
                     **{"README.roboflow.txt": "exported"}), "has no data of a known kind"),
    "no_train": (Folder(**photos("test/"), **photos("val/")), "called after sets, test and val"),
    "pictures": (Folder(**{f"{n}.png": picture(n) for n in range(6)}), "6 images, and neither a folder"),
    "pictures_and_table": (Folder(**{f"{n}.png": picture(n) for n in range(6)}, **{"prices.csv": rows(60, number, label, header="x,y")}), "6 images, and neither a folder"),
    "damaged": (Folder(**{f"{name}/{n}.png": b"no picture" for name in "ab" for n in range(3)}), "none of 6 images"),
    "empty_class": (Folder(**photos(), **{"none/notes.txt": "x"}), "none"),
    "one_more_class": (Folder(**photos("train/"), **photos("val/", classes=("dark", "light", "red"))), "red"),
    "people": (Folder(**photos(classes=[f"p{n}" for n in range(8)], count=1)), "these are no classes"),
    "folders_of_texts": (Folder(**{f"{name}/{n}.txt": sentence(n) for name in ("pos", "neg") for n in range(6)}, **{"README": "x", "notes.txt": "x"}), "has no data of a known kind"),
    "alpaca.jsonl": (lines(300, lambda n: {"instruction": f"do {n}", "input": "", "output": f"done {n}"}), "'output' has answers to 'instruction'"),
    "questions.jsonl": (lines(300, lambda n: {"question": f"what is {n}", "answer": f"it is {n}"}), "'answer' has answers to 'question'"),
    "questions.csv": (rows(300, sentence, lambda n: f"it is {n}", header="question,answer"), "'answer' has answers to 'question'"),
    "squad.jsonl": (lines(300, lambda n: {"title": WORDS[n % 3], "context": sentence(n), "question": f"what is {n}", "answers": {"text": [f"{n}"]}}), "'answers' has answers to 'question'"),
    "dolly.jsonl": (lines(300, lambda n: {"instruction": f"do {n}", "context": "", "response": f"done {n}", "category": WORDS[n % 3]}), "'response' has answers to 'instruction'"),
    "prompts.csv": (rows(300, sentence, sentence, header="prompt,completion"), "'completion' has answers to 'prompt'"),
    "preferences.jsonl": (lines(300, lambda n: {"prompt": f"p {n}", "chosen": f"good {n}", "rejected": f"bad {n}"}), "of which one is preferred"),
    "conversations.jsonl": (lines(300, lambda n: {"chosen": [{"role": "user", "content": "q"}, answered(n)], "rejected": [{"role": "user", "content": "q"}, answered(-n)]}), "of which one is preferred"),
    "summaries.jsonl": (lines(300, lambda n: {"article": sentence(n) * 3, "highlights": sentence(n)}), "looks like a label"),
    "translations.csv": (rows(300, sentence, lambda n: f"satz {n}", header="en,de"), "300 different labels for 300 samples: these are no classes"),
    "names.csv": (rows(60, number, lambda n: f"person {n}", header="x,name"), "60 different labels for 60 samples: these are no classes"),
    "same_label.csv": (rows(60, number, lambda n: "yes", header="x,label"), "has one label, 'yes'"),
    "tools.jsonl": (lines(300, lambda n: {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [
        {"type": "function", "id": "1", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "5"}, answered(n)]}), "tools.jsonl:1"),
    "parts.jsonl": (lines(300, lambda n: {"messages": [{"role": "user", "content": [{"type": "text", "text": f"q{n}"}]}, answered(n)]}), "parts.jsonl:1"),
    "late.jsonl": ("".join(chat(n) + "\n" for n in range(1500)) + '{"messages": [{"role": "user"}]}\n', "late.jsonl:1501"),
    "lists.jsonl": (lines(60, lambda n: {"text": sentence(n), "labels": [["a"], ["a", "b"]][n % 2]}), "lists.jsonl:1: 'labels' should be a text or a number"),
    "tags.jsonl": (lines(60, lambda n: {"tokens": ["the", "king"], "ner_tags": [0, 1]}), "tags.jsonl:1: 'tokens' and 'ner_tags' are lists"),
    "one_without.jsonl": (lines(60, lambda n: {"text": sentence(n), "label": label(n)} if n != 30 else {"text": sentence(n)}), "one_without.jsonl:31"),
    "late_without.jsonl": (lines(1500, lambda n: {"text": sentence(n), "label": label(n)} if n != 1400 else {"text": sentence(n)}), "late_without.jsonl:1401"),
    "new_class": (Folder(**{"train.csv": rows(60, number, label, header="x,y"), "test.csv": rows(60, number, lambda n: WORDS[n % 3], header="x,y")}), "new_class/test.csv:2"),
    "short.txt": ("x", "short.txt"),
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
        self.assertGreaterEqual(len(TAKEN) + len(REFUSED), 100)
        for number, (name, (content, has)) in enumerate(TAKEN.items()):
            with self.subTest(name):
                if content is None:
                    self.skipTest("no pandas, or no pyarrow")
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
