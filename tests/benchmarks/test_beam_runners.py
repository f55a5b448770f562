"""The generated pairs that Beam's runners are compared on."""

from benchmarks import beam_runners
from ingest import examples
from pipeline.config.recipe import load_config
from pipeline.inputs.encoder_source import resolve_encoder


def test_recipe_names_generated_pairs_and_an_encoder_of_the_real_vocabulary(tmp_path):
    config = load_config(beam_runners.write_large(tmp_path / "large", 3))
    rows = list(examples.read_split(config.data_source, "eval", config.data))
    assert [row["idx"] for row in rows] == ["0", "1", "2"]
    assert all(" No. " in row["sentence1"] for row in rows)
    vocab = resolve_encoder(config).vocab_file
    with open(vocab, encoding="utf-8") as words:
        assert sum(1 for _ in words) == 30522
