"""Small HTTP servers on loopback, with or without TLS, for the lab's cloud services."""

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    context: ssl.SSLContext | None = None

    def finish_request(self, request: Any, client_address: Any) -> None:
        # In the connection's own thread: a client that is slow in its handshake holds up nobody else.
        if self.context is not None:
            request = self.context.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away; a handler answers for its own faults."""


class Handler(BaseHTTPRequestHandler):
    """A handler that keeps connections and reads each request whole before it answers."""

    protocol_version = "HTTP/1.1"
    # A small answer goes out at once instead of waiting for the client's acknowledgement of the last one.
    disable_nagle_algorithm = True

    def body(self) -> bytes:
        """Return the request's body, so that the next request on the connection starts where it should."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        """Send a complete answer; one to HEAD carries headers only."""
        self.send_response(status)
        given = headers or {}
        for name, value in given.items():
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name in given):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: addresses may carry signatures."""


class LoopbackServer:
    """A server on 127.0.0.1 that runs in threads of this process."""

    def __init__(self, handler: Callable[..., Handler]) -> None:
        self._handler = handler
        self._server: _Server | None = None
        self._secure = False

    def start(self, port: int = 0, ssl_context: ssl.SSLContext | None = None) -> int:
        """Listen on a port, or on any free one; return it. With a context, speak TLS."""
        if self._server is not None:
            raise RuntimeError("the server runs already")
        self._server = _Server(("127.0.0.1", port), self._handler)
        self._server.context = ssl_context
        self._secure = ssl_context is not None
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self.port

    def stop(self) -> None:
        """Stop listening; the state stays."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        if self._server is None:
            raise RuntimeError("the server does not run")
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The server's address, without a slash at its end."""
        return f"{'https' if self._secure else 'http'}://127.0.0.1:{self.port}"
