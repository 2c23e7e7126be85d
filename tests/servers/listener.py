"""A server on a real socket that hears whatever is sent to it."""

from __future__ import annotations

import socket
import threading

REFUSED = b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"


class Listener:
    """Notes what it is sent, and answers the same to everybody."""

    def __init__(self, answer: bytes = REFUSED) -> None:
        self.heard: list[bytes] = []
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                self.heard.append(connection.recv(65536))
                connection.sendall(self._answer)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)
