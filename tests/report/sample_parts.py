"""Parts of made-up reports."""

import dataclasses
import math

import numpy as np

from contracts.packing import Packing
from contracts.records.checks import CheckResult, ShownRow, Table
from contracts.records.data import DataVerdict, Lengths, SplitProfile
from contracts.records.evaluation import (
    Estimate,
    MetricVerdict,
    PairedTest,
    Slice,
    Verdict,
)
from contracts.records.probabilities import (
    Calibration,
    CalibrationBin,
    Decision,
    DecisionPoint,
    TemperatureScaling,
)
from contracts.records.serving import ServingReport
from contracts.task.abstention import Point
from modules.training.trials import Trial
from report.content import (
    Abstention,
    Batch,
    Classification,
    Column,
    Curve,
    LineageStep,
    PrecisionRecall,
    PredictedRow,
    Search,
    SeedTraining,
    Split,
    Training,
)

TEXTS = (
    "The fire at the Silverlode Electronics factory in Lyon came before a tour by "
    "safety inspectors.",
    "A study of 28,000 people showed that red meat raises the risk of heart disease.",
    "Wexcombe Robotics is planning to shrink the workforce at its Oslo plant by 300.",
    "In the Busan mayoral election, Jolanta Yarrow ended up 590 votes behind.",
    "Drummoch Industries has issued a recall of 1,400 camping stoves.",
    "After seven straight losses, the Perth Monarchs decided to fire their coach.",
)


COMPONENTS = {
    "ImportExampleGen": 2.1,
    "StatisticsGen": 6.4,
    "DataGate": 1.9,
    "Transform": 31.2,
    "Trainer": 92.7,
    "Evaluator": 21.4,
    "ServingCheck": 14.9,
}


def metric(name, value, majority=0.5, **bounds):
    """Returns a metric, and its value for the most frequent class."""
    return MetricVerdict(metric=name, value=value, **bounds), majority


def paired(a, b, p_value):
    """Returns a test of two accuracies."""
    return PairedTest(
        metric="accuracy",
        rows=200,
        a=a,
        b=b,
        difference=b - a,
        low=0.005,
        high=0.09,
        p_value=p_value,
        method="McNemar",
    )


def evaluated(metrics, **verdict):
    """Returns the fields of a report about metrics.

    Args:
      metrics: Results of `metric`.
      **verdict: Fields of the verdict.
    """
    fields = {"blessed": True, "splits": ["test"], "champion": None, **verdict}
    return {
        "verdict": Verdict(metrics=[metric for metric, _ in metrics], **fields),
        "intervals": {
            m.metric: (max(m.value - 0.037, -1), min(m.value + 0.034, 1))
            for m, _ in metrics
        },
        "majority": {m.metric: value for m, value in metrics if value is not None},
    }


def class_metrics(names, champion=None):
    random = np.random.default_rng(0)
    metrics = []
    for name in names:
        for kind in ("precision", "recall", "f1"):
            value = float(random.uniform(0.55, 0.98))
            before = None if champion is None else value + champion
            metrics.append(metric(f"{kind}/{name}", value, None, champion=before))
    return metrics


def fitted():
    """Returns a temperature and a threshold, as `Training` has them."""
    before = {"expected_calibration_error": 0.081, "brier": 0.171, "loss": 0.64}
    after = {"expected_calibration_error": 0.032, "brier": 0.158, "loss": 0.477}

    def point(threshold):
        recall = (1 - threshold) ** 0.3
        metrics = {"precision": 0.6 + 0.4 * threshold, "recall": recall, "f1": recall}
        return DecisionPoint(threshold=threshold, value=recall, metrics=metrics)

    return {
        "calibration": TemperatureScaling(
            temperature=2.13,
            split="eval",
            before=dict.fromkeys(("eval", "test"), Calibration(**before)),
            after=dict.fromkeys(("eval", "test"), Calibration(**after)),
        ),
        "decision": Decision(
            by="the lowest cost",
            value="mean cost",
            threshold=0.371,
            split="eval",
            default={"eval": point(0.5), "test": point(0.5)},
            chosen={"eval": point(0.371), "test": point(0.371)},
            curve=[point(n / 20) for n in range(1, 20)],
        ),
    }


