"""The Prometheus metrics."""

import time

from tests.serving.conftest import VERSION


def test_requests_are_counted_by_api_signature_and_status(half_plus_three):
    half_plus_three.post("half_plus_three:predict", instances=[1.0])
    half_plus_three.post("half_plus_three:predict", instances=["a"])
    half_plus_three.post("half_plus_three:predict", signature_name="made up")
    for path in ("/metrics", "/monitoring/prometheus/metrics"):
        text = half_plus_three.http.get(path).text
        for signature, code in (
            ("serving_default", 200),
            ("serving_default", 400),
            ("unknown", 400),
        ):
            labels = f'api="predict",code="{code}",signature="{signature}"'
            assert f'serving_requests_total{{{labels},transport="REST"}}' in text
        assert "made up" not in text
        assert "serving_request_seconds_bucket" in text
        assert "serving_batch_rows_bucket" in text
        assert "serving_queued_rows 0.0" in text
        assert "serving_loaded_versions 1.0" in text
        assert 'serving_load_seconds{version="123"}' in text


def test_age_of_a_model_is_the_time_since_its_push(pairs, half_plus_three):
    age = pairs.sample("serving_model_age_seconds", version=VERSION)
    assert abs(age - (time.time() - int(VERSION) / 1000)) < 60
    # 123 is not a time: the file was written by this test run.
    age = half_plus_three.sample("serving_model_age_seconds", version="123")
    assert 0 <= age < 3600
