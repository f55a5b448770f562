"""The figures of a report."""

import functools
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from contracts.records.data import Lengths
from report import curves, plots
from report.content import Batch, Classification, Curve
from tests.report import sample_parts, samples

PUSHED = samples.pushed()
MANY = samples.classes(60)
FIGURES = {
    "losses": lambda: curves.losses(PUSHED.training),
    "evaluations": lambda: curves.evaluations(PUSHED.training, "accuracy"),
    "other evaluations": lambda: curves.other_evaluations(PUSHED.training),
    "learning rate": lambda: curves.learning_rate(PUSHED.training),
    "precision-recall": lambda: plots.precision_recall(
        PUSHED.classification.precision_recall
    ),
    "reliability": lambda: plots.reliability(PUSHED.classification),
    "abstention": lambda: plots.abstention(PUSHED.abstention),
    "confusion": lambda: plots.confusion(MANY.classification, MANY.task.classes),
    "scores": lambda: plots.scores(samples.regression().regression),
    "lengths": lambda: plots.lengths("train", PUSHED.data.profile["train"].lengths, 64),
    "batch": lambda: plots.batch(PUSHED.batch)[0],
}


@functools.cache
def drawn(kind):
    return FIGURES[kind]()


def parse(figure):
    return ElementTree.fromstring(figure)


def description(figure):
    return parse(figure).find("desc").text


@pytest.mark.parametrize("kind", FIGURES)
def test_a_figure_is_an_image_in_the_colours_of_the_page(kind):
    figure = drawn(kind)
    root = parse(figure)
    assert root.get("role") == "img"
    assert root.find("title").text
    assert re.search(r"\d", root.find("desc").text)
    assert "currentColor" in figure
    assert not re.search(r"#0000\d\d|style|\d{4}-\d\d-\d\d|http", figure)
    assert FIGURES[kind]() == figure  # no time, no random id


def test_the_ids_of_figures_differ():
    ids = re.findall(r' id="([^"]+)', "".join(map(drawn, FIGURES)))
    assert len(set(ids)) == len(ids)


def test_the_description_of_the_losses_has_those_of_every_seed():
    text = description(drawn("losses"))
    for seed in PUSHED.training.seeds:
        assert f"eed {seed.seed}: training loss from" in text
    assert "validation loss from 0.67 at step 38 to 0.31 at step 152" in text


def test_the_best_step_of_each_seed_has_a_ring():
    figure = drawn("evaluations")
    rings = re.findall(r'<use x="([\d.]+)"[^>]*fill-opacity="0"', figure)
    (step, *others) = rings[: len(PUSHED.training.seeds)]
    assert others == [step] * 2  # all seeds were best at the same step


def test_a_training_without_evaluations_has_its_loss():
    training = PUSHED.training.model_copy(deep=True)
    for seed in training.seeds:
        seed.evaluations = {}
    assert "training loss" in description(curves.losses(training))
    assert curves.other_evaluations(training) == ""


def test_training_shorter_than_its_summary_interval_has_its_evaluations():
    training = PUSHED.training.model_copy(deep=True)
    nothing = Curve(x=[], y=[])
    training.learning_rates = nothing
    for seed in training.seeds:
        seed.losses = nothing
    assert curves.learning_rate(training) == ""
    text = description(curves.losses(training))
    assert "training loss unknown, validation loss from 0.67" in text


def test_long_curves_are_thinned_to_their_ends():
    steps = np.arange(100_000, dtype=float)
    x, y = curves.points_of(Curve(x=steps.tolist(), y=(steps / 2).tolist()))
    assert len(x) == 300
    assert (x[0], x[-1], y[-1]) == (0, 99_999, 99_999 / 2)


def test_curves_of_runs_are_laid_over_each_other():
    seed = PUSHED.training.seeds[0]
    names = {f"run {index}": seed.losses for index in range(8)}
    figure = curves.overlay("figure-runs", "Loss of runs", names, "loss")
    assert all(name in figure for name in names)


