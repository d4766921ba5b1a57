"""The part of Weights & Biases' server that `wandb sync` calls: keeps the history rows that it sends. Nothing leaves this machine."""
import gzip
import http.server
import json
import threading

VIEWER = {"viewer": {"id": "1", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}},
          "serverInfo": {"cliVersionInfo": {"max_cli_version": "0.99.0"}}}


def upserted(name):
    project = {"id": "p", "name": "project", "entity": {"id": "e", "name": "me"}}
    return {"upsertBucket": {"inserted": True, "bucket": {"id": "b", "name": name, "displayName": name, "description": "", "config": "{}",
                                                          "sweepName": None, "historyLineCount": 0, "project": project}}}


class WandbServer:
    def __init__(self):
        self.rows = {}  # by their place in the history: what is sent again replaces what was sent
        self.is_complete = False
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.headers.get("Content-Encoding") == "gzip":
                    raw = gzip.decompress(raw)
                is_json = raw.startswith(b"{")  # the client's own log and its archives are not
                self.answer(server.handle(self.path, json.loads(raw)) if is_json else {})

            def do_PUT(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.answer({})

            def answer(self, content):
                body = json.dumps(content).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def handle(self, path, request):
        if path.endswith("file_stream"):
            history = (request.get("files") or {}).get("wandb-history.jsonl", {"offset": 0, "content": []})
            for number, row in enumerate(history["content"], history["offset"]):
                self.rows[number] = json.loads(row)
            self.is_complete = self.is_complete or bool(request.get("complete"))
            return {"exitcode": None}
        query = request.get("query", "")
        if "upsertBucket" in query:
            return {"data": upserted(request["variables"].get("name") or "run")}
        return {"data": VIEWER if "viewer" in query.lower() else {}}

    def curves(self):
        curves = {}
        for row in self.rows.values():
            for name, value in row.items():
                if not name.startswith("_"):
                    curves.setdefault(name, {})[row["_step"]] = value
        return curves
