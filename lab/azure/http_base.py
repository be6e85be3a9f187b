"""Where the lab's Azure services take their HTTP server from."""

from ..http_base import Handler, LoopbackServer

__all__ = ["Handler", "LoopbackServer"]