def abstention(rows):
    """Returns two splits whose improbable classes are not predicted."""
    shares = np.linspace(0, 0.8, 50)
    points = [
        Point(min_probability=least, abstained=int(rows * least**4), accuracy=0.92)
        for least in (0.6, 0.7, 0.8, 0.9, 0.95)
    ]
    points[-1] = dataclasses.replace(points[-1], abstained=rows, accuracy=math.nan)
    return [
        Abstention(
            split=name,
            rows=rows,
            curve=curve(shares, start + (1 - start) * shares),
            points=points,
        )
        for name, start in (("eval", 0.93), ("test", 0.9))
    ]


def training(metric, seeds, **fitted):
    random = np.random.default_rng(1)
    steps = np.arange(10, 153, 10)
    runs = []
    for seed in range(seeds):
        noise = random.normal(0, 0.015, len(steps))
        losses = 0.15 + 0.55 * np.exp(-steps / 50) + noise
        at = np.array([38, 76, 114, 152])
        scores = np.array([0.71, 0.88, 0.925, 0.92]) - 0.02 * seed
        evaluations = {
            metric: scores,
            "validation_loss": np.array([0.67, 0.35, 0.30, 0.31]) + 0.02 * seed,
            "f1": scores + 0.01,
            "matthews": scores - 0.1,
            "auc": scores + 0.03,
            "recall/equivalent": scores,
        }
        runs.append(
            SeedTraining(
                seed=seed,
                losses=curve(steps, losses),
                evaluations={name: curve(at, y) for name, y in evaluations.items()},
                steps=152,
                best_step=114,
                stopped="no better evaluation for 2 in a row" if seed == 1 else None,
            )
        )
    rates = np.minimum(steps / 15, (152 - steps) / 137) * 5e-5
    return Training(
        metric=metric,
        best_seed=0,
        seeds=runs,
        learning_rates=curve(steps, np.maximum(rates, 0)),
        facts={
            "optimizer": "AdamW, weight decay 0.01",
            "precision": "bfloat16",
            "started from": "the pre-trained encoder",
        },
        **fitted,
    )


def curve(x, y):
    return Curve(x=np.asarray(x, float).tolist(), y=np.asarray(y, float).tolist())


def classification(names, rows):
    random = np.random.default_rng(2)
    count = len(names)
    labels = random.integers(0, count, rows)
    wrong = (labels + random.integers(1, count, rows)) % count
    predictions = np.where(random.random(rows) < 0.85, labels, wrong)
    confusion = np.histogram2d(labels, predictions, count)[0].astype(int)
    confidences = random.beta(6, 1.2, rows)
    is_right = labels == predictions
    shown = names[1:] if count == 2 else names
    return Classification(
        confusion=confusion.tolist(),
        precision_recall=[
            precision_recall(name, is_right * confidences + random.random(rows) / 2)
            for name in shown
        ],
        calibration=calibration(confidences, is_right),
        expected_calibration_error=0.0413,
    )


def precision_recall(name, scores):
    random = np.random.default_rng(len(name))
    is_positive = random.random(len(scores)) < scores / scores.max()
    hits = np.cumsum(is_positive[np.argsort(-scores)])
    precision = hits / np.arange(1, len(hits) + 1)
    recall = hits / hits[-1]
    return PrecisionRecall(
        class_name=name,
        curve=curve(recall, precision),
        average_precision=float(np.mean(precision[is_positive])),
        positives=float(is_positive.mean()),
    )


def calibration(confidences, is_right):
    bins = []
    for low in np.arange(10) / 10:
        chosen = (confidences > low) & (confidences <= low + 0.1)
        bins.append(
            CalibrationBin(
                low=float(low),
                high=float(low) + 0.1,
                rows=int(chosen.sum()),
                confidence=float(confidences[chosen].mean()) if chosen.any() else "nan",
                accuracy=float(is_right[chosen].mean()) if chosen.any() else "nan",
            )
        )
    return bins


def sliced(has_champion):
    """Returns the fields of a verdict about slices."""
    values = {
        "pair_length": ("short", "medium", "long"),
        "word_overlap": ("low", "medium", "high"),
        "region": ("north", "south", "(missing)"),
    }
    slices = [
        Slice(
            feature=feature,
            value=value,
            rows=30 + 17 * index,
            metrics={"accuracy": 0.96 - 0.03 * index, "f1": 0.95 - 0.04 * index},
            champion={"accuracy": 0.94 - 0.02 * index, "f1": 0.95 - 0.04 * index}
            if has_champion
            else {},
        )
        for feature, names in values.items()
        for index, value in enumerate(names)
    ]
    return {"slices": slices}


