"""Whether Cloud Storage responds, before its clients try for minutes.

TensorFlow's client sends a request up to eleven times and holds the GIL meanwhile, so
that nothing in the process can end it.
"""

from __future__ import annotations

import http.client
import os
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from contracts.errors import UsageError
from contracts.storage import uris

_URL = "https://www.googleapis.com/storage/v1/b"  # of TensorFlow's client
_EMULATOR = "STORAGE_EMULATOR_HOST"  # of Google's, which Beam uses
_ATTEMPTS = 3
_PAUSE_SECONDS = 1.0
_TIMEOUT_SECONDS = 4.0  # for each address of a host
_DEADLINE_SECONDS = 20.0

_KEY = "GOOGLE_APPLICATION_CREDENTIALS"
_SAVED = "application_default_credentials.json"
_TOKEN = "GOOGLE_AUTH_TOKEN_FOR_TESTING"
_SKIP_METADATA = "NO_GCE_CHECK"
_METADATA_SECONDS = 3.0


def check(path: str) -> None:
    """Refuses a path of Cloud Storage that its clients would fail to read.

    Raises:
      UsageError: Cloud Storage does not respond, or the bucket is private and
        credentials are missing.
    """
    bucket = path.removeprefix(uris.OBJECT_STORE).partition("/")[0]
    problems: list[tuple[str, str] | None] = []
    # The look-up of a host's name has no timeout.
    thread = threading.Thread(
        target=lambda: problems.append(_find_problem(bucket)), daemon=True
    )
    thread.start()
    thread.join(_DEADLINE_SECONDS)
    no_response = _unreachable(f"no response in {_DEADLINE_SECONDS:g} s")
    if problem := problems[0] if problems else no_response:
        got, advice = problem
        raise UsageError(path, got, advice=advice, name="E-network-failed")


def _unreachable(reason: str) -> tuple[str, str]:
    return (
        f"Cloud Storage cannot be reached: {reason}",
        "correct the network or the proxy of this machine, or name a local copy",
    )


def _find_problem(bucket: str) -> tuple[str, str] | None:
    """Returns why a bucket cannot be read and what to do; None if it may be."""
    try:
        status = _request(f"{_URL}/{bucket}/o?maxResults=1")
        if "://" in os.environ.get(_EMULATOR, ""):
            _request(os.environ[_EMULATOR])
    except (OSError, http.client.HTTPException) as error:
        return _unreachable(str(error))
    if _has_credentials() or status != http.HTTPStatus.UNAUTHORIZED:
        return None
    return (
        "the bucket is private, and credentials are missing",
        "log in with `gcloud auth application-default login`, or name the file of a "
        f"service account's key in ${_KEY}",
    )


def _request(url: str) -> int | None:
    """Sends a request without credentials.

    Returns:
      The status of the response; None if this client cannot get it, but another may.

    Raises:
      OSError: The server does not respond.
      http.client.HTTPException: It is not HTTP.
    """
    proxies = urllib.request.getproxies()
    proxy = proxies.get("https") or proxies.get("all", "")
    if proxy.startswith("socks"):  # urllib has no such proxies
        return None
    for attempt in range(_ATTEMPTS):
        time.sleep(_PAUSE_SECONDS if attempt else 0)
        try:
            with _open(url, _TIMEOUT_SECONDS) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(reason, ssl.SSLError):  # of a certificate
                return None
    server = urllib.parse.urlsplit(url).hostname
    if proxy and url.startswith(_URL):
        address = urllib.parse.urlsplit(proxy).netloc.rpartition("@")[2]
        server = f"{server} through the proxy {address}"
    raise OSError(f"{server}: {reason}")


def _open(url: str, seconds: float, *handlers: urllib.request.BaseHandler) -> Any:
    # The variable is of TensorFlow's client.
    context = ssl.create_default_context(cafile=os.environ.get("CURL_CA_BUNDLE"))
    # `urlopen` would keep the proxies of its first call.
    opener = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=context), *handlers
    )
    return opener.open(url, timeout=seconds)


def _has_credentials() -> bool:
    """Returns whether a file or this machine may provide credentials.

    If the server of a machine's credentials is missing, clients skip it from now on:
    where its address drops packets, they try for minutes.
    """
    home = os.environ.get("CLOUDSDK_CONFIG", os.path.expanduser("~/.config/gcloud"))
    saved = os.path.join(home, _SAVED)
    if {_KEY, _TOKEN} & os.environ.keys() or os.path.exists(saved):
        return True
    if _SKIP_METADATA in os.environ:
        return False
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    no_proxy = urllib.request.ProxyHandler({})
    for _ in range(_ATTEMPTS):
        try:
            with _open(f"http://{host}", _METADATA_SECONDS, no_proxy) as response:
                if response.headers.get("Metadata-Flavor") == "Google":
                    return True
        except (OSError, http.client.HTTPException):
            continue
    os.environ[_SKIP_METADATA] = "true"
    return False
