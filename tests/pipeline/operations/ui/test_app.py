"""The web view without a browser."""

import re

import httpx
import pytest

from pipeline.operations.record import Progress, ProgressFile, read_progress
from pipeline.operations.ui.app import POLICY
from pipeline.operations.ui.entries import list_entries
from report import page
from tests.pipeline.operations.ui import sample_output
from tests.pipeline.operations.ui.conftest import serving
from tests.pipeline.operations.ui.sample_output import (
    FAILED,
    FIRST,
    REFUSED,
    RUNNING,
    SECOND,
)


@pytest.fixture(scope="module")
def client(address):
    with httpx.Client(base_url=address, timeout=60) as client:
        yield client


def keys_in(text):
    return re.findall(r'name="run" value="([^"]+)"', text)


def test_all_runs_are_listed_the_newest_first(client):
    text = client.get("/").text
    assert keys_in(text) == [f"0/{i}" for i in (FAILED, SECOND, FIRST, REFUSED)]
    assert "below the threshold &lt;b&gt;0.85" in text
    assert "version 1795548948931" in text


def test_runs_of_several_outputs_are_distinguished(paths, past):
    past.run("interrupted", id=FIRST)
    with serving([paths.root, past.paths.root]) as address:
        table = httpx.get(address).text
        run = httpx.get(f"{address}/runs/1/{FIRST}").text
    assert f"1/{FIRST}" in keys_in(table)
    assert "interrupted" in run
    names = re.findall(r'href="/runs/[^"]*">([^<]+)</a></th>', table)
    assert len(names) == len(set(names)) == 5
    assert sum("02:00:00" in name for name in names) == 2  # both began at once


def test_an_output_without_runs(tmp_path):
    with serving([tmp_path]) as address:
        assert "There are no runs yet" in httpx.get(address).text
        assert httpx.get(f"{address}/curves").text.strip() == ""


def test_a_report_allows_only_its_own_script(client):
    response = client.get(f"/runs/0/{REFUSED}")
    policy = response.headers["content-security-policy"]
    assert policy == f"{page.policy()}; frame-ancestors 'none'"
    assert "accuracy is 0.8100, the threshold is 0.8500" in response.text
    assert 'href="/">All runs' in response.text


def test_a_run_without_a_report_shows_its_end(client):
    text = client.get(f"/runs/0/{FAILED}").text
    assert "no space left on device" in text
    assert "&lt;b&gt;the end&lt;/b&gt;" in text
    log = client.get(f"/runs/0/{FAILED}/log")
    assert log.headers["content-type"].startswith("text/plain")
    assert log.text.endswith("<b>the end</b>\n")


@pytest.mark.parametrize("number", [1, 99])
def test_a_report_of_another_release_is_left_out_and_named(client, paths, number):
    path = paths.run(FAILED) / "report.json"
    path.write_text(f'{{"format": {number}}}')
    text = client.get(f"/runs/0/{FAILED}").text
    assert "This run has no report" in text
    assert f"its format is {number}; allowed: 2, which this release reads" in text
    path.unlink()


def test_files_that_are_directories_are_left_out(client, paths):
    for name in ("report.json", "progress.json"):
        (paths.run(FAILED) / name).mkdir()
    try:
        assert client.get(f"/runs/0/{FAILED}").status_code == 200
        assert client.get("/curves").status_code == 200
    finally:
        for name in ("report.json", "progress.json"):
            (paths.run(FAILED) / name).rmdir()


@pytest.mark.parametrize(
    "path",
    ["/runs/0/none", "/runs/none/none", "/runs/7/" + FIRST, "/runs/0/..%2F..", "/none"],
)
def test_what_does_not_exist_is_not_found(client, path):
    response = client.get(path)
    assert response.status_code == 404
    assert "Traceback" not in response.text


@pytest.mark.parametrize("path", ["/", "/style.css", "/none", "/compare?run=1"])
def test_every_response_has_the_policy(client, path):
    headers = client.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"


