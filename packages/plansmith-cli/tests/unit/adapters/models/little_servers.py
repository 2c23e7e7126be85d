"""Little model servers on real sockets of this machine, in the shapes that programs answer in."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OLLAMA = {
    "models": [
        {"name": "nomic-embed-text:latest", "details": {"families": ["nomic-bert"]}},
        {"name": "qwen3:8b", "model": "qwen3:8b", "details": {"families": ["qwen3"]}},
    ]
}
LM_STUDIO = {
    "object": "list",
    "data": [
        {"id": "text-embedding-nomic", "type": "embeddings", "state": "not-loaded"},
        {"id": "granite-3b", "type": "llm", "state": "loaded"},
    ],
}
LLAMA_CPP = {"object": "list", "data": [{"id": "mistral.gguf", "object": "model", "meta": {}}]}
VLLM = {"object": "list", "data": [{"id": "Qwen/Qwen3-8B", "max_model_len": 32768}]}


@contextmanager
def serving(
    *paths: str, says: object = None, status: int = 200, together: threading.Barrier | None = None
) -> Generator[str]:
    """A server that answers at these paths; with nothing to say it stays silent till the end.

    `together` holds the answer back until all others that share it are asked too.
    """
    end = threading.Event()
    texts: Mapping[str, object] = dict.fromkeys(paths, says)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if says is None:
                end.wait(60)
                return
            if together is not None:
                together.wait(20)
            known = self.path in texts
            body = says if isinstance(says, str) else json.dumps(says)
            data = body.encode() if known else b"not here"
            self.send_response(status if known else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its own name
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        end.set()
        server.shutdown()
        server.server_close()
        thread.join()
