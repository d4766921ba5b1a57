"""The part of MLflow's REST interface that a tracker calls, in memory, as its SQL store behaves: a value of the same key, step, time and number is kept once."""
import http.server
import json
import threading
import time
import urllib.parse


class MlflowServer:
    def __init__(self, port=0):
        self.experiments = {}  # name -> id
        self.runs = {}  # id -> {"info", "params", "tags", "metrics": set of (key, step, timestamp, value)}
        self.authorization = set()
        self.hangs = threading.Event()
        self.refuses = False
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.answer({key: values[0] for key, values in urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query).items()})

            def do_POST(self):
                self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def answer(self, request):
                server.authorization.add(self.headers.get("Authorization"))
                while server.hangs.is_set():
                    time.sleep(0.05)
                status, answer = server.handle(urllib.parse.urlparse(self.path).path.removeprefix("/api/2.0/mlflow/"), request)
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.http.handle_error = lambda *request: None  # a client that has waited long enough closes the connection
        self.http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self):
        self.hangs.clear()
        self.http.shutdown()
        self.http.server_close()

    def handle(self, endpoint, request):
        missing = 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "it does not exist"}
        if self.refuses:
            return 403, {"error_code": "PERMISSION_DENIED", "message": "Permission denied"}
        if endpoint == "experiments/get-by-name":
            found = self.experiments.get(request["experiment_name"])
            return (200, {"experiment": {"experiment_id": found}}) if found else missing
        if endpoint == "experiments/create":
            self.experiments[request["name"]] = str(len(self.experiments) + 1)
            return 200, {"experiment_id": self.experiments[request["name"]]}
        if endpoint == "runs/search":
            key = request["filter"].split("'")[1]
            found = [run for run in self.runs.values() if run["tags"].get("trainctl.run_key") == key]
            return 200, {"runs": [{"info": run["info"]} for run in found]}
        if endpoint == "runs/create":
            run_id = f"run{len(self.runs) + 1}"
            info = {"run_id": run_id, "experiment_id": request["experiment_id"], "lifecycle_stage": "active", "status": "RUNNING"}
            self.runs[run_id] = {"info": info, "params": {}, "tags": {tag["key"]: tag["value"] for tag in request["tags"]}, "metrics": set()}
            return 200, {"run": {"info": info}}
        run = self.runs.get(request["run_id"])
        if run is None:
            return missing
        if endpoint == "runs/get":
            return 200, {"run": {"info": run["info"]}}
        if endpoint == "runs/update":
            run["info"].update(request)
            return 200, {}
        assert endpoint == "runs/log-batch", endpoint
        assert len(request.get("metrics", [])) <= 1000 and len(request.get("params", [])) <= 100 and len(request.get("tags", [])) <= 100
        run["params"].update({param["key"]: param["value"] for param in request.get("params", [])})
        run["tags"].update({tag["key"]: tag["value"] for tag in request.get("tags", [])})
        run["metrics"] |= {(m["key"], m["step"], m["timestamp"], m["value"]) for m in request.get("metrics", [])}
        return 200, {}

    def curves(self):
        """Of the only run: each key's values by step, of the newest time."""
        (run,) = self.runs.values()
        curves = {}
        for key, step, _, value in sorted(run["metrics"], key=lambda m: m[2]):
            curves.setdefault(key, {})[step] = value
        return curves
