"""A Spark cluster of a master and two workers computes what the default runner does."""

import pytest

from pipeline.config.errors import UsageError
from tests.e2e.finished_run import beam_work
from tools.spark_cluster import SparkCluster

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]


@pytest.fixture
def cluster(tmp_path):
    try:
        with SparkCluster(tmp_path / "cluster") as cluster:
            yield cluster
    except UsageError as error:
        pytest.skip(str(error))


def test_cluster_of_two_workers_computes_the_same(finished, cluster):
    beam_work.check(finished, cluster.beam)
