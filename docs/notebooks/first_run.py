# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From a DataFrame to a served model
#
# A shop sorts tickets by team. We fine-tune BERT on tickets of the past, look at its worst rows,
# find labels that are wrong, correct them, train again, compare both runs, and serve the better
# model. On two cores it takes a few minutes.
#
# [In Jupyter](../python.md#in-jupyter) has the commands that open this page there.

# %% tags=["parameters"]
FOLDER = "tickets"  # a new folder, which gets everything that this page writes

# %%
import random
from pathlib import Path

import pandas as pd

from pipeline import Recipe, compare, predict, run, serve

pd.set_option("display.max_colwidth", None)  # whole texts

# %% [markdown]
# ## The data
#
# Tickets of three teams. Yours come from `pd.read_csv`; ours are made up, so that the page needs no
# download.

# %%
OPENINGS = [
    *("Hello,", "Hi there,", "Good morning,", "Dear team,", "To whom it may concern,"),
    *("Again:", "Second time I write:", "Please help,", "Sorry to bother you,"),
]
PROBLEMS = {
    "billing": [
        *("I was charged twice", "the invoice shows the wrong amount"),
        *("the refund is not on my card yet", "I cannot find my receipt"),
        *("the discount was not applied", "my subscription was renewed without asking"),
        *(
            "the tax number is missing on the bill",
            "you took money for a cancelled order",
        ),
    ],
    "shipping": [
        *("my parcel has not arrived", "the tracking has not moved for days"),
        *("the box came damaged", "the courier left it with someone I do not know"),
        *("one item was missing in the box", "I need another delivery address"),
        *("the driver rang once and left", "it went to the wrong street"),
    ],
    "technical": [
        *("the app crashes when I open it", "I cannot log in any more"),
        *("the reset mail never comes", "the page stays white"),
        *("the update deleted my settings", "the scanner does not connect"),
        *("syncing stops halfway", "the screen freezes after a minute"),
    ],
}
DETAILS = [
    *(
        "since Monday",
        "after the holidays",
        "again",
        "for the third time",
        "this morning",
    ),
    *("with the blue lamp", "with the camera", "with my new phone", "with the headset"),
]
CLOSINGS = [
    "Thanks!",
    "Please hurry.",
    "What can I do?",
    "Regards, Kim",
    "Best, Alex",
    "",
]

rng = random.Random(1)
rows = []
for _ in range(1200):
    team = rng.choice(list(PROBLEMS))
    parts = [rng.choice(part) for part in (OPENINGS, PROBLEMS[team], DETAILS, CLOSINGS)]
    rows.append({"ticket": "{} {} {}. {}".format(*parts).strip(), "team": team})
tickets = pd.DataFrame(rows).drop_duplicates("ticket", ignore_index=True)

# %% [markdown]
# Nobody's labels are perfect. About one ticket in twelve was filed under the wrong team. `truth`
# stands for a person who reads a ticket again; the model never sees it.

# %%
truth = tickets.set_index("ticket")["team"].copy()
for index in tickets.index:
    if rng.random() < 1 / 12:
        wrong = [team for team in PROBLEMS if team != tickets.loc[index, "team"]]
        tickets.loc[index, "team"] = rng.choice(wrong)

# %% output="table ticket team"
tickets.head()

# %% [markdown]
# ## The recipe
#
# `Recipe.from_data` finds the text and the label, splits the rows, and chooses settings. It shows
# each guess with its reason, and what a run would warn about.

# %% output="html ticket team epochs"
recipe = Recipe.from_data(tickets, FOLDER)
recipe.inspection

# %% [markdown]
# ## The first run
#
# One call checks the data, fine-tunes, evaluates, and pushes the model if it is good enough.

# %% output="html pushed accuracy"
first = run(recipe)
first

# %% [markdown]
# The report is one page: data, training, metrics, confusions, examples.

# %% output="html iframe"
first.report

# %% [markdown]
# ## The worst rows
#
# These rows of the split `eval` have the highest loss: the model is sure of another team. Read them.

# %% output="table ticket label prediction loss"
worst = first.worst_rows()
worst[["ticket", "label", "prediction", "loss"]].head(8)

# %% [markdown]
# The model is right, and the label is wrong. How many of the ten worst labels are wrong?

# %% output="number 7 10"
ten = worst.head(10)
int((ten["label"] != ten["ticket"].map(truth)).sum())

# %% [markdown]
# The rows that it was trained on come from the same people. A suspect is a row of either split for
# which the model predicts another team with a high probability.

# %% output="table ticket team prediction probability"
predictions = predict(first, tickets)
is_suspect = (predictions["prediction"] != tickets["team"]) & (
    predictions["probability"] > 0.7
)
suspects = predictions[is_suspect]
suspects.head(8)

# %% [markdown]
# ## The correction
#
# A person reads the suspects, and only those. Never take over the predictions unread: the model
# would be evaluated on its own opinion. The number of labels that change:

# %% output="number 60 150"
filed = tickets.set_index("ticket")["team"]
corrected = filed.copy()
corrected[suspects["ticket"]] = truth[suspects["ticket"]]
int((corrected != filed).sum())

# %% [markdown]
# The project keeps its splits as files. We change labels and no split, so that both models are
# evaluated on the same tickets.

# %%
for name in ("train", "eval"):
    file = Path(FOLDER, "data", f"{name}.csv")
    split = pd.read_csv(file)
    split["team"] = split["ticket"].map(corrected)
    split.to_csv(file, index=False)

# %% [markdown]
# ## The second run
#
# The recipe is the same. Now there is a pushed model, the champion: it is evaluated on the corrected
# rows as well, and the new model must not be worse.

# %% output="html pushed accuracy"
second = run(recipe)
second

# %% [markdown]
# The gain in accuracy, each run on its own labels:

# %% output="number 0.03 0.15"
round(second.metrics["accuracy"] - first.metrics["accuracy"], 3)

# %% [markdown]
# ## The comparison
#
# Is the model better, or only the labels? `compare` uses the rows whose text and label are the same
# in both runs, and tests whether a difference could be chance. A corrected row is not among them.

# %% output="html accuracy"
compare(first, second)

# %% [markdown]
# The accuracy on these rows is equal: the first model was right in spite of wrong labels, and looked
# worse than it was. The loss fell: the second model is surer.

# %% [markdown]
# ## Serving
#
# The server takes raw texts. Its API is that of TensorFlow Serving, so your client may be any
# program that sends JSON to `server.url`.

# %% output="text 'class': 'billing'"
with serve(second) as server:
    predictions = server.predict(["My card was debited two times."])
predictions

# %% [markdown]
# Next: [Python](../python.md), [your own data](../data.md), [the report](../report.md), [retraining](../retraining.md), and
# [serving](../serving.md) without a notebook.
