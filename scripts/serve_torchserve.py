#!/usr/bin/env python3
"""Starts the real TorchServe on loopback with an archive of `trainctl export --format mar`, and asks it.

  serve_torchserve.py store/NAME.mar                     serves until Ctrl-C, after printing how to ask
  serve_torchserve.py store/NAME.mar --input FILE...     asks about each input, prints a JSON line for each, and stops the server

Inputs are as `trainctl predict` takes them: images; or files of texts, a line each (lines of .jsonl are sent as they are). With --requests N the
inputs are asked about again and again, N times in all; the lines are of the first round. Speed and errors are told on standard error, and any
error makes the exit code 1.

TorchServe 0.12 comes from the Python package index and needs Java 17: scripts/setup.sh --tests gets both. It is no longer developed upstream; see
docs/export.md for what to use instead. Ports are free ones, tokens are on, and everything that the server writes goes into a directory that is
removed with it.
"""
import argparse
import concurrent.futures
import contextlib
import http.client
import importlib.util
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH_DELAY_MS = 2
STOP_SECONDS = 60
# A line for each request and each measurement would cost as much as a small network.
LOGGING = """<Configuration>
  <Appenders><Console name="console"><PatternLayout pattern="%d{ISO8601} [%p] %c - %m%n"/></Console></Appenders>
  <Loggers>
    <Root level="info"><AppenderRef ref="console"/></Root>
    <Logger name="ACCESS_LOG" level="off"/> <Logger name="TS_METRICS" level="off"/> <Logger name="MODEL_METRICS" level="off"/>
  </Loggers>
</Configuration>
"""


class Failure(Exception):
    pass


def say(text):
    print(f"serve_torchserve: {text}", file=sys.stderr, flush=True)


def python_with_torchserve():
    """This Python, or that of scripts/setup.sh."""
    if importlib.util.find_spec("ts") and importlib.util.find_spec("torch"):
        return sys.executable
    ours = ROOT / ".deps/python/bin/python3"
    if ours.exists() and subprocess.run([ours, "-c", "import importlib.util as i, sys; sys.exit(not i.find_spec('ts'))"]).returncode == 0:
        return str(ours)
    raise Failure("torchserve is not installed; try: scripts/setup.sh --tests, or pip install torchserve==0.12.0")


