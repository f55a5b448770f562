"""The names of the components, by what they work on."""

DATA = (
    "ImportExampleGen",
    "ImportSchemaGen",
    "StatisticsGen",
    "ExampleValidator",
    "SchemaGen",
    "DataGate",
)
RELEASE = ("Champion", "Evaluator", "ServingCheck", "AtomicPusher", "Report")
MODEL = ("Trainer", *RELEASE)
EVERYTHING = (*DATA, "Transform", "Hyperparameters", *MODEL)