def serving_check(**fields):
    return ServingReport(
        **{
            "reasons": [],
            "rows": 64,
            "max_skew": {"serving_default": 6.3e-7, "serve_examples": 5e-7},
            "latency_ms": {"p50": 12.5, "p99": 16.5},
            "rows_per_second": 164.9,
            "load_seconds": 1.22,
            "peak_memory_bytes": 948_551_680,
            "tf_serving_version": "2.16",
            "text_version": "2.12.1",
            **fields,
        }
    )


def checks(first="passed", texts=TEXTS):
    """Returns the results of checks that no code knows.

    Args:
      first: The status of the first one.
      texts: The texts of the rows of the second one.
    """
    values = (("north", 41, 0.951), ("south", 58, 0.897), ("(missing)", 64, 0.86))
    return [
        CheckResult(
            name="by_region",
            title="Regions",
            status=first,
            sentence="accuracy differs most between north and (missing)",
            advice="" if first == "passed" else "add rows of the region (missing)",
            error="E-region",
            figures={"rows": 163, "largest difference": estimate(0.091, 0.012, 0.17)},
            table=Table(
                columns=["region", "rows", "accuracy", "champion", "p"],
                rows=[
                    [
                        region,
                        rows,
                        estimate(value, value - 0.06, value + 0.04),
                        estimate(value - 0.01, value - 0.07, value + 0.03),
                        0.34,
                    ]
                    for region, rows, value in values
                ],
            ),
            seconds=2.1,
        ),
        CheckResult(
            name="my_checks:Exclamations",
            title="Exclamations",
            status="warning",
            sentence="the prediction changes in 9 of 40 rows",
            advice="add rows to train whose label does not depend on them",
            figures={"share changed": estimate(0.225, 0.108, 0.385)},
            rows=[
                ShownRow(
                    texts={"before": text, "after": f"{text}!"},
                    facts={"label": "equivalent", "why": text, "loss": 0.25},
                )
                for text in texts
            ],
            seconds=12.4,
        ),
        CheckResult(
            name="speed",
            title="Speed",
            status="passed",
            sentence="a request takes 0.98 of the time",
            figures={"model (ms)": 12.51, "champion (ms)": 12.77},
            seconds=3,
        ),
        CheckResult(
            name="must_pass",
            title="Required rows",
            status="not applicable",
            sentence="`file` is not set",
        ),
    ]


def estimate(value, low, high):
    """Returns an estimate with its interval."""
    return Estimate(value=value, interval=(low, high))


def worst_rows(task, count):
    random = np.random.default_rng(4)
    return [worst_row(task, index, random) for index in range(count)]


def worst_row(task, index, random):
    texts = [
        TEXTS[(index + column) % len(TEXTS)] for column in range(len(task.text_columns))
    ]
    if task.classes is None:
        label, prediction, probabilities = "4.2", f"{1 + index / 20:.3f}", {}
        loss = (4.2 - float(prediction)) ** 2
    else:
        names = task.classes
        shares = random.dirichlet(np.ones(len(names)) / 2)
        right = int(np.argsort(shares)[-2])
        label, prediction = names[right], names[int(shares.argmax())]
        probabilities = dict(zip(names, shares.tolist(), strict=True))
        loss = float(-np.log(shares[right]))
    words = [word for text in texts for word in [*text.lower().split(), "[SEP]"]]
    return PredictedRow(
        id=1400 + index,
        texts=texts,
        label=label,
        prediction=prediction,
        probabilities=probabilities,
        loss=loss,
        tokens=["[CLS]", *words],
        cut=index % 7 if index % 3 == 0 else 0,
    )


def data(task, gate_rows):
    """Returns the fields of a report about data."""
    rows = {"train": 1200, "eval": 200, "test": gate_rows}
    return {
        "splits": [split(task, name, count) for name, count in rows.items()],
        "packing": Packing(max_seq_length=64),
        "data": DataVerdict(
            profile={name: profile(task, count) for name, count in rows.items()},
            warnings=["train: 14 of 1,200 rows (1.2 %) repeat another row"],
            notes=["test: no value of `idx` is in train"],
            card={
                "source": "/srv/sample_data",
                "fingerprint": "ca15aaedf65e69d8d9c4b337476d0eb89333fe8af8454f91f391ba2"
                "b41",
                "license": "CC0-1.0",
                "files": ["train.tsv, eval.tsv, test.tsv: tsv: tab, no quoting"],
                "splits": {name: {"rows": count} for name, count in rows.items()},
            },
        ),
    }


