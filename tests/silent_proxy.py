"""A proxy that accepts connections and never responds."""

import contextlib
import os
import socket

_PROXIES = ("http_proxy", "https_proxy", "grpc_proxy")


@contextlib.contextmanager
def listening():
    """Yields the proxy's socket, and the environment of a user who has set the proxy.

    The environment has no other variable of a proxy, such as `no_proxy`.
    """
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(30)
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        others = {
            name: value
            for name, value in os.environ.items()
            if not name.lower().endswith("_proxy")
        }
        yield proxy, others | dict.fromkeys(_PROXIES, address)