def test_head_has_the_status_and_headers_of_get_but_no_body(client):
    for path in ("/", "/live", "/style.css", "/none"):
        head, get = client.head(path), client.get(path)
        assert head.status_code == get.status_code
        assert head.content == b""
        assert head.headers.keys() == get.headers.keys()
        assert head.headers["content-length"] == get.headers["content-length"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_it_only_reads(client, method):
    assert client.request(method, "/").status_code == 405


def test_pages_of_other_sites_are_refused(client):
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 400
    origin = {"Origin": "http://evil.example"}
    assert client.get("/", headers=origin).status_code == 403


PATHS = ["/", "/live", "/curves", "/compare/result", "/style.css", "/none"]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("mode", ["no-cors", "cors", "navigate"])
def test_what_pages_of_other_sites_load_is_refused(client, site, mode):
    destination = "iframe" if mode == "navigate" else "image"
    headers = fetch_metadata(site, mode, destination)
    for path in PATHS:
        response = client.get(path, headers=headers)
        assert response.status_code == 403
        assert (
            f"another site sent this request (Sec-Fetch-Site: {site})"
            in (response.json()["error"])
        )
        assert response.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("path", ["/", f"/runs/0/{REFUSED}"])
def test_links_of_other_sites_are_followed(client, path):
    headers = fetch_metadata("cross-site", "navigate", "document")
    assert client.get(path, headers=headers).status_code == 200


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_requests_of_the_page_and_the_address_bar_are_allowed(client, site):
    headers = fetch_metadata(site, "cors", "empty")
    assert client.get("/live", headers=headers).status_code == 200


def fetch_metadata(site, mode, destination):
    return {
        "Sec-Fetch-Site": site,
        "Sec-Fetch-Mode": mode,
        "Sec-Fetch-Dest": destination,
    }


@pytest.mark.parametrize("count", [0, 1, 7])
def test_fewer_than_two_or_too_many_runs_are_not_compared(client, count):
    response = client.get("/compare", params={"run": [f"0/{FIRST}"] * count})
    assert response.status_code == 400
    assert "allowed: 2 to 6" in response.text


def test_a_comparison_has_tests_settings_and_rows(client):
    keys = {"run": [f"0/{SECOND}", f"0/{FIRST}"]}
    text = client.get("/compare/result", params=keys).text
    assert re.search(r"accuracy is 0\.\d+ (higher|lower)", text)
    assert "trainer.seed" in text
    assert re.search(r"The news of day \d+", text)


def test_runs_that_cannot_be_compared_are_refused(client):
    keys = {"run": [f"0/{SECOND}", f"0/{FAILED}"]}
    response = client.get("/compare/result", params=keys)
    assert response.status_code == 400
    assert "Traceback" not in response.text


def test_curves_are_those_of_the_chosen_runs(client):
    text = client.get("/curves", params={"run": [f"0/{FIRST}", f"0/{SECOND}"]}).text
    assert text.count("<figure>") == 2
    assert "2025-11-25 02:00:00" in text
    assert "2025-11-25 01:00:00" not in text
    assert "2025-11-25 01:00:00" in client.get("/curves").text  # of the newest


def test_start_is_shown_in_the_time_zone_of_the_web_view(client, zone):
    zone("Asia/Tokyo")
    assert "2025-11-25 13:00:00 JST" in client.get(f"/runs/0/{FAILED}").text


def test_an_unfinished_run_is_live(client, paths):
    assert client.get("/live").text.strip() == ""
    with sample_output.running(paths) as train:
        train(2)
        text = client.get("/live").text
        assert '<progress max="40" value="20">' in text
        assert "loss 0.520" in text
        assert "about 21.0 s left" in text
        entries, _ = list_entries([paths.root])
        (entry,) = (e for e in entries if e.record.id == RUNNING)
        assert entry.losses.y == sample_output.LOSSES[:2]
    assert client.get("/live").text.strip() == ""  # its process ended


def test_progress_is_written_once_a_second_at_most(tmp_path):
    file = ProgressFile(tmp_path)
    assert read_progress(tmp_path) == Progress()
    for name in ("a", "b", "c"):
        components = [{"name": name, "state": "running"}]
        progress = Progress.model_validate({"components": components})
        file.write(progress, is_urgent=name == "c")
        shown = {"a": "a", "b": "a", "c": "c"}[name]
        assert read_progress(tmp_path).components[0].name == shown
