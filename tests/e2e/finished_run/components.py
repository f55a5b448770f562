"""The names of the components, by what they work on."""

DATA = (
    "ImportExampleGen",
    "ImportSchemaGen",
    "StatisticsGen",
    "ExampleValidator",
    "SchemaGen",
    "DataGate",
)
COMPARED = ("Champion", "Evaluator", "ModelChecks", "AtomicPusher", "Report")
RELEASE = (*COMPARED, "ServingCheck")
MODEL = ("Trainer", *RELEASE)
EVERYTHING = (*DATA, "Transform", "Hyperparameters", *MODEL)
