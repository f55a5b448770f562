"""The server's token, over HTTP and on the page."""

import logging
import re

import pytest

from serving import tokens
from tests import browser
from tests.refusals import refused
from tests.serving.conftest import INSTANCES, running

SECRET = "0123456789abcdef-._~+/=="


@pytest.fixture(scope="module")
def server(stored):
    """A server that needs the token, of each kind of models."""
    with stored.running(token=tokens.Token(SECRET.encode())) as server:
        yield server


@pytest.fixture(scope="module")
def page_server(root):
    """A server that needs the token, for a browser."""
    with running(root, token=tokens.Token(SECRET.encode())) as server:
        yield server


def post(server, *authorizations):
    headers = [("Authorization", value) for value in authorizations]
    name = server.versions.name
    body = {"instances": [INSTANCES[name]]}
    return server.http.post(f"/v1/models/{name}:predict", json=body, headers=headers)


def test_request_with_the_token_is_predicted(server):
    for scheme in ("Bearer", "bearer", "BEARER"):
        response = post(server, f"{scheme} {SECRET}")
        assert response.status_code == 200
        assert len(response.json()["predictions"]) == 1


@pytest.mark.parametrize(
    "authorizations",
    [
        (),
        ("",),
        ("Bearer",),
        (SECRET,),
        (f"Basic {SECRET}",),
        (f"Bearer {SECRET[:-1]}",),
        (f"Bearer {SECRET}=",),
        (f"Bearer {SECRET.upper()}",),
        (b"Bearer \xff" + SECRET.encode(),),
        (f"Bearer {SECRET}", "Bearer other"),
    ],
)
def test_request_without_the_token_is_refused(server, authorizations):
    response = post(server, *authorizations)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer TOKEN" in response.json()["error"]
    assert SECRET not in response.text


@pytest.mark.parametrize(
    ("status", "paths"),
    [
        (200, "/ /page/page.js /healthz /readyz"),
        (401, "/metrics /monitoring/prometheus/metrics /page/../metrics"),
        (401, "/openapi.json /card /v1/models/NAME"),
        (401, "/v1/models/NAME/metadata /none"),
    ],
)
def test_health_and_page_alone_need_no_token(server, status, paths):
    for path in paths.replace("NAME", server.versions.name).split():
        assert server.http.get(path).status_code == status
        assert server.http.head(path).status_code == status


def test_document_describes_the_token_and_what_is_open(server):
    headers = {"Authorization": f"Bearer {SECRET}"}
    document = server.http.get("/openapi.json", headers=headers).json()
    scheme = document["components"]["securitySchemes"]["token"]
    assert scheme == {"type": "http", "scheme": "bearer"}
    assert document["security"] == [{"token": []}]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            is_open = server.http.get(path).status_code == 200
            assert (operation.get("security") == []) == is_open
            assert ("401" in operation["responses"]) == (not is_open)


def test_token_is_in_no_log_and_no_representation(root, caplog):
    caplog.set_level(logging.DEBUG)
    token = tokens.Token(SECRET.encode())
    with running(root, token=token, host="0.0.0.0") as server:
        post(server, f"Bearer {SECRET}")
        post(server, f"Bearer {SECRET}=")
    # `running` listens on loopback; the setting decides about the warning.
    assert "can reach 0.0.0.0 without --tls-cert;" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in repr(token)


def test_white_space_around_the_token_of_a_file_is_ignored(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"\n {SECRET}\r\n")
    assert tokens.read(path).allows(f"Bearer {SECRET}")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory"),
        (b"", "0 characters"),
        (b"two tokens-of-one-file", "22 characters"),
        (b"\xff" * 20, "20 characters"),
        (b"short", "5 characters"),
    ],
)
def test_file_without_a_token_is_refused(tmp_path, content, problem):
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    name = "E-storage-failed" if content is None else "E-token-refused"
    got = re.compile(f"{path}.* {problem}$")
    with refused(name, setting="token_file", got=got):
        tokens.read(path)


def test_token_that_everyone_can_read_is_a_warning(tmp_path, caplog):
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(SECRET)
    tokens.read(path)
    assert caplog.text == ""
    path.chmod(0o644)
    tokens.read(path)
    assert caplog.text.count("every user of this machine can read it") == 1
    assert SECRET not in caplog.text


@pytest.mark.slow
def test_page_asks_for_the_token_and_predicts_with_it(open_page, page_server):
    page = open_page(page_server.http.base_url, may_have_errors=True)  # a 401 is one
    field = page.get_by_label("Token", exact=True)
    field.wait_for()
    assert browser.axe_violations(page) == []
    field.fill("wrong")
    page.get_by_role("button", name="Use the token").click()
    page.get_by_text("The token is wrong").wait_for()
    assert page.locator("#links").is_hidden()
    field.fill(SECRET)
    field.press("Enter")
    field.wait_for(state="hidden")
    page.get_by_label("x", exact=True).fill("1")
    page.get_by_role("button", name="Predict", exact=True).click()
    page.get_by_text("3.5").first.wait_for()
    page.get_by_role("tab", name="curl").click()
    code = page.locator("#request-code").text_content()
    assert code.startswith('curl -H "Authorization: Bearer $TOKEN" -d ')
    assert SECRET not in page.url + page.content()
    stored = page.evaluate("JSON.stringify([localStorage, sessionStorage])")
    assert SECRET not in stored


@pytest.mark.slow
def test_late_refusal_of_an_earlier_token_does_not_remove_the_new_one(
    open_page, page_server
):
    page = open_page(page_server.http.base_url, may_have_errors=True)
    field = page.get_by_label("Token", exact=True)
    held = []

    def handle(route):
        if "wrong" in route.request.headers.get("authorization", ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/v1/models/half_plus_three", handle)
    field.fill("wrong")
    field.press("Enter")
    field.fill(SECRET)
    field.press("Enter")
    field.wait_for(state="hidden")
    assert held
    for route in held:
        with page.expect_response("**/v1/models/half_plus_three"):
            route.fulfill(status=401, json={"error": "no"})
    page.get_by_label("x", exact=True).fill("1")
    page.get_by_role("button", name="Predict", exact=True).click()
    page.get_by_text("3.5").first.wait_for()
    assert field.is_hidden()
    assert "ready" in page.locator("#state-text").text_content()