def check_java():
    home = os.environ.get("JAVA_HOME")
    if not shutil.which(f"{home}/bin/java" if home else "java"):
        raise Failure("there is no java; try: apt-get install default-jre-headless")


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Server:
    """TorchServe in a directory of its own: two of them don't meet, as they would in /tmp."""

    def __init__(self, archive, options):
        self.archive, self.options = archive, options
        self.name = archive_model(archive)["modelName"]
        self.python = python_with_torchserve()
        check_java()
        self.process = None
        self.deadline = time.monotonic() + options.start_timeout

    def __enter__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="torchserve-"))
        try:
            self.start()
            self.register()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.inference, self.management, metrics, grpc, grpc_management = free_ports(5)
        if self.options.port:
            self.inference = self.options.port
        store = self.directory / "store"
        store.mkdir()
        shutil.copy(self.archive, store)
        settings = {
            "inference_address": f"http://127.0.0.1:{self.inference}", "management_address": f"http://127.0.0.1:{self.management}",
            "metrics_address": f"http://127.0.0.1:{metrics}", "grpc_inference_port": grpc, "grpc_management_port": grpc_management,
            "enable_model_api": "true", "disable_system_metrics": "true", "token_expiration_min": 60 * 24 * 365,
            "default_response_timeout": self.options.start_timeout, "default_startup_timeout": self.options.start_timeout,
            "job_queue_size": 1000, "number_of_netty_threads": 2, "netty_client_threads": 2,
        }
        (self.directory / "config.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        (self.directory / "log4j2.xml").write_text(LOGGING)
        command = ["--start", "--foreground", "--no-config-snapshots", "--ts-config", "config.properties", "--log-config", "log4j2.xml",
                   "--model-store", "store"]
        with open(self.directory / "server.log", "w") as log:
            self.process = self.torchserve(subprocess.Popen, command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def torchserve(self, call, arguments, **more):
        """Its own command, with its process file, sockets and unpacked models in our directory."""
        environment = {**os.environ, "TMPDIR": str(self.directory), "TEMP": str(self.directory)}
        code = "from ts.model_server import start; start()"
        return call([self.python, "-c", code, *arguments], cwd=self.directory, env=environment, stdin=subprocess.DEVNULL, **more)

    def register(self):
        while not self.is_up():
            if self.process.poll() is not None:
                raise Failure(f"TorchServe ended at its start; it said:\n{self.log()}")
            if time.monotonic() > self.deadline:
                raise Failure(f"TorchServe was not up after {self.options.start_timeout} s; it said:\n{self.log()}")
            time.sleep(0.2)
        query = (f"url={self.archive.name}&initial_workers={self.options.workers}&synchronous=true&batch_size={self.options.batch_size}"
                 f"&max_batch_delay={BATCH_DELAY_MS}&startup_timeout={self.options.start_timeout}")
        connection = http.client.HTTPConnection("127.0.0.1", self.management, timeout=self.options.start_timeout)
        status, answer = ask(connection, "POST", f"/models?{query}", self.tokens["management"]["key"])
        if status != 200:
            raise Failure(f"TorchServe does not take {self.archive} ({status}): {answer.decode(errors='replace').strip()}\nit said:\n{self.log()}")

    def is_up(self):
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            self.tokens = json.loads((self.directory / "key_file.json").read_text())
            self.token = self.tokens["inference"]["key"]
            status, _ = ask(http.client.HTTPConnection("127.0.0.1", self.inference, timeout=10), "GET", "/ping", self.token)
            return status == 200
        return False

    def log(self):
        return "".join((self.directory / "server.log").read_text(errors="replace").splitlines(keepends=True)[-30:])

    def stop(self):
        if self.process is not None:
            self.torchserve(subprocess.run, ["--stop", "--foreground"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=2 * STOP_SECONDS)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
            with contextlib.suppress(ProcessLookupError):  # workers that outlived it
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None
        shutil.rmtree(self.directory, ignore_errors=True)


def archive_model(archive):
    try:
        with zipfile.ZipFile(archive) as opened:
            return json.loads(opened.read("MAR-INF/MANIFEST.json"))["model"]
    except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise Failure(f"{archive} is no TorchServe archive ({error}); trainctl export --format mar writes one")


def ask(connection, method, path, token=None, body=None, kind=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if kind:
        headers["Content-Type"] = kind
    connection.request(method, path, body=body, headers=headers)
    response = connection.getresponse()
    return response.status, response.read()


def inputs_of(archive, files):
    """(what it is called, content, its type) of each input, as `trainctl predict` reads them."""
    with zipfile.ZipFile(archive) as opened:
        names = [entry["name"] for entry in json.loads(opened.read("model.json"))["inputs"]]
    for file in files:
        try:
            content = pathlib.Path(file).read_bytes()
        except OSError as error:
            raise Failure(f"cannot read {file}: {error.strerror}")
        if names == ["images"]:
            yield {"input": file}, content, "application/octet-stream"
            continue
        for number, line in enumerate(content.splitlines(), 1):
            if line.strip():
                yield {"input": file, "line": number}, line, "application/json" if file.endswith(".jsonl") else "text/plain"


class Clients:
    """Some connections that are kept, each with a thread."""

    def __init__(self, server):
        self.server, self.mine = server, threading.local()

    def __call__(self, given):
        called, content, kind = given
        begin = time.perf_counter()
        try:
            if not hasattr(self.mine, "connection"):
                self.mine.connection = http.client.HTTPConnection("127.0.0.1", self.server.inference, timeout=self.server.options.start_timeout)
            status, body = ask(self.mine.connection, "POST", f"/predictions/{self.server.name}", self.server.token, content, kind)
            answer = json.loads(body)
            if status != 200:
                answer = {"error": f"{status}: {answer.get('message', answer)}"}
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.mine.__dict__.clear()
            answer = {"error": f"{type(error).__name__}: {error}"}
        return {**called, **answer}, time.perf_counter() - begin


def ask_all(server, inputs, options):
    """The number of errors."""
    count = options.requests or len(inputs)
    begin = time.perf_counter()
    errors, times = 0, []
    with concurrent.futures.ThreadPoolExecutor(options.clients) as pool:
        asked = itertools.islice(itertools.cycle(inputs), count)
        for number, (answer, seconds) in enumerate(pool.map(Clients(server), asked)):
            times.append(seconds)
            errors += "error" in answer
            if number < len(inputs):
                print(json.dumps(answer, ensure_ascii=False))
            elif "error" in answer:
                say(f"request {number + 1}: {answer['error']}")
    seconds = time.perf_counter() - begin
    times.sort()
    say(f"{count:,} requests, {errors or 'no'} error{'s' * (errors > 1)}; {count / seconds:.0f} requests/s from {options.clients} clients; median "
        f"{1e3 * times[count // 2]:.1f} ms, 99th percentile {1e3 * times[(99 * count) // 100]:.1f} ms")
    return errors


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    number = lambda text: int(text) if int(text) > 0 else parser.error(f"expected a number above 0, got {text}")  # noqa: E731
    parser.add_argument("archive", type=pathlib.Path)
    parser.add_argument("--input", nargs="+", default=[], metavar="FILE")
    parser.add_argument("--requests", type=number, default=0, metavar="N")
    parser.add_argument("--clients", type=number, default=4, help="that ask at the same time (default %(default)s)")
    parser.add_argument("--workers", type=number, default=1, help="processes that answer (default %(default)s)")
    parser.add_argument("--batch-size", type=number, default=8, help="inputs that are put together (default %(default)s)")
    parser.add_argument("--port", type=number, default=0, help="for requests (default a free one)")
    parser.add_argument("--start-timeout", type=number, default=300, metavar="SECONDS")
    return parser.parse_args()


def main():
    options = read_options()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        archive_model(options.archive)
        inputs = list(inputs_of(options.archive, options.input))
        if options.input and not inputs:
            raise Failure("the files have no inputs")
        with Server(options.archive.resolve(), options) as server:
            if inputs:
                return 1 if ask_all(server, inputs, options) else 0
            say("up. Ctrl-C stops it. To ask:")
            print(f"curl http://127.0.0.1:{server.inference}/predictions/{server.name} -H 'Authorization: Bearer {server.token}' -T FILE", flush=True)
            server.process.wait()
            raise Failure(f"TorchServe ended; it said:\n{server.log()}")
    except Failure as failure:
        say(failure)
    except KeyboardInterrupt:
        say("stopped")
    return 1


if __name__ == "__main__":
    sys.exit(main())
