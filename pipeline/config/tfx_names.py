"""Names that TFX writes to ML Metadata and to compiled jobs, without an import of TFX.

TFX names a component after its class.
"""

EXAMPLE_GEN = "ImportExampleGen"
DATA_GATE = "DataGate"
TRANSFORM = "Transform"
TUNER = "Tuner"
HYPERPARAMETERS = "Hyperparameters"
TRAINER = "Trainer"
EVALUATOR = "Evaluator"
SERVING_CHECK = "ServingCheck"
MODEL_CHECKS = "ModelChecks"
PUSHER = "AtomicPusher"
REPORT = "Report"
# The command `override` records its push as an execution of this type.
OVERRIDE = "Override"

# Outputs: the component, and the key of its artifact.
EXAMPLES = (EXAMPLE_GEN, "examples")
DATA_VERDICT = (DATA_GATE, "verdict")
MODEL = (TRAINER, "model")
MODEL_RUN = (TRAINER, "model_run")
MODEL_BLESSING = (EVALUATOR, "blessing")
MODEL_VERDICT = (EVALUATOR, "verdict")
INFRA_BLESSING = (SERVING_CHECK, "blessing")
MODEL_CHECKS_BLESSING = (MODEL_CHECKS, "blessing")
PUSHED_MODEL = (PUSHER, "pushed_model")
PAGE = (REPORT, "report")

# Directory below the pipeline root with the results of checks, which ModelChecks keeps.
CHECK_RESULTS = "check_results"

# Types of artifacts.
MODEL_TYPE = "Model"
PUSHED_MODEL_TYPE = "PushedModel"

# Import paths of the functions that Transform, the Tuner and the Trainer call.
PREPROCESSING_FN = "modules.data.preprocessing.preprocessing_fn"
TUNER_FN = "modules.training.tuner.tuner_fn"
RUN_FN = "modules.training.run_fn.run_fn"