def test_the_worst_of_many_classes_stand_out():
    curves = MANY.classification.precision_recall
    text = description(plots.precision_recall(curves))
    worst = min(curves, key=lambda curve: curve.average_precision)
    assert text.casefold().startswith(f"{worst.class_name}: average precision")
    assert text.endswith("; 55 further classes are better.")


def test_class_without_rows_is_not_among_the_worst():
    curves = MANY.classification.precision_recall
    missing = curves[7].model_copy(
        update={"curve": Curve(x=[], y=[]), "average_precision": math.nan}
    )
    curves = [*curves[:7], missing, *curves[8:]]
    text = description(plots.precision_recall(curves))
    worst = min(c.average_precision for c in curves if c.curve.x)
    assert f"average precision {worst:.3f}" in text.partition(",")[0]
    assert "NaN" not in text
    assert plots.precision_recall([missing]) == ""


def test_bins_without_rows_are_left_out():
    classification = PUSHED.classification
    text = description(drawn("reliability"))
    filled = [b for b in classification.calibration if b.rows]
    assert text.count("% correct") == len(filled) < len(classification.calibration)


def test_bins_of_several_labels_are_of_the_probability_of_a_label():
    classification = sample_parts.classification(["no", "yes"], 200)
    classification.label_rows = [20, 30]
    text = description(plots.reliability(classification))
    assert "probability of a label 0.5 to 0.6: " in text
    assert " labels, mean " in text
    assert "% with it" in text
    assert "correct" not in text


def test_heat_maps_hold_the_tensors_of_the_batch_without_padding():
    batch = Batch(
        input_word_ids=[[2, 6, 3, 0], [2, 6, 7, 3]],
        input_mask=[[1, 1, 1, 0], [1, 1, 1, 1]],
        input_type_ids=[[0, 0, 1, 0], [0, 0, 1, 1]],
    )
    picture = plots.batch_picture(batch)
    images = {
        axes.get_title(): axes.images[0]
        for part in picture.subfigs
        for axes in part.axes
        if axes.images
    }
    expected = {
        "ids": [[2, 6, 3, None], [2, 6, 7, 3]],
        "mask": [[1, 1, 1, None], [1, 1, 1, 1]],
        "segments": [[0, 0, 1, None], [0, 0, 1, 1]],
    }
    assert {name: i.get_array().tolist() for name, i in images.items()} == expected
    pixels = images["ids"].to_rgba(images["ids"].get_array())
    assert pixels[0, 3, 3] == 0  # transparent
    assert pixels[1, 3, 3] == 1
    assert len({tuple(pixel) for pixel in pixels.reshape(-1, 4)}) == 5
    text = description(plots.batch(batch)[1])
    assert text.startswith("2 rows of 4 positions; 7 tokens, 87.5 % of them filled")


def test_no_rows_at_all():
    nothing = Classification(
        confusion=[[0, 0], [0, 0]],
        precision_recall=[],
        calibration=[],
        expected_calibration_error=math.nan,
    )
    assert "NaN" in description(plots.reliability(nothing))
    zeros = dict.fromkeys(
        ("cut_rows", "cut_tokens", "unknown_share", "tokens_per_word"), 0
    )
    histogram = Lengths(edges=[0, 1], counts=[0], **zeros)
    assert "0 rows" in description(plots.lengths("eval", histogram, 64))


@pytest.mark.parametrize("text", samples.HOSTILE_TEXTS)
def test_texts_of_the_data_are_drawn_as_they_are(text):
    classification = sample_parts.classification([text, "other", "third"], 100)
    figure = plots.precision_recall(classification.precision_recall)
    assert len(figure) < 100_000
    assert "<script" not in figure
    parse(figure)


def test_class_that_begins_with_an_underscore_is_in_the_legend():
    classification = sample_parts.classification(["_none", "other", "third"], 100)
    figure = parse(plots.precision_recall(classification.precision_recall))
    labels = [node.text or "" for node in figure.iter() if node.tag.endswith("text")]
    assert any("_none, AP" in label for label in labels)