def split(task, name, rows):
    columns = [
        column(text, rows, "STRING", 101.3, 27, 214) for text in task.text_columns
    ]
    columns.append(column(task.label_column, rows, "INT", 0.5, 0, 1))
    return Split(name=name, rows=rows, columns=columns)


def profile(task, rows):
    random = np.random.default_rng(rows)
    if task.classes is None:
        labels = {"0.0": 20, "2.5": rows - 60, "4.95": 40}
    else:
        shares = random.dirichlet(np.full(len(task.classes), 20))
        counts = np.round(shares * rows).astype(int).tolist()
        labels = dict(zip(task.classes, counts, strict=True))
    counts, edges = np.histogram(random.normal(48, 9, rows), 24, (16, 88))
    return SplitProfile(
        rows=rows,
        labels=labels,
        tokens={"50%": 48},
        lengths=Lengths(
            edges=edges.tolist(),
            counts=counts.tolist(),
            cut_rows=int(counts[16:].sum()),
            cut_tokens=int(counts[16:].sum()) * 5,
            unknown_share=0.0314,
            tokens_per_word=1.25,
        ),
    )


def column(name, rows, kind, mean, minimum, maximum):
    tops = [(text, 3) for text in TEXTS[:3]] if kind == "STRING" else [("1", rows // 2)]
    return Column(
        name=name,
        kind=kind,
        missing=0,
        distinct=rows - 14 if kind == "STRING" else 2,
        mean=mean,
        minimum=minimum,
        maximum=maximum,
        top_values=tops,
    )


def batch():
    random = np.random.default_rng(5)
    lengths = random.integers(30, 57, 32)
    position = np.arange(64)[None, :]
    mask = position < lengths[:, None]
    ids = np.where(mask, random.integers(1000, 30000, mask.shape), 0)
    segments = mask & (position >= lengths[:, None] // 2)
    return Batch(
        input_word_ids=ids.tolist(),
        input_mask=mask.astype(int).tolist(),
        input_type_ids=segments.astype(int).tolist(),
    )


def lineage():
    def hash_of(digit):
        return (f"{digit}b726d42b956b286" * 4)[:64]

    libraries = {"tensorflow": "2.16.2", "tensorflow-text": "2.16.1"}
    return [
        LineageStep(
            kind="data",
            name="sample_data",
            version=hash_of(1),
            uri="/srv/sample_data",
            details={"license": "CC0-1.0", "rows": "1,600"},
        ),
        LineageStep(kind="code", name="modules.training", version=hash_of(2)),
        LineageStep(
            kind="encoder",
            name="sentence-transformers__all-MiniLM-L6-v2",
            version=hash_of(4),
            uri="package:embeddings/sentence-transformers__all-MiniLM-L6-v2",
            details={"layers": "6", "hidden size": "384"},
        ),
        LineageStep(
            kind="libraries", name="Python 3.11.7", version="3.11.7", details=libraries
        ),
        LineageStep(
            kind="model",
            name="1795571468258",
            version=hash_of(5),
            uri="/srv/output/sample/serving/sample/1795571468258",
            details={"checkpoint key": "870fdcb7003ea641", "best step": "114"},
        ),
    ]


def search():
    trials = [
        ({"learning_rate": 5e-5, "epochs": 4}, "completed", 0.905, [0.71, 0.88, 0.905]),
        ({"learning_rate": 1.2e-5, "epochs": 2}, "completed", 0.84, [0.69, 0.84]),
        ({"learning_rate": 1.8e-4, "epochs": 3}, "failed", None, []),
        ({"learning_rate": 9.1e-5, "epochs": 3}, "completed", 0.925, [0.79, 0.925]),
        ({"learning_rate": 1.1e-5, "epochs": 3}, "pruned", None, [0.52]),
    ]
    return Search(
        metric="accuracy",
        space={"learning_rate": [1e-5, 2e-4, "log"], "epochs": [2, 3, 4]},
        best=3,
        trials=[
            Trial(
                number=number,
                values=values,
                key=f"{number}",
                is_new=True,
                state=state,
                value=value,
                evaluations=[(100 * (at + 1), y) for at, y in enumerate(scores)],
                seconds=61.2,
                reason="TrainingError: The loss value is NaN <b>" if not scores else "",
            )
            for number, (values, state, value, scores) in enumerate(trials)
        ],
    )
