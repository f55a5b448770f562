"""Job servers of pipelines on Flink."""

from apache_beam.options.pipeline_options import PipelineOptions

from pipeline.beam.flink_runner import FlinkRunner


def job_server(*arguments):
    return FlinkRunner().default_job_server(PipelineOptions(list(arguments)))


def test_pipelines_of_a_process_share_a_job_server():
    first = job_server("--flink_master=localhost:1")
    assert job_server("--flink_master=localhost:1") is first


def test_another_cluster_or_jar_has_a_job_server_of_its_own():
    first = job_server("--flink_master=localhost:1")
    assert job_server("--flink_master=localhost:2") is not first
    jar = "--flink_job_server_jar=other.jar"
    assert job_server("--flink_master=localhost:1", jar) is not first


def test_pipelines_that_submit_a_jar_themselves_share_nothing():
    arguments = "--flink_master=localhost:1", "--flink_submit_uber_jar"
    assert job_server(*arguments) is not job_server(*arguments)
