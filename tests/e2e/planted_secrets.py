"""Secrets in the environment of a run, of the kinds that its libraries read."""

import base64
import json
from pathlib import Path

SECRET = "planted-3b9d0a"
VARIABLES = (
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("GOOGLE_API_KEY", "GOOGLE_AUTH_TOKEN_FOR_TESTING"),
    *("HF_TOKEN", "KAGGLE_KEY", "SECRET"),
    *("KF_PIPELINES_TOKEN", "KF_PIPELINES_COOKIES"),
    "KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET",
)


def plant(monkeypatch, directory: Path) -> None:
    """Sets the variables, and a file with a key of a service account."""
    for name in VARIABLES:
        monkeypatch.setenv(name, SECRET)
    key = directory / "service-account.json"
    key.write_text(json.dumps({"type": "service_account", "private_key": SECRET}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    monkeypatch.setenv("FTP_PROXY", f"http://user:{SECRET}@proxy.invalid:1")


def find(directory: Path) -> list[str]:
    """Returns the files below a directory with the secret in their name or content."""
    encoded = base64.b64encode(SECRET.encode()).rstrip(b"=")
    forms = (SECRET.encode(), SECRET.encode("utf-16-le"), encoded)
    return [
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if SECRET in path.name
        or (path.is_file() and any(form in path.read_bytes() for form in forms))
    ]
